// The pool decider (J21, Q3, Q8): one stream per template. It owns the sandboxes of that template and their
// leases. A sandbox serves one lease and is then destroyed; it is never handed to anyone else (FR-183).
//
//   LeaseReserved ─▶ creating ─▶ leased ⇄ expiring (asked the run; LeaseKept renews) ─▶ destroying ─▶ gone
//                        └─(failed for sure)──────────────────────────────────────────────────────────▶ gone
//                        └─(outcome unknown, called back)──────────────────────────────▶ destroying
//
// What leaves the pool: actions "sandbox.create", "sandbox.renew", "sandbox.destroy". Their `path` is the
// sandbox id, their `key` is the id with the verb, so that a repeated action attaches; their input is the
// JSON object
// {"template", "sandbox", "token", "ttl_ms"}. A create answers with bytes "provider\nlimit,limit" (the
// best-effort limits that are not enforced). The reservation is freed only after the destruction is verified.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/decider.h"
#include "sandbox-runtime/scheduler/admission.h"

namespace sandglass::sandbox_runtime::scheduler {

struct PoolLimits {
  std::int64_t lease_ttl_ms = 120'000;     // renewed as long as the run is there
  std::int64_t answer_within_ms = 60'000;  // the run is asked this long before the end
  std::int64_t create_timeout_ms = 60'000;
  std::int64_t destroy_timeout_ms = 60'000;
  friend bool operator==(const PoolLimits&, const PoolLimits&) = default;
};

enum class SandboxStage : std::uint8_t { creating = 1, leased = 2, expiring = 3, destroying = 4 };

struct Sandbox {
  SandboxStage stage = SandboxStage::creating;
  std::uint64_t token = 0;  // fencing: the pool's counter
  std::string reservation;
  Claim claim;
  std::int64_t timer_ms = 0;  // leased: when the run is asked; expiring: the end; destroying: next attempt
  core::Token action;         // of the create, renew or destroy that is under way; attempt 0: none
  base::Code end_code = base::Code::ok;
  std::uint32_t destroy_failures = 0;
  bool told = false;  // the run knows that the lease has ended, or will never be
  friend bool operator==(const Sandbox&, const Sandbox&) = default;
};

struct PoolState {
  PoolLimits limits;
  bool configured = false;
  std::uint64_t tokens = 0;                  // the last one given
  std::map<std::string, Sandbox> sandboxes;  // by id; what is gone is not in here
  friend bool operator==(const PoolState&, const PoolState&) = default;
};

struct PoolConfigured {
  PoolLimits limits;
  friend bool operator==(const PoolConfigured&, const PoolConfigured&) = default;
};
struct SandboxCreating {
  std::string sandbox;
  std::uint64_t token = 0;
  std::string reservation;
  Claim claim;
  core::Token action;
  friend bool operator==(const SandboxCreating&, const SandboxCreating&) = default;
};
/// Nobody wants it any more, but its creation is still under way: destroyed when that ends.
struct SandboxUnwanted {
  std::string sandbox;
  base::Code code = base::Code::cancelled;
  friend bool operator==(const SandboxUnwanted&, const SandboxUnwanted&) = default;
};
struct SandboxLeased {
  std::string sandbox;
  std::int64_t ask_ms = 0;
  friend bool operator==(const SandboxLeased&, const SandboxLeased&) = default;
};
struct LeaseAsked {
  std::string sandbox;
  std::int64_t ends_ms = 0;
  friend bool operator==(const LeaseAsked&, const LeaseAsked&) = default;
};
struct LeaseRenewed {
  std::string sandbox;
  std::int64_t ask_ms = 0;
  core::Token action;
  friend bool operator==(const LeaseRenewed&, const LeaseRenewed&) = default;
};
/// The host has answered a renewal.
struct RenewalSettled {
  std::string sandbox;
  friend bool operator==(const RenewalSettled&, const RenewalSettled&) = default;
};
struct SandboxDestroying {
  std::string sandbox;
  base::Code code = base::Code::ok;  // ok: returned by its run
  bool told = false;
  core::Token action;
  friend bool operator==(const SandboxDestroying&, const SandboxDestroying&) = default;
};
struct DestroyFailed {
  std::string sandbox;
  std::uint32_t failures = 0;
  std::int64_t next_ms = 0;
  friend bool operator==(const DestroyFailed&, const DestroyFailed&) = default;
};
struct DestroyStarted {
  std::string sandbox;
  core::Token action;
  friend bool operator==(const DestroyStarted&, const DestroyStarted&) = default;
};
struct SandboxGone {
  std::string sandbox;
  friend bool operator==(const SandboxGone&, const SandboxGone&) = default;
};

/// Command of the composition root at every start.
struct ConfigurePool {
  PoolLimits limits;
};
/// The host says that this sandbox is lost (J16: only the host or the pool may say so).
struct ReportLoss {
  std::string sandbox;
  std::uint64_t token = 0;
};

struct PoolDecider {
  using State = PoolState;
  using Event =
      std::variant<PoolConfigured, SandboxCreating, SandboxUnwanted, SandboxLeased, LeaseAsked, LeaseRenewed,
                   RenewalSettled, SandboxDestroying, DestroyFailed, DestroyStarted, SandboxGone>;
  using Command =
      std::variant<ConfigurePool, ReportLoss, core::ActionFinished, core::MessageReceived, core::TimerFired>;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             core::TurnWriter<Event>& turn);
  static void evolve(State& state, const Event& event, const core::TurnInfo& info);
  static void pending(const State& state, const core::DecideInput& input, std::vector<core::Action>& actions);
  static bool in_flight(const State& state);
};

}  // namespace sandglass::sandbox_runtime::scheduler
