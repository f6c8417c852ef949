// The stream kinds of the engine, for targets that feed them; and what must hold of any state of theirs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/fold/snapshot.h"
#include "engine/fold/stream_fold.h"
#include "engine/server/compose/kinds.h"

namespace sandglass::tests::fuzz {

inline const engine::fold::AnyKind& kind_number(std::size_t number) {
  static const auto kinds = engine::server::compose::all_kinds();
  return *kinds[number % kinds.size()];
}

/// Encodes, decodes and encodes again; asks for what is pending; takes a snapshot through its row.
inline void check_state(const engine::fold::StreamFold& fold) {
  using namespace engine;
  const fold::AnyKind& kind = fold.kind();
  const std::string bytes = kind.encode_state(*fold.state());
  const auto again = kind.decode_state(bytes);
  SG_CHECK(again.has_value(), "a state that was reached cannot be read again: " + again.error().message);
  SG_CHECK(kind.encode_state(**again) == bytes, "a state changes when it is stored");
  std::vector<core::Action> actions;
  kind.pending(*fold.state(), {.stream = fold.stream(), .seq = fold.head().seq, .now_ms = 5, .epoch = 2},
               actions);
  SG_CHECK(kind.in_flight(*fold.state()) == kind.in_flight(**again), "in flight or not");
  (void)kind.owes_activation(*fold.state());
  const auto snapshot = fold::decode_snapshot(kind, fold.stream(), fold::encode_snapshot(fold));
  SG_CHECK(snapshot.has_value(), "a snapshot cannot be read");
  SG_CHECK(kind.encode_state(*snapshot->state()) == bytes, "a snapshot holds another state");
}

}  // namespace sandglass::tests::fuzz
