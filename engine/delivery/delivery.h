// The decider of a partition's own stream: it books which messages have arrived in other partitions (J18). A
// record of one partition cannot change rows of another, so the target's record cannot end the delivery as it
// does at home:
//
//   source partition              target partition
//   record with message ────────▶ record that consumes it: inbox row; closing row, if it was closing
//   arrived: row ends   ◀──────── (durable)
//   (durable, was closing) ─────▶ forgotten: both rows end, since it cannot come again
//
// Both ways are lazy and batched. A crash in between sends a message again, which the inbox row stops, or, by
// the closing row, says once more that it has arrived. Pure: no clock, randomness, threads, I/O.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "engine/core/decider.h"

namespace sandglass::engine::delivery {

/// A message of this partition that is applied elsewhere.
struct Arrived {
  core::StreamId source;
  std::uint64_t source_seq = 0;
  std::uint32_t index = 0;
  friend bool operator==(const Arrived&, const Arrived&) = default;
};

/// A stream of this partition that will not hear from `source` again.
struct Forgotten {
  core::StreamId target;
  core::StreamId source;
  friend bool operator==(const Forgotten&, const Forgotten&) = default;
};

struct DeliveriesSettled {
  core::PartitionId partition = 0;
  std::vector<Arrived> arrived;
  std::vector<Forgotten> forgotten;
  friend bool operator==(const DeliveriesSettled&, const DeliveriesSettled&) = default;
};

/// As a command: book it.
struct Settle {
  DeliveriesSettled what;
};

struct DeliveryDecider {
  /// Only what the newest record said: the view needs no more.
  struct State {
    DeliveriesSettled newest;
    friend bool operator==(const State&, const State&) = default;
  };
  using Event = std::variant<DeliveriesSettled>;
  using Command = std::variant<Settle>;

  static base::Status decide(const State&, const Command& command, const core::DecideInput&,
                             core::TurnWriter<Event>& turn) {
    turn.emit(std::get<Settle>(command).what);
    return {};
  }
  static void evolve(State& state, const Event& event, const core::TurnInfo&) {
    state.newest = std::get<DeliveriesSettled>(event);
  }
  static void pending(const State&, const core::DecideInput&, std::vector<core::Action>&) {}
  static bool in_flight(const State&) { return false; }
};

}  // namespace sandglass::engine::delivery
