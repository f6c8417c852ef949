#include "replay-tools/audit/topic.h"

#include <utility>

#include "engine/codec/record.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/rows/move.h"
#include "replay-tools/audit/stream_chains.h"

namespace sandglass::replay_tools::audit {

namespace base = engine::base;
namespace codec = engine::codec;
namespace core = engine::core;
namespace kafka = engine::journal::kafka;

namespace {

class TopicVerifier {
 public:
  explicit TopicVerifier(TopicReport& out) : out_(out) {}

  base::Status partition(TopicSource& source, core::PartitionId partition) {
    partition_ = partition;
    rule_.reset();
    chains_of_records_.clear();
    base::Status newer;
    const auto read = source.read(partition, [&](const kafka::Message& message) {
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
    if (!newer) return newer;
    if (!read) return read;
    Head head{.partition = partition};
    if (rule_) head = {partition, rule_->head().sequence, rule_->head().chain};
    out_.report.heads.push_back(head);
    out_.report.streams = streams_.streams();
    return {};
  }

 private:
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
          if (sequence == 0 || sequence > chains_of_records_.size()) return std::nullopt;
          return chains_of_records_[sequence - 1];
        },
        envelope.kind == kafka::Kind::epoch && !engine::journal::is_moved(out_.journal)
            ? kafka::Epochs::announced
            : kafka::Epochs::unannounced);
    return true;
  }

  void apply(const core::OrderedRecord& record) {
    ++out_.report.records;
    chains_of_records_.push_back(record.link.chain);
    if (std::string what = streams_.check(record.record, record.link.leaf); !what.empty()) {
      add({.partition = partition_,
           .sequence = record.link.sequence,
           .stream = record.link.stream,
           .seq = record.link.stream_seq,
           .what = std::move(what)});
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
  std::vector<base::Hash256> chains_of_records_;  // of the partition, by sequence
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
