#include "replay-tools/audit/topic.h"

#include <algorithm>
#include <utility>

#include "engine/codec/record.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/kafka/skip.h"
#include "engine/journal/rows/move.h"
#include "replay-tools/audit/stream_chains.h"

namespace sandglass::replay_tools::audit {

namespace base = engine::base;
namespace codec = engine::codec;
namespace core = engine::core;
namespace kafka = engine::journal::kafka;

namespace {

using engine::journal::SkippedMessage;

class TopicVerifier {
 public:
  explicit TopicVerifier(TopicReport& out) : out_(out) {}

  base::Status partition(TopicSource& source, core::PartitionId partition) {
    partition_ = partition;
    skips_.clear();
    const TopicReport before = out_;
    const StreamChains streams = streams_;
    while (true) {
      if (auto read = read_partition(source); !read) return read;
      if (!refused_) break;
      const auto named = is_skipped(source, *refused_);
      if (!named) return std::unexpected(named.error());
      if (!*named) break;
      skips_.push_back(*refused_);
      out_ = before;
      streams_ = streams;
    }
    Head head{.partition = partition};
    if (rule_) head = {partition, rule_->head().sequence, rule_->head().chain};
    if (rule_) check_formers();
    out_.report.heads.push_back(head);
    out_.report.streams = streams_.streams();
    return {};
  }

 private:
  base::Status read_partition(TopicSource& source) {
    rule_.reset();
    refused_.reset();
    links_.clear();
    moves_.clear();
    base::Status newer;
    const auto read = source.read(partition_, [&](const kafka::Message& message) {
      auto envelope = kafka::decode_envelope(message);
      if (!envelope && envelope.error().code == base::Code::format_unknown) {
        newer = std::unexpected(envelope.error());
        return false;
      }
      if (!envelope) {
        ignore(message.offset, envelope.error().message);
        return true;
      }
      return take(message, *envelope);
    });
    return newer ? read : newer;
  }

  /// Whether an owner says further down that it has passed this message over.
  base::Result<bool> is_skipped(TopicSource& source, const SkippedMessage& message) const {
    bool named = false;
    const auto read = source.read(partition_, [&](const kafka::Message& each) {
      const auto envelope = kafka::decode_envelope(each);
      if (!envelope || envelope->kind != kafka::Kind::epoch || envelope->journal != out_.journal) return true;
      const auto record = kafka::decode_record(*envelope, each.value, partition_);
      const auto owner = record ? engine::journal::owner_of(record->record)
                                : base::Result<std::optional<engine::journal::OwnerMark>>(std::nullopt);
      named = owner && *owner && std::ranges::find((*owner)->skipped, message) != (*owner)->skipped.end();
      return !named;
    });
    if (!read) return std::unexpected(read.error());
    return named;
  }

  /// False: nothing behind this message is believed.
  bool take(const kafka::Message& message, const kafka::Envelope& envelope) {
    if (!rule_ && envelope.sequenced() && !begin(envelope)) {
      ignore(message.offset, "it is another journal's, or a first record that does not reach its genesis");
      return true;
    }
    if (!rule_) {
      ++out_.marks;
      return true;
    }
    std::optional<core::OrderedRecord> record;
    if (envelope.sequenced()) {
      if (auto decoded = kafka::decode_record(envelope, message.value, partition_))
        record = std::move(*decoded);
    }
    const auto judgement = rule_->judge(envelope, record ? std::optional(record->link.chain) : std::nullopt);
    switch (judgement.verdict) {
      case kafka::Verdict::pass:
        ++out_.marks;
        return true;
      case kafka::Verdict::skip:
        ++out_.again;
        return true;
      case kafka::Verdict::ignore:
        ignore(message.offset, judgement.why);
        return true;
      case kafka::Verdict::apply:
        apply(*record);
        return true;
      case kafka::Verdict::diverged:
      case kafka::Verdict::missing:
        break;
    }
    const SkippedMessage named = kafka::name_message(message.offset, envelope, message.value);
    if (std::ranges::find(skips_, named) != skips_.end()) {
      out_.skipped.push_back("partition " + std::to_string(partition_) + ", offset " +
                             std::to_string(message.offset) + ", hash " + named.hash.hex() + ": " +
                             judgement.why);
      return true;
    }
    refused_ = named;
    find(envelope, judgement.why + " (offset " + std::to_string(message.offset) +
                       "); what follows in this partition was not verified");
    return false;
  }

