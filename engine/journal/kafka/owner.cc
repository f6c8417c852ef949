#include "engine/journal/kafka/owner.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/crash_point.h"
#include "engine/codec/record.h"

namespace sandglass::engine::journal::kafka {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
/// With so many messages on their way librdkafka sends no others: what comes meanwhile is kept back here, and
/// goes together.
constexpr std::size_t kMostUndelivered = 5;
constexpr std::uint64_t kFillerToken = 0;  // sequences begin at 1
constexpr const char* kEnded = "the ownership of the partition has ended";

}  // namespace

/// Encodes at once: while a batch is kept back there is time for it.
void Owner::submit(Ticket ticket, Batch batch) {
  Waiting waiting{.ticket = ticket, .batch = std::move(batch)};
  waiting.messages.reserve(waiting.batch.records.size());
  for (const core::OrderedRecord& record : waiting.batch.records) {
    waiting.messages.push_back(encode_record(view_.journal(), Kind::record, record.link, submitted_chain_,
                                             codec::encode_record(record.record)));
    submitted_chain_ = record.link.chain;
  }
  waiting_.push_back(std::move(waiting));
}

void Owner::end(Completion completion, std::string why) {
  if (!over_) over_ = Over{completion, std::move(why)};
}

void Owner::take(const BrokerEvent& event, base::MonotonicNs now_ns) {
  if (over_) return;
  switch (event.what) {
    case BrokerEvent::What::delivered:
      return delivered(event);
    case BrokerEvent::What::committed:
      return committed(now_ns);
    case BrokerEvent::What::fenced:
      return end(Completion::fenced, "another owner has taken over: " + event.why);
    case BrokerEvent::What::failed:
      return end(Completion::unknown, "the brokers failed: " + event.why);
    case BrokerEvent::What::initialised:
    case BrokerEvent::What::message:
    case BrokerEvent::What::not_there:
      return;
  }
}

void Owner::step(base::MonotonicNs now_ns, std::vector<Completed>& completed) {
  if (!over_) produce_waiting(now_ns);
  broker_.send();  // first: the brokers work on it while the view is written
  apply_whole(completed);
  if (!over_) {
    if (state_ == State::open && publish_due(now_ns)) state_ = State::draining;
    if (state_ == State::draining && undelivered_ == 0) {
      SG_CRASH_POINT("kafka.before_commit");
      state_ = State::committing;
      broker_.commit();
    }
  }
  if (over_) give_up(completed);
}

void Owner::give_up(std::vector<Completed>& completed) {
  end(Completion::unknown, kEnded);
  Over told = *over_;
  for (Waiting& waiting : waiting_) {
    completed.push_back({.ticket = waiting.ticket,
                         .partition = view_.partition(),
                         .completion = told.completion,
                         .message = told.why});
    // Only the first is known to have met its successor; what became of the others follows from it.
    told = Over{Completion::unknown, kEnded};
  }
  waiting_.clear();
  first_unproduced_ = 0;
}

std::optional<base::Error> Owner::over() const {
  if (!over_) return std::nullopt;
  return base::Error{
      over_->completion == Completion::fenced ? base::Code::journal_fenced : base::Code::outcome_unknown,
      over_->why};
}

void Owner::finish() {
  finishing_ = true;
}

bool Owner::finished() const {
  return over_ || (state_ == State::none && waiting_.empty());
}

// ---- producing

bool Owner::begin(base::MonotonicNs now_ns) {
  if (!broker_.begin()) return false;
  state_ = State::open;
  began_ns_ = now_ns;
  tail_bytes_ = 0;
  return true;
}

void Owner::produce_waiting(base::MonotonicNs now_ns) {
  if (undelivered_ >= kMostUndelivered) return;
  while (first_unproduced_ < waiting_.size() && (state_ == State::none || state_ == State::open)) {
    if (state_ == State::none && !begin(now_ns)) return;
    if (!produce(waiting_[first_unproduced_], now_ns)) return;
    ++first_unproduced_;
    if (tail_bytes_ >= options_.max_tail_bytes) state_ = State::draining;
  }
}

