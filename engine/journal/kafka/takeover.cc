#include "engine/journal/kafka/takeover.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/codec/record.h"

namespace sandglass::engine::journal::kafka {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::size_t kMaxTransactionBytes = 32 << 20;
constexpr std::size_t kMessagesAtOnce = 500;
constexpr std::uint64_t kFenceToken = 0;  // sequences begin at 1

base::Status check_like(const OwnerMark& former, const OwnerMark& self, core::PartitionId partition) {
  const std::string where = "partition " + std::to_string(partition) + ": ";
  if (former.key != self.key) {
    return base::fail(base::Code::topic_foreign,
                      where +
                          "whoever wrote the topic's history has another tenant key than this data folder, "
                          "with which nobody could go on with it. Nothing was written. Give this folder a "
                          "copy of the others' keys/tenant, or choose another topic with kafka.topic");
  }
  if (former.blobs == self.blobs) return {};
  return base::fail(base::Code::topic_foreign,
                    where + "whoever wrote the topic's history keeps its blobs in store " + former.blobs +
                        ", and this data folder has store " + self.blobs +
                        ": runs would miss their files. Nothing was written. Mount that store as `blobs` "
                        "here; a copy of it has the same file blobs/id. If it is gone for good, write " +
                        former.blobs + " into blobs/id");
}

}  // namespace

std::string Takeover::stage() const {
  switch (stage_) {
    case Stage::initialising:
      return "for the transaction coordinator to fence the former owner";
    case Stage::fencing:
    case Stage::fence_committing:
      return "for the brokers to take our fence";
    case Stage::reading_everything:
      return "for the log up to our fence";
    case Stage::reading_published:
      return "for the published part of the log up to our fence";
    case Stage::publishing:
    case Stage::committing:
      return "for the brokers to take the former owner's tail and our epoch";
    case Stage::owned:
      return "for nothing: it is owned";
  }
  return {};
}

void Takeover::fail(base::Error error) {
  if (!error_) error_ = std::move(error);
  broker_.stop(Reading::everything);
  broker_.stop(Reading::published);
}

void Takeover::start(const Now& now) {
  times_.began = now.monotonic_ns;
  broker_.init();
}

void Takeover::take(BrokerEvent& event, const Now& now) {
  if (error_ || owned()) return;
  switch (event.what) {
    case BrokerEvent::What::initialised:
      times_.initialised = now.monotonic_ns;
      SG_CRASH_POINT("kafka.initialised");
      stage_ = Stage::fencing;
      begin_transaction();
      return write_fence();
    case BrokerEvent::What::delivered:
      return delivered(event, now);
    case BrokerEvent::What::committed:
      return committed(now);
    case BrokerEvent::What::message:
      if (event.token != reading_) return;
      if (stage_ == Stage::reading_everything) return take_everything(std::move(event.message), now);
      if (stage_ == Stage::reading_published) return take_published(event.message, now);
      return;
    case BrokerEvent::What::not_there:
      if (event.token != reading_) return;
      if (stage_ == Stage::reading_everything && !from_start_) return read_everything(Broker::kLogStart);
      if (stage_ == Stage::reading_published && !starts_.empty()) return read_published(now);
      return fail({base::Code::journal_incomplete, "partition " + std::to_string(view_.partition()) +
                                                       " cannot be read from its start: " + event.why});
    case BrokerEvent::What::fenced:
      return fail({base::Code::journal_fenced, "partition " + std::to_string(view_.partition()) +
                                                   ": another engine took it over meanwhile: " + event.why});
    case BrokerEvent::What::failed:
      return fail({base::Code::outcome_unknown, "partition " + std::to_string(view_.partition()) +
                                                    ", waiting " + stage() + ": " + event.why});
  }
}

void Takeover::step(const Now& now) {
  if (error_) return;
  if (stage_ == Stage::fencing && !fence_sent_) write_fence();
  if (stage_ == Stage::publishing) publish(now);
  if (stage_ == Stage::reading_published && now.monotonic_ns > deadline_ns_) {
    fail({base::Code::timed_out,
          "partition " + std::to_string(view_.partition()) + ": for " +
              std::to_string(options_.published_deadline_ms / 1000) +
              " s nothing more of it became readable as committed, although our fence at offset " +
              std::to_string(fence_offset_) +
              " is: a transaction of another producer hangs in the topic. Kafka's kafka-transactions.sh "
              "find-hanging names it, and abort ends it"});
  }
  broker_.send();
}

// ---- the fence

void Takeover::begin_transaction() {
  transaction_bytes_ = 0;
  broker_.begin();
}

/// Once; again while there is no room for it.
void Takeover::write_fence() {
  fence_sent_ = broker_.produce(encode_fence(view_.journal(), options_.nonce), kFenceToken) == Taken::yes;
}