  /// The first record says whose history it is, and whether owners announce themselves in it: those of an
  /// embedded journal do not. False: a stranger's that cannot be a first one.
  bool begin(const kafka::Envelope& envelope) {
    const auto genesis = codec::genesis_chain(envelope.journal, partition_);
    const bool first = envelope.sequence != 1 || envelope.previous == genesis;
    if (out_.journal.empty() && !first) return false;
    if (out_.journal.empty()) out_.journal = envelope.journal;
    if (envelope.journal != out_.journal) return false;
    rule_.emplace(
        out_.journal, kafka::AppliedHead{.chain = genesis},
        [this](core::Sequence sequence) -> std::optional<base::Hash256> {
          if (sequence == 0 || sequence > links_.size()) return std::nullopt;
          return links_[sequence - 1].chain;
        },
        envelope.kind == kafka::Kind::epoch && !engine::journal::is_moved(out_.journal)
            ? kafka::Epochs::announced
            : kafka::Epochs::unannounced);
    return true;
  }

  void apply(const core::OrderedRecord& record) {
    ++out_.report.records;
    links_.push_back({.epoch = record.link.epoch, .leaf = record.link.leaf, .chain = record.link.chain});
    take_move(record);
    if (std::string what = streams_.check(record.record, record.link.leaf); !what.empty()) {
      add({.partition = partition_,
           .sequence = record.link.sequence,
           .stream = record.link.stream,
           .seq = record.link.stream_seq,
           .what = std::move(what)});
    }
  }

  void take_move(const core::OrderedRecord& record) {
    if (record.link.stream.kind != core::StreamKind::partition) return;
    auto move = engine::journal::move_of(record.record);
    if (move && !*move) return;
    if (move && partition_ < (*move)->heads.size()) return moves_.push_back(std::move(**move));
    add({.partition = partition_,
         .sequence = record.link.sequence,
         .stream = record.link.stream,
         .seq = record.link.stream_seq,
         .what = "what it tells of a move of the journal cannot be read"});
  }

  /// What the records were before their moves (J22).
  void check_formers() {
    bool here = !engine::journal::is_moved(out_.journal);
    for (const engine::journal::Move& move : moves_) {
      here = here || move.new_id() == out_.journal;
      const auto& [sequence, head] = move.heads[partition_];
      base::Hash256 chain = codec::genesis_chain(move.from, partition_);
      core::Sequence at = 0;
      for (; at < sequence && at < links_.size(); ++at)
        chain = codec::chain_hash(chain, partition_, at + 1, links_[at].epoch, links_[at].leaf);
      if (at == sequence && chain == head) {
        if (std::ranges::find(out_.formers, move.from) == out_.formers.end())
          out_.formers.push_back(move.from);
      } else {
        add({.partition = partition_,
             .sequence = sequence,
             .what = "up to here the records are not those of journal " + move.from +
                     ", from which they were moved: its chain led to " + head.hex()});
      }
    }
    if (!here) {
      out_.unchecked.push_back("partition " + std::to_string(partition_) +
                               ": where the journal came from: the record that tells of its move here is not "
                               "on the topic");
    }
  }

  void find(const kafka::Envelope& envelope, std::string what) {
    add({.partition = partition_,
         .sequence = envelope.sequence,
         .stream = envelope.stream,
         .seq = envelope.stream_seq,
         .what = std::move(what)});
  }
  void add(Finding finding) {
    if (out_.report.findings.size() < kMostFindings) out_.report.findings.push_back(std::move(finding));
  }
  void ignore(std::int64_t offset, const std::string& why) {
    ++out_.ignored;
    if (out_.ignored_examples.size() >= kMostFindings) return;
    out_.ignored_examples.push_back("partition " + std::to_string(partition_) + ", offset " +
                                    std::to_string(offset) + ": " + why);
  }

  TopicReport& out_;
  StreamChains streams_;
  core::PartitionId partition_ = 0;
  std::optional<kafka::ApplyRule> rule_;
  struct Link {
    core::OwnerEpoch epoch = 0;
    base::Hash256 leaf;
    base::Hash256 chain;
  };
  std::vector<Link> links_;  // of the partition, by sequence
  std::vector<engine::journal::Move> moves_;
  std::vector<SkippedMessage> skips_;
  std::optional<SkippedMessage> refused_;  // what ended the reading
};

}  // namespace

base::Result<TopicReport> verify_topic(TopicSource& source, std::string journal) {
  const bool named = !journal.empty();
  TopicReport report{.journal = std::move(journal)};
  TopicVerifier verifier(report);
  for (core::PartitionId partition = 0; partition < source.partitions(); ++partition) {
    if (auto done = verifier.partition(source, partition); !done) return std::unexpected(done.error());
  }
  if (named && report.report.records == 0 && report.report.findings.empty()) {
    report.report.findings.push_back({.what = "the topic has no record of journal " + report.journal});
  }
  for (Head& head : report.report.heads) {
    if (head.sequence == 0) head.chain = codec::genesis_chain(report.journal, head.partition);
  }
  return report;
}

}  // namespace sandglass::replay_tools::audit
