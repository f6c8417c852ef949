#include "engine/journal/rocksdb/journal.h"

#include <algorithm>
#include <iterator>
#include <shared_mutex>
#include <string>

#include "engine/base/check.h"
#include "engine/base/crash_point.h"

namespace sandglass::engine::journal {
namespace {

/// More bytes than this are not merged into one write, so that the first of them need not wait for the last.
constexpr std::size_t kMaxGroupBytes = 16 << 20;

}  // namespace

base::Result<std::unique_ptr<RocksJournal>> RocksJournal::open(view::Database& database,
                                                               RocksJournalOptions options) {
  const view::RocksView view(database, 0);
  auto meta = read_meta(view);
  if (!meta && meta.error().code == base::Code::not_found) {
    SG_CHECK(!options.meta.journal_id.empty(), "a new journal needs an id");
    const std::vector<view::ViewChange> rows = meta_rows(options.meta);
    if (const auto written = database.write({&rows, 1}); !written) return std::unexpected(written.error());
    meta = options.meta;
  }
  if (!meta) return std::unexpected(meta.error());
  return std::unique_ptr<RocksJournal>(new RocksJournal(database, *meta, std::move(options.on_completion)));
}

RocksJournal::RocksJournal(view::Database& database, JournalMeta meta, std::function<void()> on_completion)
    : database_(database),
      view_(database, 0),
      meta_(std::move(meta)),
      on_completion_(std::move(on_completion)),
      committer_([this] { work(); }) {}

RocksJournal::~RocksJournal() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  committer_.join();
}

base::Result<Ownership> RocksJournal::own(core::PartitionId partition) {
  const std::unique_lock alone(database_.owner_mutex());
  auto ownership = read_ownership(view_, meta_, partition);
  if (!ownership) return ownership;
  ++ownership->epoch;
  const std::vector<view::ViewChange> row{owner_epoch_row(partition, ownership->epoch)};
  if (const auto written = database_.write({&row, 1}); !written) return std::unexpected(written.error());
  SG_CRASH_POINT("journal.owned");
  owned_.insert_or_assign(partition, SequenceGuard(*ownership));
  return ownership;
}

Ticket RocksJournal::submit(Batch batch) {
  const auto owned = owned_.find(batch.partition);
  SG_CHECK(owned != owned_.end(), "a batch of a partition that is not owned");
  const Ticket ticket = ++last_ticket_;
  {
    const std::lock_guard lock(mutex_);
    const auto over = over_.find(batch.partition);
    if (over == over_.end() || over->second < owned->second.epoch()) owned->second.check(batch);
    waiting_.push_back({.ticket = ticket, .epoch = owned->second.epoch(), .batch = std::move(batch)});
  }
  wake_.notify_one();
  return ticket;
}

void RocksJournal::poll(std::vector<Completed>& completed) {
  const std::lock_guard lock(mutex_);
  std::move(completed_.begin(), completed_.end(), std::back_inserter(completed));
  completed_.clear();
}

JournalCounters RocksJournal::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void RocksJournal::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::vector<Waiting> taken;
    taken.swap(waiting_);
    lock.unlock();
    commit(std::move(taken));
    if (on_completion_) on_completion_();
    lock.lock();
  }
}

/// What is written with one sync, and the answers that hang on it.
struct RocksJournal::Group {
  std::vector<std::vector<view::ViewChange>> rows;
  std::vector<Completed> answers;
  std::size_t bytes = 0;
  JournalCounters counters;
};

void RocksJournal::commit(std::vector<Waiting> taken) {
  auto next = taken.begin();
  while (next != taken.end()) {
    Group group;
    {
      const std::shared_lock shared(database_.owner_mutex());  // no epoch is raised between check and write
      std::map<core::PartitionId, core::OwnerEpoch> epochs;
      for (; next != taken.end() && group.bytes < kMaxGroupBytes; ++next)
        add(std::move(*next), epochs, group);
      write(group);
    }
    const std::lock_guard lock(mutex_);
    std::ranges::move(group.answers, std::back_inserter(completed_));
    counters_.batches += group.counters.batches;
    counters_.records += group.counters.records;
    counters_.puts += group.counters.puts;
    counters_.bytes += group.counters.bytes;
    counters_.syncs += group.counters.syncs;
  }
}

void RocksJournal::add(Waiting waiting, std::map<core::PartitionId, core::OwnerEpoch>& epochs, Group& group) {
  const core::PartitionId partition = waiting.batch.partition;
  Completed answer{.ticket = waiting.ticket, .partition = partition, .completion = Completion::unknown};
  if (const auto over = over_.find(partition); over != over_.end() && over->second >= waiting.epoch) {
    answer.message = "the ownership of the partition has ended";
    group.answers.push_back(std::move(answer));
    return;
  }
  if (!epochs.contains(partition)) {
    const auto found = read_owner_epoch(view_, partition);
    if (!found) answer.message = found.error().message;
    epochs[partition] = found.value_or(0);
  }
  if (epochs[partition] != waiting.epoch) {
    if (epochs[partition] > waiting.epoch) {
      answer.completion = Completion::fenced;
      answer.message = "owner epoch " + std::to_string(epochs[partition]) + " has taken over from " +
                       std::to_string(waiting.epoch);
    }
    over_[partition] = waiting.epoch;
    group.answers.push_back(std::move(answer));
    return;
  }
  answer.completion = Completion::durable;
  group.counters.batches += 1;
  group.counters.records += waiting.batch.records.size();
  auto& rows = group.rows.emplace_back();
  take_rows(waiting.batch, rows);
  group.counters.puts += rows.size();
  group.bytes += row_bytes(rows);
  group.answers.push_back(std::move(answer));
}

void RocksJournal::write(Group& group) {
  if (group.rows.empty()) return;
  const auto written = database_.write(group.rows);
  if (written) {
    group.counters.bytes = group.bytes;
    group.counters.syncs = 1;
    return;
  }
  group.counters = {};
  for (Completed& answer : group.answers) {
    if (answer.completion != Completion::durable) continue;
    answer.completion = Completion::unknown;
    answer.message = written.error().message;
  }
}

}  // namespace sandglass::engine::journal
