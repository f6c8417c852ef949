// The admission decider (J21, Q1–Q4, Q11): one stream per cluster. Every sandbox counts here from its
// reservation until the pool says that its destruction is verified, so that two pools can never both grant
// the last place.
//
//   LeaseRequested ─▶ reserved ──▶ LeaseReserved to the pool … ReservationFreed ─▶ next of the queue
//                 └─▶ queued ─(place free)─▶ reserved     └─(no grant within the TTL)─▶ LeaseCancelled to the
//                 pool
//                       └─(timeout, LeaseCancelled)─▶ gone
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/decider.h"

namespace sandglass::sandbox_runtime::scheduler {

namespace base = engine::base;
namespace core = engine::core;

/// The one admission stream.
core::StreamId admission_stream();
/// The pool of one template.
core::StreamId pool_stream(std::string_view template_name);
/// Template names are plain: 1 to 64 of a–z, A–Z, 0–9, '.', '_', '-'.
bool is_template_name(std::string_view name);

struct AdmissionLimits {
  std::uint32_t global = 10;   // sandboxes at a time, of everyone
  std::uint32_t per_user = 2;  // of one user of one tenant
  std::uint32_t queue = 1000;  // claims that may wait
  /// A reservation for which the pool has no sandbox by then is called back. It still counts until it is
  /// freed.
  std::int64_t reservation_ttl_ms = 120'000;
  friend bool operator==(const AdmissionLimits&, const AdmissionLimits&) = default;
};

/// One claim of one run. (run, correlation) names it.
struct Claim {
  core::StreamId run;
  std::string correlation;
  std::string template_name;
  std::string tenant;
  std::string user;
  friend bool operator==(const Claim&, const Claim&) = default;
};

struct Reservation {
  Claim claim;
  std::int64_t lapses_ms = 0;
  bool called_back = false;  // the pool was told to give it up
  friend bool operator==(const Reservation&, const Reservation&) = default;
};

struct Waiting {
  std::uint64_t number = 0;  // grows; also names the timer
  Claim claim;
  std::int64_t until_ms = 0;
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

struct AdmissionState {
  AdmissionLimits limits;
  bool configured = false;
  std::uint64_t next_number = 1;
  std::map<std::string, Reservation> reservations;  // by id "r-<number>"
  std::deque<Waiting> queue;                        // in order of arrival
  friend bool operator==(const AdmissionState&, const AdmissionState&) = default;
};

struct AdmissionConfigured {
  AdmissionLimits limits;
  friend bool operator==(const AdmissionConfigured&, const AdmissionConfigured&) = default;
};
struct ClaimQueued {
  std::uint64_t number = 0;
  Claim claim;
  std::int64_t until_ms = 0;
  friend bool operator==(const ClaimQueued&, const ClaimQueued&) = default;
};
/// A claim that ends without a sandbox. number 0: it never waited.
struct ClaimRefused {
  std::uint64_t number = 0;
  base::Code code = base::Code::internal;
  std::string limit;  // the binding limit: "global", "user", "queue", or empty
  friend bool operator==(const ClaimRefused&, const ClaimRefused&) = default;
};
struct ClaimReserved {
  std::string reservation;
  std::uint64_t number = 0;  // of the queue entry that it was; 0: it never waited
  Claim claim;
  std::int64_t lapses_ms = 0;
  friend bool operator==(const ClaimReserved&, const ClaimReserved&) = default;
};
struct ReservationCalledBack {
  std::string reservation;
  friend bool operator==(const ReservationCalledBack&, const ReservationCalledBack&) = default;
};
struct ReservationReleased {
  std::string reservation;
  friend bool operator==(const ReservationReleased&, const ReservationReleased&) = default;
};

/// Command of the composition root at every start; changes nothing if the limits are the recorded ones.
struct ConfigureAdmission {
  AdmissionLimits limits;
};

struct AdmissionDecider {
  using State = AdmissionState;
  using Event = std::variant<AdmissionConfigured, ClaimQueued, ClaimRefused, ClaimReserved,
                             ReservationCalledBack, ReservationReleased>;
  using Command = std::variant<ConfigureAdmission, core::MessageReceived, core::TimerFired>;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             core::TurnWriter<Event>& turn);
  static void evolve(State& state, const Event& event, const core::TurnInfo& info);
  static void pending(const State&, const core::DecideInput&, std::vector<core::Action>&) {}
  static bool in_flight(const State&) { return false; }  // it only talks by messages and timers
};

}  // namespace sandglass::sandbox_runtime::scheduler
