// The refusals decider (J20): one stream per cluster in which an auditor finds who was refused what, and why.
// Only callers with a valid token get here, and only so many a minute: the API counts the rest and says with
// the next one how many those were. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "engine/core/decider.h"

namespace sandglass::engine::refusals {

/// `details`: JSON {"target", "request_id", "message"}, in a slot since a caller chose their text.
struct RefusalNoted {
  std::string token;  // its name
  std::string tenant;
  std::string user;
  std::string call;  // identity::name_of(Call)
  base::Code code = base::Code::internal;
  std::uint64_t dropped = 0;  // since the one before this
  core::PayloadRef details;
  friend bool operator==(const RefusalNoted&, const RefusalNoted&) = default;
};

struct State {
  std::uint64_t noted = 0;
  std::uint64_t dropped = 0;
  std::int64_t newest_ms = 0;
  friend bool operator==(const State&, const State&) = default;
};

/// Never refused itself.
struct NoteRefusal {
  RefusalNoted refusal;  // without its details
  core::Payload details;
};

struct RefusalsDecider {
  using State = refusals::State;
  using Event = std::variant<RefusalNoted>;
  using Command = std::variant<NoteRefusal>;

  static base::Status decide(const State& state, const Command& command, const core::DecideInput& input,
                             core::TurnWriter<Event>& turn);
  static void evolve(State& state, const Event& event, const core::TurnInfo& info);
  static void pending(const State&, const core::DecideInput&, std::vector<core::Action>&) {}
  static bool in_flight(const State&) { return false; }
};

/// The one refusals stream.
core::StreamId refusals_stream();

}  // namespace sandglass::engine::refusals
