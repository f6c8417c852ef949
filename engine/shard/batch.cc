#include "engine/shard/batch.h"

#include <iterator>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/crash_point.h"
#include "engine/codec/record.h"

namespace sandglass::engine::shard {

Batches::Batches(core::PartitionId partition, const journal::Ownership& ownership)
    : partition_(partition),
      epoch_(ownership.epoch),
      last_sequence_(ownership.last_sequence),
      chain_(ownership.chain) {
  open_.number = 1;
}

void Batches::add(fold::MadeRecord made, Resident& resident, AfterDurable after) {
  open_.bytes += codec::encoded_size(made.record.header.size(), made.record.slots);
  core::OrderLink link{.epoch = epoch_, .stream = made.record.stream, .stream_seq = made.record.seq};
  link.leaf = made.leaf;
  open_.records.push_back({link, std::move(made.record)});
  open_.held.insert(open_.held.end(), std::make_move_iterator(after.held.begin()),
                    std::make_move_iterator(after.held.end()));
  open_.closed.push_back(
      {&resident, std::move(made.header), std::move(after.actions), std::move(after.messages)});
}

void Batches::hold(std::uint64_t number, Held held) {
  if (number <= durable_) {
    ready_.push_back(std::move(held));
  } else if (number == open_.number) {
    open_.held.push_back(std::move(held));
  } else {
    in_flight_[number - in_flight_.front().number].held.push_back(std::move(held));
  }
}

void Batches::submit(journal::Journal& journal) {
  for (auto& record : open_.records) {
    core::OrderLink& link = record.link;
    link.sequence = ++last_sequence_;
    chain_ = codec::chain_hash(chain_, partition_, link.sequence, epoch_, link.leaf);
    link.chain = chain_;
  }
  SG_CRASH_POINT("shard.before_submit");
  open_.ticket = journal.submit({partition_, std::move(open_.records), std::move(open_.changes)});
  const std::uint64_t next = open_.number + 1;
  in_flight_.push_back(std::move(open_));
  open_ = Batch{};
  open_.number = next;
}

Batch Batches::durable(journal::Ticket ticket) {
  SG_CHECK(!in_flight_.empty() && in_flight_.front().ticket == ticket,
           "the journal completes tickets in order");
  Batch batch = std::move(in_flight_.front());
  in_flight_.pop_front();
  durable_ = batch.number;
  return batch;
}

std::vector<Held> Batches::take_ready() {
  return std::exchange(ready_, {});
}

std::vector<Held> Batches::take_all() {
  std::vector<Held> all = take_ready();
  const auto take = [&](Batch& batch) {
    all.insert(all.end(), std::make_move_iterator(batch.held.begin()),
               std::make_move_iterator(batch.held.end()));
    batch = Batch{};
  };
  for (Batch& batch : in_flight_) take(batch);
  take(open_);
  in_flight_.clear();
  return all;
}

}  // namespace sandglass::engine::shard