void Takeover::delivered(const BrokerEvent& event, const Now& now) {
  if (stage_ == Stage::fencing) {
    fence_offset_ = event.offset;
    SG_CRASH_POINT("kafka.fence_delivered");
    stage_ = Stage::fence_committing;
    return broker_.commit();
  }
  --undelivered_;
  if (epoch_ && event.token == epoch_->record.link.sequence) epoch_->offset = event.offset;
  publish(now);
}

// ---- reading back

/// A log that is not longer than where we stand is not the one that we have read; a reading there would wait
/// for ever for what is not to come.
void Takeover::read_everything(std::int64_t from) {
  stage_ = Stage::reading_everything;
  goes_on_ = from >= 0 && from < fence_offset_;
  from_start_ = !goes_on_;
  catch_up_.begin(from_start_);
  broker_.read(Reading::everything, goes_on_ ? from : Broker::kLogStart, ++reading_);
}

void Takeover::take_everything(ReadMessage message, const Now& now) {
  if (goes_on_ && !catch_up_.is_newest(message)) return read_everything(Broker::kLogStart);
  goes_on_ = false;
  const std::int64_t offset = message.offset;
  if (auto status = catch_up_.take(std::move(message)); !status) return fail(status.error());
  if (offset >= fence_offset_ && catch_up_.fence() == options_.nonce) everything_read(now);
}

void Takeover::everything_read(const Now& now) {
  const core::Sequence had = had_;
  if (catch_up_.met() < had && !from_start_) return read_everything(Broker::kLogStart);
  broker_.stop(Reading::everything);
  if (auto status = catch_up_.flush(); !status) return fail(status.error());
  if (catch_up_.met() < had && !options_.republish_from_view) {
    return fail(
        {base::Code::journal_incomplete,
         "partition " + std::to_string(view_.partition()) + ": its topic ends at sequence " +
             std::to_string(catch_up_.met()) + ", but sequences " + std::to_string(catch_up_.met() + 1) +
             " to " + std::to_string(had) +
             " were acknowledged and are in this folder's view: the brokers have lost them. Nothing "
             "was changed. To publish them again from here, start once with --set "
             "kafka.republish_from_view=true; to accept the loss, once with --set kafka.accept_loss=true, "
             "which keeps the view aside and makes it anew from the topic"});
  }
  if (auto may = check_owners(); !may) return fail(may.error());
  times_.read = now.monotonic_ns;
  SG_CRASH_POINT("kafka.read");
  starts_.assign(catch_up_.starts().begin(), catch_up_.starts().end());
  const std::int64_t known = view_.position().published_from;
  std::erase_if(starts_, [known](std::int64_t start) { return start <= known; });
  if (known >= 0) starts_.insert(starts_.begin(), known);
  // At the end of a log that has become shorter a reading would wait for ever.
  std::erase_if(starts_, [this](std::int64_t start) { return start >= fence_offset_; });
  starts_.insert(starts_.begin(), Broker::kLogStart);
  read_published(now);
}

/// A journal that has moved on has no owner any more, only a tail to publish; one that is on its way here has
/// none yet. Who cannot go on with what its owners did is none.
base::Status Takeover::check_owners() {
  auto moves = view_.moves();
  if (!moves) return std::unexpected(moves.error());
  if (moves->owner && !options_.self.key.empty()) {
    if (auto like = check_like(*moves->owner, options_.self, view_.partition()); !like) return like;
  }
  if (!options_.reopen) closed_ = std::move(moves->away);
  if (!is_moved(view_.journal()) || moves->owned_since) return {};
  if (moves->here && moves->here->folder == view_.folder()) return {};
  return base::fail(base::Code::topic_foreign,
                    "partition " + std::to_string(view_.partition()) +
                        ": the topic has the records of a journal that is being moved to it, and nobody has "
                        "owned it since. Go on with `sandglass migrate --continue` with the data folder "
                        "that it comes from, and start that one's server first; if the move was given up "
                        "there, choose another topic with kafka.topic, or delete this one");
}

void Takeover::read_published(const Now& now) {
  stage_ = Stage::reading_published;
  any_published_ = false;
  published_ = 0;
  published_offset_ = -1;
  deadline_ns_ = now.monotonic_ns + options_.published_deadline_ms * kNsPerMs;
  // What is not published is mostly short, and never read more than twice for the place where it begins.
  const std::size_t back = std::min(std::exchange(reach_, 2 * reach_), starts_.size());
  starts_.resize(starts_.size() - back + 1);
  const std::int64_t from = starts_.back();
  starts_.pop_back();
  broker_.read(Reading::published, from, ++reading_);
}

