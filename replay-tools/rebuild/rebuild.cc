#include "replay-tools/rebuild/rebuild.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/fold/project.h"
#include "engine/fold/snapshot.h"
#include "engine/fold/stream_fold.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/keys.h"
#include "engine/view/read_row.h"

namespace sandglass::replay_tools::rebuild {
namespace {

namespace base = engine::base;
namespace codec = engine::codec;
namespace core = engine::core;
namespace fold = engine::fold;
namespace journal = engine::journal;
namespace view = engine::view;

constexpr std::size_t kPage = 256;
constexpr std::size_t kWriteBytes = 4 << 20;

/// Other errors are the machine's, or those of a newer program's records.
bool is_damage(base::Code code) {
  return code == base::Code::record_damaged || code == base::Code::stream_damaged;
}

/// A stream's record rows by their number, read by pages as far as these can be read.
class RecordRows {
 public:
  RecordRows(const view::View& view, const core::StreamId& stream, std::uint64_t head)
      : view_(view), stream_(stream), head_(head) {}

  /// nullopt: it is not there.
  base::Result<std::optional<std::string>> at(std::uint64_t seq) {
    if (seq >= known_until_) read_page(seq);
    if (seq < known_until_) {
      const auto found = page_.find(view::record_key(stream_, seq));
      return found == page_.end() ? std::nullopt : std::optional(found->second);
    }
    return view::read_row(view_, view::record_key(stream_, seq));
  }

 private:
  /// A page that is damaged anywhere gives nothing: its records are read one by one.
  void read_page(std::uint64_t seq) {
    auto page = view_.scan_now({.first = view::record_key(stream_, seq),
                                .last = view::record_key(stream_, std::min(seq + kPage, head_ + 1)),
                                .limit = kPage});
    if (!page) return;
    page_.clear();
    for (view::Row& row : page->rows) page_.emplace(std::move(row.key), std::move(row.value));
    known_until_ = page->more ? seq + page_.size() : std::min(seq + kPage, head_ + 1);
  }

  const view::View& view_;
  const core::StreamId stream_;
  const std::uint64_t head_;
  std::map<std::string, std::string> page_;
  std::uint64_t known_until_ = 0;
};

class Rebuild {
 public:
  Rebuild(const view::View& from, const fold::Registry& kinds, const Write& write,
          const journal::JournalMeta* as)
      : from_(from), kinds_(kinds), write_(write), as_(as) {}

  base::Result<Report> run() {
    const auto meta = journal::read_meta(from_);
    if (!meta) return std::unexpected(meta.error());
    partitions_ = meta->partitions;
    if (auto status = put(journal::meta_rows(as_ == nullptr ? *meta : *as_)); !status)
      return std::unexpected(status.error());
    for (core::PartitionId partition = 0; partition < partitions_; ++partition) {
      if (auto status = copy_order(*meta, partition); !status) return std::unexpected(status.error());
    }
    // A partition's own stream ends rows that others have begun.
    for (const bool own : {false, true}) {
      for (const auto& [stream, head] : heads_) {
        if ((stream.kind == core::StreamKind::partition) != own) continue;
        if (auto status = copy_stream(stream, head); !status) return std::unexpected(status.error());
      }
    }
    if (auto status = put(std::exchange(delivered_, {})); !status) return std::unexpected(status.error());
    if (auto status = flush(); !status) return std::unexpected(status.error());
    report_.states = states_.finish();
    return std::move(report_);
  }

