#include "engine/codec/snapshot.h"

#include "engine/base/hash.h"

namespace sandglass::engine::codec {
namespace {

constexpr std::size_t kVersionBytes = 4;
constexpr std::size_t kSumBytes = 8;

std::string checksum(std::string_view data) {
  return std::string(base::sha256(data).view().substr(0, kSumBytes));
}

}  // namespace

std::string seal_snapshot(std::uint32_t version, std::string_view body) {
  std::string sealed;
  sealed.reserve(kVersionBytes + body.size() + kSumBytes);
  for (int shift = 24; shift >= 0; shift -= 8) sealed.push_back(static_cast<char>(version >> shift & 0xFF));
  sealed += body;
  sealed += checksum(sealed);
  return sealed;
}

base::Result<std::uint32_t> snapshot_version(std::string_view bytes) {
  if (bytes.size() < kVersionBytes + kSumBytes ||
      checksum(bytes.substr(0, bytes.size() - kSumBytes)) != bytes.substr(bytes.size() - kSumBytes)) {
    return base::fail(base::Code::checkpoint_undecodable,
                      "the saved value is damaged: its checksum does not match");
  }
  std::uint32_t version = 0;
  for (std::size_t i = 0; i < kVersionBytes; ++i)
    version = version << 8 | static_cast<std::uint8_t>(bytes[i]);
  return version;
}

base::Result<std::string_view> open_snapshot(std::uint32_t version, std::string_view bytes) {
  const auto found = snapshot_version(bytes);
  if (!found) return std::unexpected(found.error());
  if (*found != version) {
    return base::fail(base::Code::checkpoint_undecodable,
                      "the saved value has version " + std::to_string(*found) + ", this program reads " +
                          std::to_string(version));
  }
  return bytes.substr(kVersionBytes, bytes.size() - kVersionBytes - kSumBytes);
}

}  // namespace sandglass::engine::codec
