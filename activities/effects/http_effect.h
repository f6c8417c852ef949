// One effect: an HTTP request on a connection that engine/net checked and made, and what is known about it
// afterwards (J16, FR-3). Blocking.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/ports.h"
#include "engine/base/unique_fd.h"
#include "engine/core/ports/effect.h"
#include "engine/net/dialer.h"
#include "engine/net/gate.h"
#include "engine/net/host.h"
#include "engine/net/rules.h"
#include "engine/net/verdict.h"

namespace sandglass::activities::effects {

struct EffectRules {
  engine::net::RuleSet allow;
  bool public_targets = true;
  std::string ca_file;  // empty: the machine's bundle
};

/// What both checks and requests need; outlives them. Thread rule: shared by all attempts.
struct EffectWorld {
  const engine::net::Gate& gate;
  engine::net::Dialer& dialer;
  engine::base::Clock& clock;
  EffectRules rules;
};

/// An intent with the moment of its submission, on CLOCK_MONOTONIC.
struct TimedIntent {
  engine::core::EffectIntent intent;
  engine::base::MonotonicNs submitted_ns = 0;

  bool permit_expired(engine::base::MonotonicNs now) const {
    return now - submitted_ns >= intent.permit_ms * 1'000'000;
  }
};

struct Attempt {
  engine::core::EffectResult result;  // `verdict` is left empty
  engine::net::Verdict verdict;
};

/// "http://host:port" of an acceptable URL; attempts on one target are counted together.
engine::base::Result<std::string> target_of(const engine::core::EffectIntent& intent);

/// not_done: nothing of the request was sent: refused by the network rules, malformed, no connection or no
/// TLS, permit expired. done: a whole answer came, whatever its status. unknown: everything else. Never tries
/// twice, follows no redirect, and is cut `attempt_timeout_ms` after it began. Messages and logs hold no
/// query (FR-173).
Attempt perform(const EffectWorld& world, const TimedIntent& timed);

/// The part of perform() after the dial: one request and its answer on `connection`, which leads to
/// `address`, cut at `cut_ns`. The intent is one that perform() would accept, and `url` its URL.
engine::core::EffectResult converse(const EffectWorld& world, const TimedIntent& timed,
                                    const engine::net::HttpUrl& url, const std::string& address,
                                    engine::base::UniqueFd connection, engine::base::MonotonicNs cut_ns);

/// Once, before the first thread.
void start_http();

}  // namespace sandglass::activities::effects