 private:
  base::Status copy_order(const journal::JournalMeta& meta, core::PartitionId partition) {
    const auto owner = journal::read_ownership(from_, meta, partition);
    if (!owner) return std::unexpected(owner.error());
    if (owner->epoch != 0) {
      if (auto status = put({journal::owner_epoch_row(partition, owner->epoch)}); !status) return status;
    }
    base::Hash256 chain = codec::genesis_chain(meta.journal_id, partition);
    base::Hash256 made = codec::genesis_chain(as_ == nullptr ? meta.journal_id : as_->journal_id, partition);
    for (core::Sequence next = 1; next <= owner->last_sequence;) {
      auto [first, last] = view::order_range(partition, next);
      auto page = from_.scan_now({.first = std::move(first), .last = std::move(last), .limit = kPage});
      if (!page) return std::unexpected(page.error());
      for (view::Row& row : page->rows) {
        const auto key = view::parse_order_key(row.key);
        auto link = codec::decode_order(next, row.value);
        if (!key || key->sequence != next || !link ||
            (chain = codec::chain_hash(chain, partition, next, link->epoch, link->leaf)) != link->chain) {
          return not_in_order(partition, next);
        }
        std::uint64_t& head = heads_[link->stream];
        head = std::max(head, link->stream_seq);
        link->chain = made = codec::chain_hash(made, partition, next, link->epoch, link->leaf);
        if (auto status = put({{std::move(row.key), codec::encode_order(*link)}}); !status) return status;
        ++next;
      }
      if (page->rows.empty()) return not_in_order(partition, next);
    }
    return {};
  }

  static base::Status not_in_order(core::PartitionId partition, core::Sequence sequence) {
    return base::fail(base::Code::record_damaged,
                      "order row " + std::to_string(sequence) + " of partition " + std::to_string(partition) +
                          " is missing or does not extend the chain before it: what the partition's records "
                          "are is not known, and nothing can be made anew from them; restore the data folder "
                          "from a backup");
  }

  base::Status copy_stream(const core::StreamId& stream, std::uint64_t head) {
    const fold::AnyKind* kind = kinds_.find(stream.kind);
    if (kind == nullptr) {
      return base::fail(base::Code::format_unknown,
                        "streams of the kind of " + stream.text() + " are not known to this program");
    }
    ++report_.streams;
    StreamCopy copy{.fold = fold::StreamFold(*kind, stream)};
    RecordRows rows(from_, stream, head);
    for (std::uint64_t seq = 1; seq <= head; ++seq) {
      ++report_.records;
      auto row = rows.at(seq);
      if (!row && !is_damage(row.error().code)) return std::unexpected(row.error());
      if (!row || !*row) {
        copy.damage(seq, row ? "it is missing" : row.error().message);
        if (auto status = put({{view::record_key(stream, seq), std::string()}}); !status) return status;
        continue;
      }
      const std::string bytes = std::move(**row);
      if (auto status = put({{view::record_key(stream, seq), bytes}}); !status) return status;
      if (auto status = project(copy, seq, bytes); !status) return status;
      if (auto status = flush_if_full(); !status) return status;
    }
    return close(copy, head);
  }

  /// What is known of a stream while its records are copied.
  struct StreamCopy {
    fold::StreamFold fold;
    std::optional<Damaged> damaged;        // the first
    bool lost = false;                     // `fold` does not say what the newest copied record has made
    std::optional<fold::StreamFold> kept;  // a state snapshot of a later record than the damaged one

    void damage(std::uint64_t seq, const std::string& what) {
      lost = true;
      if (!damaged) damaged = Damaged{fold.stream(), seq, what};
    }
  };

  base::Status project(StreamCopy& copy, std::uint64_t seq, const std::string& bytes) {
    const fold::AnyKind& kind = copy.fold.kind();
    const auto record = codec::decode_record(copy.fold.stream(), seq, bytes);
    const auto turn = record ? fold::read_turn(kind, *record)
                             : base::Result<fold::ReadTurn>(std::unexpected(record.error()));
    if (!turn) {
      if (!is_damage(turn.error().code)) return std::unexpected(turn.error());
      copy.damage(seq, turn.error().message);
      return {};
    }
    if (copy.lost) go_on_from_snapshot(copy, seq);
    fold::ViewChanges changes;
    if (!copy.lost) {
      const auto fits = fold::apply_and_project(copy.fold, *turn, partitions_, changes);
      if (!fits) copy.damage(seq, fits.error().message);
    }
    if (copy.lost) fold::project_header(turn->header, partitions_, changes);
    take_derived(std::move(changes));
    return {};
  }

