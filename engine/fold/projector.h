// Rows of records that come from a log one after the other, as a standby or a rebuilt view needs them: each
// stream is folded along, so that the rows are those that its owner wrote (J1).
//
// Streams are kept in memory, the longest unused ones forgotten and read again from the view when they go on.
// What was projected must therefore be written before `kMaxUnwritten` more records are.
//
// A damaged stream is not folded any more: the rows that its headers cause are still made, and it is parked
// by whoever loads it (E14).
//
// Thread rule: belongs to one thread; reads the view with scan_now. Errors: event_unknown, format_unknown
// (J4), those of the view.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/fold/project.h"
#include "engine/fold/stream_fold.h"
#include "engine/view/view.h"

namespace sandglass::engine::fold {

class Projector {
 public:
  static constexpr std::size_t kMaxUnwritten = 8'192;

  /// Both must outlive this.
  Projector(const Registry& kinds, const view::View& view, std::uint16_t partitions)
      : kinds_(kinds), view_(view), partitions_(partitions) {}

  base::Status project(core::PartitionId partition, const core::OrderedRecord& record, ViewChanges& changes);

 private:
  struct Kept {
    std::unique_ptr<StreamFold> fold;  // null: damaged
    std::list<core::StreamId>::iterator used;
  };
  /// The stream before the record; null: it cannot be folded.
  base::Result<StreamFold*> before(const core::StoredRecord& record);
  base::Result<std::unique_ptr<StreamFold>> load(const AnyKind& kind, const core::StreamId& stream,
                                                 std::uint64_t next_seq) const;
  base::Status lower_mark(core::PartitionId partition, const codec::TurnHeader& header, ViewChanges& changes);

  const Registry& kinds_;
  const view::View& view_;
  std::uint16_t partitions_;
  std::unordered_map<core::StreamId, Kept, core::StreamIdHash> streams_;
  std::list<core::StreamId> used_;  // the longest unused first
  std::map<core::PartitionId, std::int64_t> low_water_ms_;
};

}  // namespace sandglass::engine::fold