/// True: all of it is with the broker.
bool Owner::produce(Waiting& waiting, base::MonotonicNs now_ns) {
  while (waiting.produced < waiting.messages.size()) {
    const Message& message = waiting.messages[waiting.produced];
    if (broker_.produce(message, waiting.batch.records[waiting.produced].link.sequence) != Taken::yes)
      return false;
    ++waiting.produced;
    ++undelivered_;
    tail_bytes_ += message.value.size();
    last_record_ns_ = now_ns;
  }
  return true;
}

void Owner::delivered(const BrokerEvent& event) {
  --undelivered_;
  if (event.offset >= 0) {  // -1: a message that came twice, of which a broker remembers no place
    if (event.offset <= log_end_) {
      return end(Completion::unknown, "the topic has become shorter: a message was put at offset " +
                                          std::to_string(event.offset) + ", behind one at offset " +
                                          std::to_string(log_end_) + "; the brokers have lost messages");
    }
    log_end_ = event.offset;
  }
  if (event.token == kFillerToken) return;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Waiting& waiting = waiting_[i];
    if (waiting.whole()) continue;
    SG_CHECK(waiting.batch.records[waiting.delivered].link.sequence == event.token,
             "messages are delivered in order");
    ++waiting.delivered;
    waiting.offset = event.offset;
    return;
  }
  SG_CHECK(false, "a message was delivered that nobody waits for");
}

void Owner::apply_whole(std::vector<Completed>& completed) {
  std::vector<Waiting> whole;
  while (!waiting_.empty() && first_unproduced_ > 0 && waiting_.front().whole()) {
    whole.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    --first_unproduced_;
  }
  if (whole.empty()) return;
  SG_CRASH_POINT("kafka.delivered");
  for (Waiting& waiting : whole) {
    std::size_t at = 0;
    for (core::OrderedRecord& record : waiting.batch.records) {
      rule_.wrote(record.link);
      std::vector<view::ViewChange> changes;
      if (at + 1 == waiting.batch.records.size()) changes = std::move(waiting.batch.view_changes);
      std::string& row = waiting.messages[at].value;
      counters_.bytes += row.size();
      counters_.puts += 2 + changes.size();
      view_.add(record, std::move(row), std::move(changes), waiting.offset);
      ++at;
    }
    counters_.records += at;
    if (at == 0) {
      view_.add_rows(std::move(waiting.batch.view_changes));
    } else {
      newest_delivered_ = waiting.batch.records.back().link.sequence;
      newest_offset_ = waiting.offset;
    }
  }
  if (auto status = view_.flush(); !status) {
    // The records are durable, the view is not: whoever opens it next goes on from where it stands.
    end(Completion::unknown, status.error().message);
    for (Waiting& waiting : whole) {
      completed.push_back({.ticket = waiting.ticket,
                           .partition = view_.partition(),
                           .completion = Completion::unknown,
                           .message = status.error().message});
    }
    return;
  }
  SG_CRASH_POINT("kafka.applied");
  counters_.batches += whole.size();
  ++counters_.syncs;
  for (const Waiting& waiting : whole)
    completed.push_back({.ticket = waiting.ticket, .partition = view_.partition()});
}

// ---- publishing

bool Owner::publish_due(base::MonotonicNs now_ns) const {
  const auto due = due_ns();
  return due && now_ns >= *due;
}

std::optional<base::MonotonicNs> Owner::due_ns() const {
  if (state_ != State::open || over_) return std::nullopt;
  if (finishing_) return began_ns_;
  if (tail_bytes_ > 0) return began_ns_ + options_.publish_interval_ms * kNsPerMs;
  return last_record_ns_ + options_.idle_ms * kNsPerMs;
}

void Owner::committed(base::MonotonicNs now_ns) {
  if (over_ || state_ != State::committing) return;
  SG_CRASH_POINT("kafka.committed");
  state_ = State::none;
  if (newest_offset_ >= 0) view_.published(newest_delivered_, newest_offset_);
  const bool busy = !finishing_ && now_ns - last_record_ns_ < options_.idle_ms * kNsPerMs;
  if (!busy) {
    if (auto status = view_.flush(); !status) end(Completion::unknown, status.error().message);
    return;
  }
  if (begin(now_ns) && broker_.produce(encode_filler(view_.journal()), kFillerToken) == Taken::yes)
    ++undelivered_;
}

}  // namespace sandglass::engine::journal::kafka
