// Messages between streams: core's values ↔ what stands in a record header. Bodies are in
// schemas/sandglass/record/v1/messages.proto.
//
// Thread rule: pure functions. Errors: event_unknown for a type, version or field that this program does not
// know; record_damaged.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/result.h"
#include "engine/codec/header.h"
#include "engine/core/messages/message.h"

namespace sandglass::engine::codec {

/// `payload_slot`: where the caller has put message.payload among the record's slots; nullopt: it has none.
OutMessage encode_message(const core::Message& message, std::optional<std::uint32_t> payload_slot);

/// The message number `index` of the record that `header` heads; `slots` are that record's.
base::Result<core::Message> decode_message(const TurnHeader& header, std::uint32_t index,
                                           const std::vector<core::SlotPtr>& slots);

/// "LeaseRequested" …, for people; "unknown" for a type that this program does not know.
std::string_view message_name(std::uint32_t type);

}  // namespace sandglass::engine::codec
