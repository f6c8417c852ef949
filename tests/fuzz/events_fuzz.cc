// Events of every stream kind in any order, folded: no order, and no content that decodes, breaks a decider.
// Input: the kind, then events as type(1) · version(1) · length(2) · body. Oracles: an event that was decoded
// is encoded to bytes that decode to the same; every state goes through its stored form unchanged.
#include <vector>

#include "engine/fold/project.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/stream_kinds.h"

FUZZ_TARGET(events) {
  using namespace sandglass::engine;
  sandglass::tests::fuzz::Input in(input);
  const fold::AnyKind& kind = sandglass::tests::fuzz::kind_number(in.byte());
  fold::StreamFold fold(kind, core::StreamId::named(kind.kind(), "fuzz"));
  core::TurnInfo info{.seq = 0, .time_ms = 1'000, .epoch = 1};
  for (int count = 0; !in.empty() && count < 64; ++count) {
    codec::EncodedEvent encoded{.type = in.byte(), .version = in.byte()};
    encoded.body = in.piece();
    const auto events = kind.decode({encoded});
    if (!events) continue;
    const auto once = kind.encode(**events);
    const auto again = kind.decode(once);
    SG_CHECK(again && kind.encode(**again) == once, "an event changes when it is stored again");
    ++info.seq;
    info.time_ms += 10;
    fold.evolve(**events, info);
  }
  sandglass::tests::fuzz::check_state(fold);
  const auto state = kind.initial();
  fold::ViewChanges changes;
  kind.project(*state, *fold.state(), fold.stream(), 3, changes);
}
