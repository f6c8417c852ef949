// Makes a journal's rows anew from its records (J1): records and the partitions' order as they are stored,
// byte for byte, and every row that is derived from them by the same projection that the engine uses. For a
// folder whose table files are damaged: what is read is left alone, what is written is another store.
//
//   order rows ──▶ checked link by link, copied; damage: there is no rebuilding
//   records    ──▶ copied ──▶ folded ──▶ projected: index rows, inbox, requests, snapshots
//        └ damaged: kept as it is, or an empty row in its place, so that the stream is found damaged and
//        nothing
//          of it is rolled back. If there is a state snapshot behind it, the stream goes on from there.
//
// Thread rule: one thread. Memory: a head a stream, and a key a message that was ever delivered.
// Errors: record_damaged for what is no stream's, those of the view, event_unknown, format_unknown.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/core/stream_id.h"
#include "engine/fold/stream_kind.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/view.h"

namespace sandglass::replay_tools::rebuild {

/// The first record of a stream that could not be read, or does not fit.
struct Damaged {
  engine::core::StreamId stream;
  std::uint64_t seq = 0;
  std::string what;
};

struct Report {
  std::uint64_t records = 0;
  std::uint64_t streams = 0;
  engine::base::Hash256 states;  // of all streams' newest states, as far as they are known
  std::vector<Damaged> damaged;
};

/// Takes rows in the order in which they are to be written; each call is written as one.
using Write = std::function<engine::base::Status(std::vector<engine::view::ViewChange> rows)>;

engine::base::Result<Report> rebuild(const engine::view::View& from, const engine::fold::Registry& kinds,
                                     const Write& write);

/// As rebuild, as the journal that `as` describes: the same records in the same order, chained from its
/// genesis (J22). Of as many partitions.
engine::base::Result<Report> rebuild_as(const engine::journal::JournalMeta& as,
                                        const engine::view::View& from, const engine::fold::Registry& kinds,
                                        const Write& write);

}  // namespace sandglass::replay_tools::rebuild
