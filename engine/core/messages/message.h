// What stream kinds say to each other. Delivered at least once and applied once (J18); encoded by
// engine/codec. Clear fields only: user content travels as the message's one payload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/codes.h"
#include "engine/core/action.h"
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

/// Who hears of a run's end, by RunEnded under `correlation`. A run that asks is the parent.
struct RunAsker {
  StreamId stream;
  std::string correlation;
  friend bool operator==(const RunAsker&, const RunAsker&) = default;
};

/// any stream → run: start. The payload is the input (JSON). Idempotent by the target's id: a run of the same
/// workflow, tenant and input is attached to, and its end told also when it has ended already; an id that
/// another run has is answered by RunEnded{refused, run_exists}.
struct RunStartRequested {
  std::string workflow;
  std::string version;  // empty: whichever is the newest at each activation; better name one
  std::string tenant, user, session;
  std::string history_root, effect_root;  // empty: the run's own id (J17)
  std::vector<RunAsker> askers;           // empty: the sender, under the message's correlation
  StreamId continues;                     // the run that goes on as this one; else none
  friend bool operator==(const RunStartRequested&, const RunStartRequested&) = default;
};

/// How a run ended, for whoever asked for it. Stored.
enum class RunEnd : std::uint8_t {
  completed = 0,
  failed = 1,
  cancelled = 2,
  terminated = 3,
  refused = 4,  // it was never started: `code` and `message` say why
};
constexpr std::string_view name_of(RunEnd end) {
  switch (end) {
    case RunEnd::completed:
      return "completed";
    case RunEnd::failed:
      return "failed";
    case RunEnd::cancelled:
      return "cancelled";
    case RunEnd::terminated:
      return "terminated";
    case RunEnd::refused:
      return "refused";
  }
  return "unknown";
}

/// run → who asked for it. The payload is the result (completed), or the details of another end (JSON with
/// "message"; of a terminated run the reason as text). To one that asked after the end it comes without: then
/// `result` says where in the records of `run` it stands.
struct RunEnded {
  RunEnd how = RunEnd::completed;
  base::Code code = base::Code::ok;
  FailureSide side = FailureSide::user;
  StreamId run;  // the last one, if the run that was started went on as others
  PayloadRef result;
  std::string message;  // refused: why, without user content
  friend bool operator==(const RunEnded&, const RunEnded&) = default;
};

/// run → the run that it went on as: one of its unread signals, or one that came for it later. In order.
struct RunSignalled {
  std::string name;
  friend bool operator==(const RunSignalled&, const RunSignalled&) = default;
};

/// parent → child, or a run → the one that it went on as: end. The payload is the reason (text).
struct RunStopRequested {
  bool terminate = false;  // at once, without its workflow; else it is cancelled and may clean up
  friend bool operator==(const RunStopRequested&, const RunStopRequested&) = default;
};

/// run → the one that it went on as: these want to hear of the end too.
struct RunAwaited {
  std::vector<RunAsker> askers;
  friend bool operator==(const RunAwaited&, const RunAwaited&) = default;
};

using AnyMessageBody =
    std::variant<LeaseRequested, LeaseCancelled, LeaseReserved, LeaseGranted, LeaseRefused, LeaseQueued,
                 LeaseExpiring, LeaseKept, LeaseReturned, LeaseEnded, ReservationFreed, ApprovalRequested,
                 ApprovalWithdrawn, ApprovalDecided, OutcomeAsked, OutcomeDecided, RunStartRequested,
                 RunEnded, RunSignalled, RunStopRequested, RunAwaited>;
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