  /// The engine goes on from a state snapshot behind a damaged record, which it does not read: so does this,
  /// with that one row as it is.
  void go_on_from_snapshot(StreamCopy& copy, std::uint64_t next) {
    const core::StreamId& stream = copy.fold.stream();
    if (!copy.kept) {
      const std::string key = view::snapshot_key(stream);
      auto row = view::read_row(from_, key);
      if (!row || !*row) return;
      auto kept = fold::decode_snapshot(copy.fold.kind(), stream, **row);
      if (!kept) return;
      copy.kept = std::move(*kept);
      waiting_.push_back({key, std::move(**row)});
    }
    if (copy.kept->head().seq + 1 != next) return;
    copy.fold = *copy.kept;
    copy.lost = false;
    fold::ViewChanges changes;
    copy.fold.kind().project(*copy.fold.kind().initial(), *copy.fold.state(), stream,
                             fold::partition_of(stream, partitions_), changes);
    take_derived(std::move(changes));
  }

  /// A stream whose state is not known counts as in flight: opening finds it damaged, parks and names it.
  base::Status close(StreamCopy& copy, std::uint64_t head) {
    if (copy.lost) go_on_from_snapshot(copy, head + 1);
    const core::StreamId& stream = copy.fold.stream();
    states_.update(stream.text()).update(copy.fold.kind().encode_state(*copy.fold.state()));
    if (copy.damaged) report_.damaged.push_back(std::move(*copy.damaged));
    if (!copy.lost && !copy.fold.head().in_flight) return {};
    return put({{view::in_flight_key(fold::partition_of(stream, partitions_), stream), std::string()}});
  }

  /// A delivery's row is begun by one stream and ended by another: all ends come last. Whether a stream is in
  /// flight is known at its end.
  void take_derived(fold::ViewChanges changes) {
    for (view::ViewChange& change : changes) {
      const auto key = view::parse_index_key(change.key);
      if (key && key->index == view::Index::in_flight) continue;
      const bool delivered = !change.value && key && key->index == view::Index::undelivered;
      if (!delivered) bytes_ += change.key.size() + (change.value ? change.value->size() : 0);
      (delivered ? delivered_ : waiting_).push_back(std::move(change));
    }
  }
  base::Status put(std::vector<view::ViewChange> rows) {
    bytes_ += journal::row_bytes(rows);
    std::move(rows.begin(), rows.end(), std::back_inserter(waiting_));
    return flush_if_full();
  }
  base::Status flush_if_full() { return bytes_ < kWriteBytes ? base::Status() : flush(); }
  base::Status flush() {
    bytes_ = 0;
    if (waiting_.empty()) return {};
    return write_(std::exchange(waiting_, {}));
  }

  const view::View& from_;
  const fold::Registry& kinds_;
  const Write& write_;
  const journal::JournalMeta* as_;  // null: the journal that it is
  std::uint16_t partitions_ = 0;
  std::map<core::StreamId, std::uint64_t> heads_;
  std::vector<view::ViewChange> waiting_;
  std::size_t bytes_ = 0;
  std::vector<view::ViewChange> delivered_;
  base::Sha256 states_;
  Report report_;
};

}  // namespace

base::Result<Report> rebuild(const view::View& from, const fold::Registry& kinds, const Write& write) {
  return Rebuild(from, kinds, write, nullptr).run();
}

base::Result<Report> rebuild_as(const journal::JournalMeta& as, const view::View& from,
                                const fold::Registry& kinds, const Write& write) {
  return Rebuild(from, kinds, write, &as).run();
}

}  // namespace sandglass::replay_tools::rebuild
