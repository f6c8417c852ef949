// A topic partition in a few lines: owners come, write in transactions, die at any moment of their takeover
// or later, and others write nonsense in between. Brokers' part of the bargain is kept: nothing of a fenced
// owner comes after its successor's fence, and a dead owner's open transaction is aborted by it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/draw.h"
#include "tests/engine/journal/kafka/history.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::journal::kafka {

struct ModelEntry {
  enum class State { open, committed, aborted };
  Message message;
  State state = State::open;
  bool foreign = false;
  core::Sequence sequence = 0;
};

class ModelLog {
 public:
  explicit ModelLog(std::uint64_t seed) : random_(seed) {}

  /// So many owners one after the other; the last one finishes what it does.
  void play(int owners) {
    for (int i = 0; i < owners; ++i) own(i + 1 == owners);
  }
  const std::vector<ModelEntry>& entries() const { return entries_; }
  /// Chain hashes of all that was ever acknowledged, in order.
  const std::vector<base::Hash256>& history() const { return history_; }
  tests::support::SeededRandom& random() { return random_; }

 private:
  bool chance(std::uint32_t per_mille) { return base::draw_chance(random_, per_mille); }

  void append(Message message, ModelEntry::State state, core::Sequence sequence = 0) {
    message.offset = static_cast<std::int64_t>(entries_.size());
    entries_.push_back({.message = std::move(message), .state = state, .sequence = sequence});
    if (chance(100)) foreign();
  }
  void foreign() {
    Message message;
    switch (base::draw_below(random_, 4)) {
      case 0:
        message = {.key = "somebody", .value = "else's"};
        break;
      case 1:
        message = HistoryWriter().begin_epoch(99).message;
        for (Header& header : message.headers) {
          if (header.name == "sg.journal") header.value = "another";
        }
        break;
      case 2:
        message = encode_fence("another", "nonce");
        break;
      default:  // an owner long gone, whose broker forgot the fence: another record than what was
                // acknowledged
        if (epoch_ < 2) return;
        message =
            HistoryWriter({.sequence = base::draw_below(random_, history_.size() + 3), .epoch = epoch_ - 1})
                .record("late")
                .message;
    }
    message.offset = static_cast<std::int64_t>(entries_.size());
    entries_.push_back(
        {.message = std::move(message), .state = ModelEntry::State::committed, .foreign = true});
  }
  void end_transaction(ModelEntry::State state) {
    for (ModelEntry& entry : entries_) {
      if (entry.state == ModelEntry::State::open) entry.state = state;
    }
  }

  void own(bool last) {
    const auto dies = [&](std::uint32_t per_mille) { return !last && chance(per_mille); };
    end_transaction(ModelEntry::State::aborted);  // init_transactions
    if (dies(100)) return;
    append(encode_fence(kJournal, std::to_string(entries_.size())), ModelEntry::State::committed);
    if (dies(100)) return;

    Follower follower;
    core::Sequence published = 0;
    std::vector<Message> tail;
    for (const ModelEntry& entry : entries_) {
      if (follower.take(entry.message).verdict == Verdict::apply) tail.push_back(entry.message);
      if (entry.state == ModelEntry::State::committed && !entry.foreign)
        published = std::max(published, entry.sequence);
    }
    for (core::Sequence sequence = published + 1; sequence <= tail.size(); ++sequence) {
      append(tail[sequence - 1], ModelEntry::State::open, sequence);
      if (dies(50)) return;
    }
    HistoryWriter writer(follower.rule().head());
    const Written begin = writer.begin_epoch(follower.rule().highest_epoch() + 1);
    write(begin);
    if (dies(100)) return;
    end_transaction(ModelEntry::State::committed);
    epoch_ = writer.head().epoch;
    serve(writer, last);
  }

  void serve(HistoryWriter& writer, bool last) {
    for (std::uint64_t left = base::draw_below(random_, 20); left > 0; --left) {
      if (chance(200)) append(encode_filler(kJournal), ModelEntry::State::open);
      write(writer.record("record " + std::to_string(random_.next())));
      if (chance(150)) end_transaction(ModelEntry::State::committed);
    }
    if (last) end_transaction(ModelEntry::State::committed);
  }
  void write(const Written& written) {
    history_.resize(written.record.link.sequence - 1);
    history_.push_back(written.record.link.chain);
    append(written.message, ModelEntry::State::open, written.record.link.sequence);
  }

  tests::support::SeededRandom random_;
  std::vector<ModelEntry> entries_;
  std::vector<base::Hash256> history_;
  core::OwnerEpoch epoch_ = 0;  // the newest that serves
};

}  // namespace sandglass::engine::journal::kafka
