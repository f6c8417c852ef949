#include "engine/shard/loader.h"

#include <ranges>
#include <string>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/codec/record.h"
#include "engine/fold/snapshot.h"
#include "engine/view/keys.h"

namespace sandglass::engine::shard {
namespace {

// More than the 64 events after which a snapshot is written, so that the first page nearly always reaches it.
constexpr std::size_t kPage = 80;

/// 0: the key is malformed.
std::uint64_t seq_of(const view::Row& row) {
  const auto key = view::parse_stream_key(row.key);
  return key && key->rest.size() == sizeof(std::uint64_t) ? view::get_u64(key->rest) : 0;
}

/// Bytes that cannot be read because they are damaged are this stream's matter; other errors are the
/// machine's.
base::Error as_stream_error(const core::StreamId& stream, base::Error error) {
  if (error.code == base::Code::record_damaged) {
    error = {base::Code::stream_damaged, stream.text() + ": " + error.message};
  }
  return error;
}

base::Result<core::StoredRecord> record_of(const core::StreamId& stream, const view::Row& row) {
  auto record = codec::decode_record(stream, seq_of(row), row.value);
  if (!record) return std::unexpected(as_stream_error(stream, record.error()));
  return record;
}

/// Records that the fold has already, by its snapshot, are not looked at.
base::Status fold_row(fold::StreamFold& fold, const view::Row& row) {
  if (seq_of(row) <= fold.head().seq) return {};
  const auto record = record_of(fold.stream(), row);
  if (!record) return std::unexpected(record.error());
  const auto turn = fold::read_turn(fold.kind(), *record);
  if (!turn) return std::unexpected(turn.error());
  return fold.apply(*turn);
}

}  // namespace

struct Loader::Load {
  fold::StreamFold fold;
  LoadDone done;
  int open_reads = 0;
  base::Status failed;
  std::optional<std::string> snapshot;
  view::ScanResult newest;  // newest first
};

struct Loader::Turns {
  const fold::AnyKind* kind;
  core::StreamId stream;
  std::uint64_t next_seq;
  std::uint64_t last_seq;
  std::vector<core::TurnView> turns;
  TurnsDone done;
};

void Loader::load(const fold::AnyKind& kind, const core::StreamId& stream, LoadDone done) {
  auto load = std::make_shared<Load>(fold::StreamFold(kind, stream), std::move(done));
  if (running_ >= max_loads_) {
    waiting_.push_back(std::move(load));
  } else {
    start(std::move(load));
  }
}

void Loader::start(std::shared_ptr<Load> load) {
  ++running_;
  load->open_reads = 2;
  const core::StreamId stream = load->fold.stream();
  reads_.get(view::snapshot_key(stream), [this, load](base::Result<std::optional<std::string>> row) {
    if (row) {
      load->snapshot = std::move(*row);
    } else if (row.error().code != base::Code::record_damaged) {  // a damaged one is ignored, as in fold
      load->failed = std::unexpected(row.error());
    }
    if (--load->open_reads == 0) first_answers(load);
  });
  const view::KeyRange range = view::record_range(stream, 1);
  reads_.scan({.first = range.first, .last = range.last, .limit = kPage, .reverse = true},
              [this, load](base::Result<view::ScanResult> rows) {
                if (rows) {
                  load->newest = std::move(*rows);
                } else {
                  load->failed = std::unexpected(as_stream_error(load->fold.stream(), rows.error()));
                }
                if (--load->open_reads == 0) first_answers(load);
              });
}

void Loader::first_answers(const std::shared_ptr<Load>& load) {
  if (!load->failed) return finish(load, load->failed);
  if (load->snapshot) {
    auto fold = fold::decode_snapshot(load->fold.kind(), load->fold.stream(), *load->snapshot);
    if (fold) load->fold = std::move(*fold);
    SG_CRASH_POINT("shard.snapshot_loaded");
  }
  const auto& rows = load->newest.rows;
  if (rows.empty()) {
    if (load->fold.head().seq == 0) return finish(load, {});
    return finish(load, base::fail(base::Code::stream_damaged,
                                   load->fold.stream().text() + ": there is a snapshot but no record"));
  }
  if (load->newest.more && seq_of(rows.back()) > load->fold.head().seq + 1) return read_forward(load);
  for (const view::Row& row : rows | std::views::reverse) {
    if (auto status = fold_row(load->fold, row); !status) return finish(load, status);
  }
  finish(load, {});
}

void Loader::read_forward(const std::shared_ptr<Load>& load) {
  load->newest = {};
  const view::KeyRange range = view::record_range(load->fold.stream(), load->fold.head().seq + 1);
  reads_.scan({.first = range.first, .last = range.last, .limit = kPage},
              [this, load](base::Result<view::ScanResult> page) {
                if (!page) {
                  return finish(load, std::unexpected(as_stream_error(load->fold.stream(), page.error())));
                }
                for (const view::Row& row : page->rows) {
                  if (auto status = fold_row(load->fold, row); !status) return finish(load, status);
                }
                if (page->more && !page->rows.empty()) return read_forward(load);
                finish(load, {});
              });
}

void Loader::finish(const std::shared_ptr<Load>& load, base::Status status) {
  --running_;
  if (status) {
    load->fold.snapshot_made();
    load->done(std::move(load->fold));
  } else {
    load->done(std::unexpected(status.error()));
  }
  if (running_ < max_loads_ && !waiting_.empty()) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    start(std::move(next));
  }
}

void Loader::read_turns(const fold::AnyKind& kind, const core::StreamId& stream, std::uint64_t first_seq,
                        std::uint64_t last_seq, TurnsDone done) {
  next_page(std::make_shared<Turns>(&kind, stream, first_seq, last_seq, std::vector<core::TurnView>{},
                                    std::move(done)));
}

void Loader::next_page(const std::shared_ptr<Turns>& turns) {
  reads_.scan({.first = view::record_key(turns->stream, turns->next_seq),
               .last = view::record_key(turns->stream, turns->last_seq + 1),
               .limit = kPage},
              [this, turns](base::Result<view::ScanResult> page) {
                if (!page) return turns->done(std::unexpected(as_stream_error(turns->stream, page.error())));
                for (const view::Row& row : page->rows) {
                  const auto record = record_of(turns->stream, row);
                  if (!record) return turns->done(std::unexpected(record.error()));
                  const auto turn = fold::read_turn(*turns->kind, *record);
                  if (!turn) return turns->done(std::unexpected(turn.error()));
                  turns->turns.push_back(turn->view());
                  turns->next_seq = record->seq + 1;
                }
                if (turns->next_seq > turns->last_seq) return turns->done(std::move(turns->turns));
                if (page->rows.empty()) {
                  return turns->done(base::fail(
                      base::Code::stream_damaged,
                      turns->stream.text() + " record " + std::to_string(turns->next_seq) + ": missing"));
                }
                next_page(turns);
              });
}

void Loader::abandon_all() {
  waiting_.clear();
  running_ = 0;
}

}  // namespace sandglass::engine::shard
