// The one gate: who calls, and may they? Every call passes it before any state is touched. What it turns away
// is counted and nothing else (J20): an unauthenticated caller can neither force a sync nor grow a history. A
// known caller without the role is told to whoever keeps the refusals.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/identity/access.h"
#include "engine/identity/identity.h"

namespace sandglass::engine::api {

struct GateLimits {
  std::uint32_t calls_in_flight = 256;
  std::uint32_t streams = 128;
};

/// What is going on at the gate.
struct GateCounters {
  std::uint64_t admitted = 0;
  std::uint64_t unauthenticated = 0;
  std::uint64_t denied = 0;
  std::uint64_t overloaded = 0;
  std::uint32_t in_flight = 0;  // calls and streams
};

/// Thread rule: any thread.
class Gate {
 public:
  explicit Gate(GateLimits limits) : limits_(limits) {}

  /// The identity stream's newest durable state; until it is set everyone is turned away.
  void set_identities(std::shared_ptr<const identity::State> state);

  /// Until then everyone is told so.
  void set_reason(std::string why_nobody_is_admitted);

  /// A place at the gate, given back at destruction.
  class Pass {
   public:
    Pass(Pass&& other) noexcept
        : gate_(other.gate_), streams_(other.streams_), caller(std::move(other.caller)) {
      other.gate_ = nullptr;
    }
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->leave(streams_);
    }
    /// What was open before its token was revoked ends with the next message: unauthenticated then.
    base::Status still_valid() const { return gate_->still_valid(caller); }

   private:
    friend class Gate;
    Pass(Gate* gate, bool streams, identity::Caller who)
        : gate_(gate), streams_(streams), caller(std::move(who)) {}
    Gate* gate_;
    bool streams_;

   public:
    identity::Caller caller;
  };

  /// `authorization` is the header as it came ("Bearer sgt_…"). Errors: unauthenticated, permission_denied,
  /// overloaded, unavailable (still opening).
  /// `denied`, if given, gets the caller whose role does not allow the call.
  base::Result<Pass> admit(std::optional<std::string_view> authorization, identity::Call call, bool streams,
                           std::optional<identity::Caller>* denied = nullptr);

  GateCounters counters() const;

 private:
  void leave(bool streams);
  base::Status still_valid(const identity::Caller& caller) const;
  base::Result<identity::Caller> identify(std::optional<std::string_view> authorization) const;

  GateLimits limits_;
  mutable std::mutex mutex_;
  std::shared_ptr<const identity::State> identities_;
  std::string reason_ = "the engine is still opening its data folder; try again";
  std::atomic<std::uint32_t> calls_{0}, streams_{0};
  std::atomic<std::uint64_t> admitted_{0}, unauthenticated_{0}, denied_{0}, overloaded_{0};
};

}  // namespace sandglass::engine::api
