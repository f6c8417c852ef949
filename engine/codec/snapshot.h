// Snapshots of C++ values: cereal portable binary, with the caller's schema version in front and a checksum
// behind. Decider snapshots are rebuildable: one that does not open is ignored. A workflow's checkpoint bytes
// are history.
//
//   version(4, big-endian) · body · first 8 bytes of SHA-256(version ‖ body)
//
// Values need cereal's serialize() and the cereal/types/ headers of their members, included by the caller.
// Thread rule: pure functions. Errors: checkpoint_undecodable.
#pragma once

#include <cereal/archives/portable_binary.hpp>
#include <cstdint>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::engine::codec {

std::string seal_snapshot(std::uint32_t version, std::string_view body);
/// The body, if checksum and version hold; it views into `bytes`.
base::Result<std::string_view> open_snapshot(std::uint32_t version, std::string_view bytes);
/// The version in front, checksum verified; for messages about a version that is not the expected one.
base::Result<std::uint32_t> snapshot_version(std::string_view bytes);

template <class Value>
std::string save_snapshot(std::uint32_t version, const Value& value) {
  std::ostringstream out;
  {
    cereal::PortableBinaryOutputArchive archive(out);
    archive(value);
  }
  return seal_snapshot(version, out.view());
}

template <class Value>
base::Result<Value> load_snapshot(std::uint32_t version, std::string_view bytes) {
  const auto body = open_snapshot(version, bytes);
  if (!body) return std::unexpected(body.error());
  try {
    std::istringstream in{std::string(*body)};
    cereal::PortableBinaryInputArchive archive(in);
    Value value{};
    archive(value);
    if (in.peek() != std::istringstream::traits_type::eof()) {
      return base::fail(base::Code::checkpoint_undecodable,
                        "bytes follow the saved value: its shape has changed");
    }
    return value;
  } catch (const std::exception& error) {
    return base::fail(base::Code::checkpoint_undecodable,
                      std::string("the saved value does not fit this program's type: ") + error.what());
  }
}

}  // namespace sandglass::engine::codec
