// What happens to a refused call (J20): a caller with a valid token finds it again in the refusals stream, at
// a bounded rate; what was malformed, over a limit or beyond that rate is counted only. So no caller can
// force more than a few syncs a minute by being refused.
//
//   refused call ─▶ malformed, over a limit ──────────────▶ counted
//                   unavailable, unknown, a fault of ours ─▶ no refusal
//                   any other ─▶ bucket of its token ─▶ bucket of all ─▶ NoteRefusal, with how many were
//                   dropped
//                                    └─(empty)─▶ dropped, counted ◀─┘
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "engine/api/backend.h"
#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/identity/access.h"
#include "engine/identity/identity.h"

namespace sandglass::engine::api {

struct RefusalLimits {
  std::uint32_t burst = 60;
  std::uint32_t per_minute = 12;
  std::uint32_t token_burst = 20;  // one noisy token leaves room for the others
  std::uint32_t token_per_minute = 6;
};

struct RefusalCounters {
  std::uint64_t malformed = 0;
  std::uint64_t refused = 0;  // by the state of things: recorded or dropped
  std::uint64_t recorded = 0;
  std::uint64_t dropped = 0;
};

/// A call as far as a refusal shows it.
struct RefusedCall {
  identity::Call call = identity::Call::status;
  std::string target;  // as the caller named it
  std::string request_id;
};

/// Thread rule: any thread. Engine and clock outlive it.
class RefusalLog {
 public:
  RefusalLog(EnginePort& engine, const base::Clock& clock, std::string tenant_key, RefusalLimits limits = {});

  void refused(const identity::Caller& caller, const RefusedCall& call, const base::Error& error);
  RefusalCounters counters() const;

 private:
  struct Bucket {
    double tokens = 0;
    base::MonotonicNs at = 0;
  };
  static bool take(Bucket& bucket, base::MonotonicNs now, std::uint32_t burst, std::uint32_t per_minute);
  bool may_record(const std::string& token);

  EnginePort& engine_;
  const base::Clock& clock_;
  const core::DigestKey key_;
  const RefusalLimits limits_;
  mutable std::mutex mutex_;
  Bucket all_;
  std::map<std::string, Bucket> of_token_;
  std::uint64_t untold_ = 0;  // dropped, and not yet told by a record
  std::atomic<std::uint64_t> malformed_{0}, refused_{0}, recorded_{0}, dropped_{0};
};

}  // namespace sandglass::engine::api
