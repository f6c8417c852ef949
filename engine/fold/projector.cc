#include "engine/fold/projector.h"

#include <algorithm>
#include <utility>

#include "engine/base/log.h"
#include "engine/codec/record.h"
#include "engine/fold/snapshot.h"
#include "engine/view/keys.h"
#include "engine/view/read_row.h"

namespace sandglass::engine::fold {
namespace {

using base::Code;

constexpr std::size_t kMaxStreams = 2 * Projector::kMaxUnwritten;
constexpr std::size_t kPage = 512;

bool is_newer(Code code) {
  return code == Code::event_unknown || code == Code::format_unknown;
}

}  // namespace

base::Status Projector::project(core::PartitionId partition, const core::OrderedRecord& record,
                                ViewChanges& changes) {
  const core::StoredRecord& stored = record.record;
  const AnyKind* kind = kinds_.find(stored.stream.kind);
  if (kind == nullptr) {
    return base::fail(Code::format_unknown, "streams of the kind of " + stored.stream.text() +
                                                " are not known to this program; use the one that wrote it");
  }
  auto turn = read_turn(*kind, stored);
  if (!turn && is_newer(turn.error().code)) return std::unexpected(turn.error());
  auto fold = before(stored);
  if (!fold) return std::unexpected(fold.error());
  if (!turn || *fold == nullptr) {
    const auto header = codec::decode_header(stored);
    if (!header) return {};  // nothing can be told of it; its loading will say so
    project_header(*header, partitions_, changes);
    return lower_mark(partition, *header, changes);
  }
  if (auto status = lower_mark(partition, turn->header, changes); !status) return status;
  if (auto status = apply_and_project(**fold, *turn, partitions_, changes); !status) {
    base::log(base::LogLevel::warning, "stream_damaged",
              {{"stream", stored.stream.text()}, {"reason", status.error().message}});
    streams_.at(stored.stream).fold.reset();
    project_header(turn->header, partitions_, changes);
  }
  return {};
}

base::Result<StreamFold*> Projector::before(const core::StoredRecord& record) {
  const auto found = streams_.find(record.stream);
  if (found != streams_.end()) {
    used_.splice(used_.end(), used_, found->second.used);
    StreamFold* fold = found->second.fold.get();
    if (fold == nullptr || fold->head().seq + 1 == record.seq) return fold;
  }
  auto loaded = load(*kinds_.find(record.stream.kind), record.stream, record.seq);
  if (!loaded) {
    if (loaded.error().code != Code::stream_damaged) return std::unexpected(loaded.error());
    loaded = std::unique_ptr<StreamFold>();
  }
  if (found != streams_.end()) {
    found->second.fold = std::move(*loaded);
    return found->second.fold.get();
  }
  if (streams_.size() >= kMaxStreams) {
    streams_.erase(used_.front());
    used_.pop_front();
  }
  used_.push_back(record.stream);
  Kept& kept = streams_[record.stream];
  kept = {.fold = std::move(*loaded), .used = std::prev(used_.end())};
  return kept.fold.get();
}

base::Result<std::unique_ptr<StreamFold>> Projector::load(const AnyKind& kind, const core::StreamId& stream,
                                                          std::uint64_t next_seq) const {
  auto fold = std::make_unique<StreamFold>(kind, stream);
  if (next_seq <= 1) return fold;
  const auto snapshot = view::read_row(view_, view::snapshot_key(stream));
  if (!snapshot) return std::unexpected(snapshot.error());
  if (*snapshot) {
    auto decoded = decode_snapshot(kind, stream, **snapshot);
    if (decoded && decoded->head().seq < next_seq) *fold = std::move(*decoded);
  }
  while (fold->head().seq + 1 < next_seq) {
    const std::uint64_t from = fold->head().seq + 1;
    const auto rows = view_.scan_now({.first = view::record_key(stream, from),
                                      .last = view::record_key(stream, next_seq),
                                      .limit = kPage});
    if (!rows) return std::unexpected(rows.error());
    if (rows->rows.empty()) {
      return base::fail(Code::stream_damaged,
                        stream.text() + " record " + std::to_string(from) + " is missing");
    }
    for (const view::Row& row : rows->rows) {
      const auto record = codec::decode_record(stream, fold->head().seq + 1, row.value);
      if (!record) return base::fail(Code::stream_damaged, record.error().message);
      const auto turn = read_turn(kind, *record);
      if (!turn) return std::unexpected(turn.error());
      if (auto status = fold->apply(*turn); !status) return std::unexpected(status.error());
    }
  }
  fold->snapshot_made();
  return fold;
}

/// The due index is read from a persisted mark on (J10), which its owner moves; a timer that starts below it
/// takes it along.
base::Status Projector::lower_mark(core::PartitionId partition, const codec::TurnHeader& header,
                                   ViewChanges& changes) {
  if (header.timers_started.empty()) return {};
  const std::string key = view::low_water_key(partition, view::Index::due);
  auto known = low_water_ms_.find(partition);
  if (known == low_water_ms_.end()) {
    const auto row = view::read_row(view_, key);
    if (!row) return std::unexpected(row.error());
    const bool whole = *row && (*row)->size() == sizeof(std::uint64_t);
    known = low_water_ms_.emplace(partition, whole ? view::from_sortable(view::get_u64(**row)) : 0).first;
  }
  for (const codec::HeaderTimer& timer : header.timers_started) {
    if (timer.due_ms >= known->second) continue;
    known->second = timer.due_ms;
    std::string value;
    view::put_u64(value, view::sortable(timer.due_ms));
    changes.push_back({key, std::move(value)});
  }
  return {};
}

}  // namespace sandglass::engine::fold
