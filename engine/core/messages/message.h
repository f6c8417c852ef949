// What stream kinds say to each other. Delivered at least once and applied once (J18); encoded by
// engine/codec. Clear fields only: user content travels as the message's one payload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "engine/base/codes.h"
#include "engine/core/one_of.h"
#include "engine/core/payload.h"
#include "engine/core/stream_id.h"

namespace sandglass::engine::core {

/// run → admission: a sandbox is wanted. `correlation` of the message is the claim's path inside the run.
struct LeaseRequested {
  std::string template_name;
  std::string tenant;
  std::string user;
  std::int64_t wait_timeout_ms = 30'000;
  friend bool operator==(const LeaseRequested&, const LeaseRequested&) = default;
};

/// run → admission: the claim is no longer wanted.
struct LeaseCancelled {
  friend bool operator==(const LeaseCancelled&, const LeaseCancelled&) = default;
};

/// admission → pool: the reservation is made; give `run` a sandbox and answer it under the same correlation.
struct LeaseReserved {
  StreamId run;
  std::string reservation;
  std::string template_name;
  std::string tenant;
  std::string user;
  friend bool operator==(const LeaseReserved&, const LeaseReserved&) = default;
};

/// pool → run: the sandbox is ready. `token` is the pool's counter; the host refuses an older one.
struct LeaseGranted {
  std::string sandbox;
  std::uint64_t token = 0;
  std::int64_t ttl_ms = 0;
  std::string provider;
  std::string unenforced;  // comma-separated best-effort limits that this machine cannot enforce
  friend bool operator==(const LeaseGranted&, const LeaseGranted&) = default;
};

/// admission or pool → run: no sandbox. `code` says why (queue_timeout, quota_exceeded, limit_unenforceable,
/// …).
struct LeaseRefused {
  base::Code code = base::Code::internal;
  std::string message;
  friend bool operator==(const LeaseRefused&, const LeaseRefused&) = default;
};

/// admission → run: the claim waits in the queue; `position` counts from 1. Shown, never acted on.
struct LeaseQueued {
  std::uint32_t position = 0;
  friend bool operator==(const LeaseQueued&, const LeaseQueued&) = default;
};

/// pool → run: do you still need it? Answered by LeaseKept or LeaseReturned; silence ends the lease.
struct LeaseExpiring {
  std::string sandbox;
  std::uint64_t token = 0;
  friend bool operator==(const LeaseExpiring&, const LeaseExpiring&) = default;
};

/// run → pool: renew.
struct LeaseKept {
  std::string sandbox;
  std::uint64_t token = 0;
  friend bool operator==(const LeaseKept&, const LeaseKept&) = default;
};

/// run → pool: give back; the sandbox is destroyed.
struct LeaseReturned {
  std::string sandbox;
  std::uint64_t token = 0;
  friend bool operator==(const LeaseReturned&, const LeaseReturned&) = default;
};

/// pool → run: the lease has ended without the run asking (expired, lost) or after it asked (code ok).
struct LeaseEnded {
  std::string sandbox;
  std::uint64_t token = 0;
  base::Code code = base::Code::ok;
  friend bool operator==(const LeaseEnded&, const LeaseEnded&) = default;
};

/// pool → admission: the reservation is free again (destroyed and verified, or creation failed).
struct ReservationFreed {
  std::string reservation;
  friend bool operator==(const ReservationFreed&, const ReservationFreed&) = default;
};

/// run → approvals: a person must decide. The payload is JSON that shows tool, target, arguments, level,
/// parts with their public digests. `arguments` is what the decision is bound to.
struct ApprovalRequested {
  std::string tenant;
  std::string user;  // for whom the run acts; at level 3 somebody else must decide
  std::string tool;
  std::uint32_t level = 2;
  ContentDigest arguments;
  std::int64_t expires_ms = 0;  // wall time
  std::uint32_t approvers = 1;
  friend bool operator==(const ApprovalRequested&, const ApprovalRequested&) = default;
};

/// run → approvals: the run has ended, or no longer waits for what it asked under this correlation.
struct ApprovalWithdrawn {
  friend bool operator==(const ApprovalWithdrawn&, const ApprovalWithdrawn&) = default;
};

/// approvals → run. `code`: ok = approved, approval_denied, approval_expired. The payload holds who, when and
/// why.
struct ApprovalDecided {
  base::Code code = base::Code::ok;
  ContentDigest arguments;
  friend bool operator==(const ApprovalDecided&, const ApprovalDecided&) = default;
};

/// What a person says became of an effect whose outcome is unknown. Stored.
enum class OutcomeVerdict : std::uint8_t {
  done = 0,      // it happened
  not_done = 1,  // it did not
  again = 2,     // do it (once more), under a new key
};
constexpr std::string_view name_of(OutcomeVerdict verdict) {
  switch (verdict) {
    case OutcomeVerdict::done:
      return "done";
    case OutcomeVerdict::not_done:
      return "not-done";
    case OutcomeVerdict::again:
      return "again";
  }
  return "unknown";
}

/// run → approvals: an effect was sent and nobody knows whether it happened; a person finds out and says.
/// What was to be sent is `input`, a payload of the run; `arguments`, its digest, is what the answer is bound
/// to.
struct OutcomeAsked {
  std::string tenant;
  std::string user;
  std::string tool;
  std::uint32_t level = 2;
  std::string path;    // of the operation
  std::string target;  // clear, no secret
  std::string key;
  std::uint32_t attempt = 1;
  base::Code code = base::Code::operation_unknown;  // why it is unknown
  std::int64_t sent_ms = 0;                         // when it was intended
  std::int64_t unknown_ms = 0;
  PayloadRef input;
  friend bool operator==(const OutcomeAsked&, const OutcomeAsked&) = default;
};

/// approvals → run. The payload is the effect's result, if it is known (done).
struct OutcomeDecided {
  ContentDigest arguments;
  OutcomeVerdict verdict = OutcomeVerdict::not_done;
  std::string by;
  friend bool operator==(const OutcomeDecided&, const OutcomeDecided&) = default;
};

using AnyMessageBody =
    std::variant<LeaseRequested, LeaseCancelled, LeaseReserved, LeaseGranted, LeaseRefused, LeaseQueued,
                 LeaseExpiring, LeaseKept, LeaseReturned, LeaseEnded, ReservationFreed, ApprovalRequested,
                 ApprovalWithdrawn, ApprovalDecided, OutcomeAsked, OutcomeDecided>;
using MessageBody = OneOf<AnyMessageBody>;

/// A message on its way. (source, target) pairs are in order of (source_seq, index).
struct Message {
  StreamId source;
  StreamId target;
  std::uint64_t source_seq = 0;
  std::uint32_t index = 0;  // place among the messages of the record
  std::string correlation;  // the asker's own name for the exchange, returned in every answer
  bool closing = false;     // the last that this source will ever send to this target
  MessageBody body;
  Payload payload;  // optional
};

/// A message as a command of its target.
struct MessageReceived {
  Message message;
};

}  // namespace sandglass::engine::core

extern template class sandglass::engine::core::OneOf<sandglass::engine::core::AnyMessageBody>;
