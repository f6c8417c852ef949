// The approvals stream's events and state as stored bytes, and its stream kind.
// Thread rule: pure functions. Errors: event_unknown for what is newer than this program, record_damaged.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "activities/approvals/approvals.h"
#include "engine/fold/stream_kind.h"

namespace sandglass::activities::approvals::codec {

namespace fold = engine::fold;

struct ApprovalsCodec {
  static fold::EncodedEvent encode(const ApprovalsDecider::Event& event);
  static base::Result<ApprovalsDecider::Event> decode(const fold::EncodedEvent& encoded);
  static std::string encode_state(const ApprovalsState& state);
  static base::Result<ApprovalsState> decode_state(std::string_view bytes);
};

/// For the composition root's registry.
std::shared_ptr<const fold::AnyKind> make_approvals_kind();

}  // namespace sandglass::activities::approvals::codec
