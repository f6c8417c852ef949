// What both codecs of this folder share. Not for others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/fold/stream_kind.h"
#include "sandbox-runtime/scheduler/admission.h"
#include "schemas/sandglass/record/v1/scheduler.pb.h"

namespace sandglass::sandbox_runtime::scheduler::codec {

namespace fold = engine::fold;
namespace pb = ::sandglass::record::v1;

inline std::unexpected<base::Error> damaged(std::string_view what) {
  return base::fail(base::Code::record_damaged,
                    "bytes of a scheduler stream do not parse: " + std::string(what));
}

inline std::unexpected<base::Error> unknown(std::string_view kind, const fold::EncodedEvent& encoded) {
  return base::fail(base::Code::event_unknown, std::string(kind) + " event type " +
                                                   std::to_string(encoded.type) + " version " +
                                                   std::to_string(encoded.version) +
                                                   " is newer than this program; start a newer Sandglass");
}

template <class Message>
fold::EncodedEvent pack(std::uint32_t type, const Message& message) {
  return {.type = type, .version = 1, .body = message.SerializeAsString()};
}

template <class Message>
bool parse(std::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void to_proto(const Claim& claim, pb::Claim& out);
base::Result<Claim> from_proto(const pb::Claim& claim);
void to_proto(const core::Token& token, pb::Token& out);
core::Token from_proto(const pb::Token& token);

}  // namespace sandglass::sandbox_runtime::scheduler::codec