void Takeover::take_published(const ReadMessage& message, const Now& now) {
  deadline_ns_ = now.monotonic_ns + options_.published_deadline_ms * kNsPerMs;
  const auto& envelope = message.envelope;
  if (!envelope || envelope->journal != view_.journal()) return;
  if (envelope->kind == Kind::fence && envelope->nonce == options_.nonce) {
    if (!any_published_ && !starts_.empty()) return read_published(now);
    return published_found(now);
  }
  if (!envelope->sequenced() || (any_published_ && envelope->sequence != published_ + 1)) return;
  const auto record = decode_record(*envelope, message.value, view_.partition());
  const core::Sequence head = catch_up_.rule().head().sequence;
  if (!record || envelope->sequence > head || view_.hash_of(envelope->sequence) != record->link.chain) return;
  any_published_ = true;
  published_ = envelope->sequence;
  published_offset_ = message.offset;
}

void Takeover::published_found(const Now& now) {
  broker_.stop(Reading::published);
  view_.published(published_, published_offset_);
  times_.found = now.monotonic_ns;
  SG_CRASH_POINT("kafka.published_found");
  stage_ = Stage::publishing;
  next_ = published_ + 1;
  begin_transaction();
  publish(now);
}

// ---- the former owner's tail, and our epoch

void Takeover::publish(const Now& now) {
  if (transaction_bytes_ >= kMaxTransactionBytes) {
    if (undelivered_ > 0) return;
  } else {
    if (!publish_tail() || error_) return;
    const bool room = transaction_bytes_ < kMaxTransactionBytes;
    if (room && !epoch_ && !closed_) publish_epoch(now);
    if (undelivered_ > 0 || (room && !epoch_ && !closed_)) return;
  }
  SG_CRASH_POINT("kafka.tail_published");
  stage_ = Stage::committing;
  broker_.commit();
}

/// True: nothing more goes into this transaction.
bool Takeover::publish_tail() {
  const core::Sequence head = catch_up_.rule().head().sequence;
  while (next_ <= head && transaction_bytes_ < kMaxTransactionBytes) {
    if (chunk_.empty()) {
      auto messages = view_.messages(next_, kMessagesAtOnce);
      if (!messages) {
        fail(messages.error());
        return false;
      }
      std::ranges::move(*messages, std::back_inserter(chunk_));
    }
    const Message& message = chunk_.front().second;
    if (broker_.produce(message, chunk_.front().first) != Taken::yes) return false;
    ++undelivered_;
    ++next_;
    ++published_again_;
    transaction_bytes_ += message.value.size();
    chunk_.pop_front();
  }
  return true;
}

void Takeover::publish_epoch(const Now& now) {
  const auto moves = view_.moves();
  if (!moves) return fail(moves.error());
  const AppliedHead& head = catch_up_.rule().head();
  OwnerMark self = options_.self;
  self.skipped = catch_up_.skipped();
  Epoch epoch;
  epoch.record.record = make_epoch_record(view_.owners(), moves->newest ? &*moves->newest : nullptr,
                                          catch_up_.rule().highest_epoch() + 1,
                                          view_.time_of_next(now.wall_ms), encode_owner(self));
  core::OrderLink& link = epoch.record.link;
  link = {.sequence = head.sequence + 1,
          .epoch = catch_up_.rule().highest_epoch() + 1,
          .stream = view_.owners(),
          .stream_seq = epoch.record.record.seq,
          .leaf = codec::leaf_hash(epoch.record.record)};
  link.chain = codec::chain_hash(head.chain, view_.partition(), link.sequence, link.epoch, link.leaf);
  epoch.row = codec::encode_record(epoch.record.record);
  const Message message = encode_record(view_.journal(), Kind::epoch, link, head.chain, epoch.row);
  if (broker_.produce(message, link.sequence) != Taken::yes) return;  // made again when there is room
  epoch_ = std::move(epoch);
  ++undelivered_;
}

void Takeover::committed(const Now& now) {
  if (stage_ == Stage::fence_committing) {
    times_.fenced = now.monotonic_ns;
    SG_CRASH_POINT("kafka.fence_committed");
    had_ = catch_up_.rule().head().sequence;
    return read_everything(view_.position().offset);
  }
  if (!epoch_ && closed_ && next_ > catch_up_.rule().head().sequence) return fail(closed_by(*closed_));
  if (!epoch_) {  // a part of a long tail
    stage_ = Stage::publishing;
    begin_transaction();
    return publish(now);
  }
  SG_CRASH_POINT("kafka.epoch_committed");
  const core::OrderLink& link = epoch_->record.link;
  catch_up_.rule().wrote(link);
  view_.add(epoch_->record, std::move(epoch_->row), {}, epoch_->offset);
  view_.published(link.sequence, epoch_->offset);
  if (auto status = view_.flush(); !status) return fail(status.error());
  times_.owned = now.monotonic_ns;
  stage_ = Stage::owned;
  if (published_again_ > 0) {
    base::log(base::LogLevel::info, "kafka_tail_published",
              {{"partition", view_.partition()}, {"records", published_again_}, {"epoch", link.epoch}});
  }
}

}  // namespace sandglass::engine::journal::kafka
