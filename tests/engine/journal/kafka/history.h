// Records with right links and chains, as messages: what owners write in tests of the Kafka journal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/codec/record.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/kafka/wire.h"
#include "engine/journal/rows/owners.h"

namespace sandglass::engine::journal::kafka {

inline const std::string kJournal = "journal under test";
inline constexpr core::PartitionId kPartition = 1;
inline constexpr std::uint16_t kPartitions = 4;

inline AppliedHead genesis() {
  return {.sequence = 0, .chain = codec::genesis_chain(kJournal, kPartition), .epoch = 0};
}

struct Written {
  core::OrderedRecord record;
  base::Hash256 previous;
  Message message;
};

/// Writes one history: each record follows the one before it.
class HistoryWriter {
 public:
  explicit HistoryWriter(AppliedHead head = genesis()) : head_(head) {}

  Written record(const std::string& text) {
    const auto stream = core::StreamId::named(core::StreamKind::test, "history");
    core::StoredRecord stored{.stream = stream, .seq = head_.sequence + 1, .header = text};
    stored.slots.push_back(std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, "{}"}));
    return link(Kind::record, std::move(stored));
  }
  Written begin_epoch(core::OwnerEpoch epoch) {
    head_.epoch = epoch;
    const auto owners = owners_stream(kPartition, kPartitions);
    return link(Kind::epoch, make_epoch_record(owners, nullptr, epoch, 1'000));
  }
  const AppliedHead& head() const { return head_; }

 private:
  Written link(Kind kind, core::StoredRecord stored) {
    Written written{.previous = head_.chain};
    core::OrderLink link{.sequence = ++head_.sequence,
                         .epoch = head_.epoch,
                         .stream = stored.stream,
                         .stream_seq = stored.seq,
                         .leaf = codec::leaf_hash(stored)};
    link.chain = codec::chain_hash(head_.chain, kPartition, link.sequence, link.epoch, link.leaf);
    head_.chain = link.chain;
    written.message = encode_record(kJournal, kind, link, written.previous, codec::encode_record(stored));
    written.record = {.link = std::move(link), .record = std::move(stored)};
    return written;
  }

  AppliedHead head_;
};

/// A follower: the rule, and what it made of each message.
class Follower {
 public:
  explicit Follower(AppliedHead head = genesis(), std::vector<base::Hash256> chains = {})
      : chains_(std::move(chains)), rule_(kJournal, head, [this](core::Sequence sequence) {
          return sequence <= chains_.size() ? std::optional(chains_[sequence - 1]) : std::nullopt;
        }) {}
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  Judgement take(const Message& message) {
    const auto envelope = decode_envelope(message);
    if (!envelope) return rule_.judge_malformed(envelope.error().message);
    std::optional<base::Hash256> hash;
    if (envelope->sequenced()) {
      const auto record = decode_record(*envelope, message.value, kPartition);
      if (record) hash = record->link.chain;
    }
    Judgement judgement = rule_.judge(*envelope, hash);
    if (judgement.verdict == Verdict::apply) chains_.push_back(*hash);
    return judgement;
  }
  const ApplyRule& rule() const { return rule_; }
  const std::vector<base::Hash256>& chains() const { return chains_; }

 private:
  std::vector<base::Hash256> chains_;  // of sequence i + 1
  ApplyRule rule_;
};

}  // namespace sandglass::engine::journal::kafka
