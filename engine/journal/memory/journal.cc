#include "engine/journal/memory/journal.h"

#include "engine/base/check.h"
#include "engine/base/draw.h"

namespace sandglass::engine::journal {

MemoryJournal::MemoryJournal(view::MemoryDisk& disk, base::Random& random, MemoryJournalOptions options)
    : disk_(disk), random_(random), options_(std::move(options)), view_(disk, random) {
  const auto found = read_meta(view_);
  if (found) {
    meta_ = *found;
    return;
  }
  SG_CHECK(found.error().code == base::Code::not_found, found.error().message);
  meta_ = options_.meta;
  disk_.sync(disk_.write(0, meta_rows(meta_)));
}

MemoryJournal::~MemoryJournal() = default;  // unsynced writes stay on the disk: crash() decides about them

base::Result<Ownership> MemoryJournal::own(core::PartitionId partition) {
  disk_.fence(partition);
  auto ownership = read_ownership(view_, meta_, partition);
  if (!ownership) return ownership;
  ++ownership->epoch;
  disk_.sync(disk_.write(partition, {owner_epoch_row(partition, ownership->epoch)}));
  Partition owned(*ownership);
  const auto former = partitions_.find(partition);
  if (former != partitions_.end()) owned.settled = std::move(former->second.settled);
  partitions_.insert_or_assign(partition, std::move(owned));
  return ownership;
}

Ticket MemoryJournal::submit(Batch batch) {
  const auto found = partitions_.find(batch.partition);
  SG_CHECK(found != partitions_.end(), "a batch of a partition that is not owned");
  Partition& partition = found->second;
  Pending pending{.answer = {.ticket = ++last_ticket_, .partition = batch.partition},
                  .epoch = partition.guard.epoch()};
  if (partition.over) {
    pending.answer.completion = Completion::unknown;
    pending.answer.message = "the ownership of the partition has ended";
    queue_.push_back(std::move(pending));
    return last_ticket_;
  }
  partition.guard.check(batch);
  if (!partition.to_fail.empty()) {
    pending.answer.completion = partition.to_fail.front();
    partition.to_fail.erase(partition.to_fail.begin());
  } else if (!is_owner(batch.partition, partition.guard.epoch())) {
    pending.answer.completion = Completion::fenced;
  } else if (base::draw_chance(random_, options_.unknown_per_mille)) {
    pending.answer.completion = Completion::unknown;
  }
  if (pending.answer.completion == Completion::durable) {
    counters_.batches += 1;
    counters_.records += batch.records.size();
  } else {
    partition.over = true;
    pending.answer.message = pending.answer.completion == Completion::fenced
                                 ? "another owner has taken over"
                                 : "the outcome of the write is unknown";
  }
  const bool written =
      pending.answer.completion == Completion::durable ||
      (pending.answer.completion == Completion::unknown && base::draw_below(random_, 2) == 1);
  if (written) {
    std::vector<view::ViewChange> rows;
    take_rows(batch, rows);
    counters_.puts += rows.size();
    counters_.bytes += row_bytes(rows);
    pending.write = disk_.write(batch.partition, std::move(rows));
  }
  queue_.push_back(std::move(pending));
  return last_ticket_;
}

bool MemoryJournal::is_owner(core::PartitionId partition, core::OwnerEpoch epoch) const {
  const auto now = read_ownership(view_, meta_, partition);
  return now && now->epoch == epoch;
}

void MemoryJournal::settle(Pending pending) {
  Partition& partition = partitions_.at(pending.answer.partition);
  if (pending.write != 0 && !disk_.sync(pending.write) && pending.answer.completion == Completion::durable) {
    pending.answer.completion = Completion::fenced;
    pending.answer.message = "another owner has taken over";
    partition.over =
        partition.over || pending.epoch == partition.guard.epoch();  // not a later ownership of ours
  }
  partition.settled.push_back(std::move(pending.answer));
}

void MemoryJournal::settle_some() {
  if (queue_.empty() || !base::draw_chance(random_, options_.sync_per_mille)) return;
  ++counters_.syncs;
  for (std::uint64_t left = 1 + base::draw_below(random_, queue_.size()); left > 0; --left) {
    Pending pending = std::move(queue_.front());
    queue_.pop_front();
    settle(std::move(pending));
  }
}

void MemoryJournal::poll(std::vector<Completed>& completed) {
  settle_some();
  for (auto& [id, partition] : partitions_) {
    if (partition.settled.empty() || !base::draw_chance(random_, options_.report_per_mille)) continue;
    for (std::uint64_t left = 1 + base::draw_below(random_, partition.settled.size()); left > 0; --left) {
      completed.push_back(std::move(partition.settled.front()));
      partition.settled.pop_front();
    }
  }
}

void MemoryJournal::fail_next(core::PartitionId partition, Completion completion) {
  SG_CHECK(completion != Completion::durable, "not a failure");
  partitions_.at(partition).to_fail.push_back(completion);
}

std::size_t MemoryJournal::waiting() const {
  std::size_t count = queue_.size();
  for (const auto& [id, partition] : partitions_) count += partition.settled.size();
  return count;
}

}  // namespace sandglass::engine::journal
