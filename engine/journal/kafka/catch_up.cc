#include "engine/journal/kafka/catch_up.h"

#include <algorithm>
#include <utility>

#include "engine/base/log.h"
#include "engine/codec/record.h"

namespace sandglass::engine::journal::kafka {
namespace {

/// So much is written to the view at once while a long log is read; a projection relies on the number of
/// records, for all partitions of a node together.
constexpr std::size_t kFlushBytes = 4 << 20;
constexpr std::size_t kFlushRecords = 512;
constexpr std::size_t kStartsEveryBytes = 1 << 20;
constexpr std::size_t kMostStarts = 96;

}  // namespace

CatchUp::CatchUp(AppliedView& view, const Projection& projection, std::vector<SkippedMessage> skips)
    : view_(view),
      projection_(projection),
      skips_(std::move(skips)),
      rule_(
          view.journal(), view.opened_at(),
          [this](core::Sequence sequence) { return view_.hash_of(sequence); },
          is_moved(view.journal()) ? Epochs::unannounced : Epochs::announced) {}

bool CatchUp::is_newest(const ReadMessage& message) const {
  const auto& envelope = message.envelope;
  if (!envelope || !envelope->sequenced() || envelope->sequence != rule_.head().sequence) return false;
  const auto record = decode_record(*envelope, message.value, view_.partition());
  return record && envelope->journal == view_.journal() && record->link.chain == rule_.head().chain;
}

void CatchUp::begin(bool at_start) {
  from_start_ = at_start;
  met_ = 0;
}

/// From the start on they are met one after the other: behind a gap nothing counts, though it may follow what
/// the view has.
void CatchUp::meet(core::Sequence sequence) {
  if (!from_start_ || sequence <= met_ + 1) met_ = std::max(met_, sequence);
}

base::Status CatchUp::take(ReadMessage message) {
  const auto& envelope = message.envelope;
  Judgement judgement;
  std::optional<core::OrderedRecord> record;
  if (!envelope) {
    // What is newer than this program is never skipped (J4), unless it is another's.
    if (envelope.error().code == base::Code::format_unknown && message.journal == view_.journal())
      return std::unexpected(envelope.error());
    judgement = rule_.judge_malformed(envelope.error().message);
  } else {
    if (envelope->sequenced() && envelope->journal == view_.journal()) {
      auto decoded = decode_record(*envelope, message.value, view_.partition());
      if (!decoded && decoded.error().code == base::Code::format_unknown)
        return std::unexpected(decoded.error());
      if (decoded) record = std::move(*decoded);
    }
    judgement = rule_.judge(*envelope, record ? std::optional(record->link.chain) : std::nullopt);
  }
  switch (judgement.verdict) {
    case Verdict::pass:
      if (envelope->kind == Kind::fence) fence_ = envelope->nonce;
      return {};
    case Verdict::skip:
      meet(envelope->sequence);
      if (envelope->sequence == rule_.head().sequence) view_.moved(message.offset);
      return {};
    case Verdict::apply:
      meet(envelope->sequence);
      return apply(std::move(message), std::move(*record));
    case Verdict::ignore:
      base::log(base::LogLevel::warning, "kafka_message_ignored",
                {{"partition", view_.partition()},
                 {"offset", message.offset},
                 {"reason", judgement.why},
                 {"ignored", rule_.ignored()}});
      return {};
    case Verdict::diverged:
    case Verdict::missing:
      break;
  }
  return refuse(message, judgement);
}

/// Only what is named to the last byte is passed over.
base::Status CatchUp::refuse(const ReadMessage& message, const Judgement& judgement) {
  const SkippedMessage named = name_message(message.offset, *message.envelope, message.value);
  if (std::ranges::find(skips_, named) != skips_.end()) {
    base::log(base::LogLevel::warning, "kafka_message_skipped",
              {{"partition", view_.partition()},
               {"offset", message.offset},
               {"hash", named.hash.hex()},
               {"reason", judgement.why}});
    if (std::ranges::find(skipped_, named) == skipped_.end()) skipped_.push_back(named);
    return {};
  }
  const bool diverged = judgement.verdict == Verdict::diverged;
  return base::fail(
      diverged ? base::Code::journal_diverged : base::Code::journal_incomplete,
      "partition " + std::to_string(view_.partition()) + ", offset " + std::to_string(message.offset) + ": " +
          judgement.why +
          ". Nothing was changed. Look who may write to the topic; if its history is the right "
          "one, start once with --set kafka.accept_loss=true, which keeps the view aside and "
          "makes it anew from the topic. If this message alone is a forgery, it is passed over with --set "
          "'kafka.skip=[\"" +
          encode_skip({.partition = view_.partition(), .message = named}) + "\"]'");
}

base::Status CatchUp::apply(ReadMessage message, core::OrderedRecord record) {
  std::vector<view::ViewChange> changes;
  if (message.envelope->kind == Kind::record && projection_) {
    if (auto status = projection_(view_.partition(), record, changes); !status) return status;
  }
  bytes_since_start_ += message.value.size();
  view_.add(record, std::move(message.value), std::move(changes), message.offset);
  if (bytes_since_start_ >= kStartsEveryBytes) {
    bytes_since_start_ = 0;
    starts_.push_back(message.offset);
    if (starts_.size() > kMostStarts) starts_.pop_front();
    if (starts_.size() == kMostStarts) view_.may_read_published_from(starts_.front());
  }
  const bool much = view_.pending_bytes() >= kFlushBytes || view_.pending_records() >= kFlushRecords;
  return much ? view_.flush() : base::Status();
}

}  // namespace sandglass::engine::journal::kafka
