// The history of one stream, folded: what every record says, and the state after any of them. The same fold
// as the engine's (engine/fold); nothing is carried out.
//
// Payload slots are not kept: slots() and payload() read them again. States are kept every kStatesEvery
// records, so that going to any record folds at most that many.
//
// Ownership: reader and kinds outlive the timeline. Thread rule: one thread.
// Errors: not_found (no such stream); those of the reader. A damaged record ends the timeline before it:
// fault() says why, and what comes before it can be looked at.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/fold/stream_fold.h"
#include "engine/journal/reader.h"
#include "replay-tools/replay/describer.h"

namespace sandglass::replay_tools::replay {

/// A message that a record sent.
struct Sent {
  engine::core::StreamId target;
  std::string correlation;
  Described what;
  std::optional<std::uint32_t> payload_slot;
};

class Timeline {
 public:
  static constexpr std::uint64_t kStatesEvery = 64;

  static engine::base::Result<Timeline> read(const engine::journal::Reader& reader, const Kinds& kinds,
                                             const engine::core::StreamId& stream);

  const engine::core::StreamId& stream() const { return stream_; }
  const engine::fold::AnyKind& kind() const { return *kind_; }
  const Describer& describer() const { return *describer_; }
  /// Sequence of the last record; they begin with 1.
  std::uint64_t last() const { return turns_.size(); }
  /// Why the timeline ends before the stream does.
  const std::optional<engine::base::Error>& fault() const { return fault_; }

  /// 1 ≤ seq ≤ last(); its slots are empty.
  const engine::fold::ReadTurn& turn(std::uint64_t seq) const;
  /// The state after record `seq`; 0: before the first. Never changes.
  std::shared_ptr<const engine::core::StreamState> state_after(std::uint64_t seq) const;
  Facts facts_after(std::uint64_t seq) const;
  /// What recovery would start again after record `seq`.
  std::vector<engine::core::Action> pending_after(std::uint64_t seq) const;
  std::vector<Sent> sent(std::uint64_t seq) const;
  /// All of a record's; 1 ≤ seq ≤ last().
  engine::base::Result<std::vector<engine::core::SlotPtr>> slots(std::uint64_t seq) const;
  engine::base::Result<engine::core::SlotPtr> payload(const engine::core::PayloadRef& ref) const;

 private:
  Timeline(const engine::journal::Reader& reader, const Kinds& kinds, const engine::core::StreamId& stream);
  engine::base::Status read_all();

  const engine::journal::Reader* reader_;
  const engine::fold::AnyKind* kind_;
  const Describer* describer_;
  engine::core::StreamId stream_;
  std::vector<engine::fold::ReadTurn> turns_;
  std::map<std::uint64_t, std::shared_ptr<engine::core::StreamState>>
      states_;  // after every kStatesEvery-th record
  std::optional<engine::base::Error> fault_;
};

}  // namespace sandglass::replay_tools::replay
