// A journal's move to another one (J22): the same records, byte for byte, at the same places of the order,
// under a chain of their own.
//
//   journal A  1 … n  move          closed: nobody owns it any more
//                      │ id of B = to ‖ "-" ‖ SHA-256(tag ‖ text of the move)
//   journal B  1 … n  move  n+2 …   its genesis commits to A and where each partition of A ended
//
// The move is the slot of one record in each partition's stream of owners, the last of A and, copied like the
// others, one of B. A journal is closed while the newest record of any such stream is a move from itself: a
// move that is given up is followed by one that tells of none. B holds all of a partition once it has the
// move that gave B its id.
//
//   sandglass move 1
//   from ID
//   to TEXT               what the new id begins with
//   place TEXT            where that is, for people
//   folder ID             the data folder of A: its engine is the first owner of B on Kafka
//   SEQUENCE CHAIN        of each partition, in order: its newest record before the move; 0 and the genesis
//                         chain: it has none
//
// Thread rule: pure functions of their arguments. Errors: record_damaged, format_unknown, those of the view.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/journal/rows/lines.h"
#include "engine/journal/rows/owners.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/view.h"

namespace sandglass::engine::journal {

struct Move {
  std::string from;
  std::string to;
  std::string place;
  std::string folder;
  std::vector<ChainHead> heads;
  friend bool operator==(const Move&, const Move&) = default;

  /// Of the journal that it leads to.
  std::string new_id() const;
};

/// What ids of embedded journals begin with that were moved to their folder.
inline constexpr std::string_view kMovedToFolder = "moved";

std::string encode_move(const Move& move);
base::Result<Move> decode_move(std::string_view text);
/// What a record of a stream of owners tells; nothing: it only begins an epoch.
base::Result<std::optional<Move>> move_of(const core::StoredRecord& record);
/// Whether this is the id of a journal that was moved to where it is.
bool is_moved(std::string_view journal_id);
/// As above, and to the place that such a Move::to names.
bool is_moved_to(std::string_view journal_id, std::string_view to);

/// What the records of a partition's owners say.
struct Moves {
  std::optional<core::StoredRecord> newest;
  std::optional<Move> away;  // the newest: the journal is closed
  /// Of a journal that was moved here: that move, once all of the partition is, and whether the journal has
  /// had an owner since.
  std::optional<Move> here;
  bool owned_since = false;
  std::optional<OwnerMark> owner;  // the newest that says who it is
};
base::Result<Moves> read_moves(const view::View& view, const JournalMeta& meta, core::PartitionId partition);

/// The journal's move away, if any partition is closed by one.
base::Result<std::optional<Move>> read_move_away(const view::View& view, const JournalMeta& meta);
/// What a closed journal answers to whoever would own it.
base::Error closed_by(const Move& move);

/// Where each partition stands, as a move names it.
base::Result<std::vector<ChainHead>> read_heads(const view::View& view, const JournalMeta& meta);
/// Rows that add one record to the stream of owners of a partition in a new epoch: in a journal of rows, with
/// nobody at work on it. `move` as encode_move gives it; empty: the journal is open again.
base::Result<std::vector<view::ViewChange>> owners_record_rows(const view::View& view,
                                                               const JournalMeta& meta,
                                                               core::PartitionId partition,
                                                               std::string_view move, std::int64_t now_ms);

}  // namespace sandglass::engine::journal
