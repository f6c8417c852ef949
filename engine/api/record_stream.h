// A stream of messages made from a run's durable records: it asks the loop for the next ones when it has none
// left, so that it is never given more than it has asked for, and history and news come the same way.
//
// Thread rule: as Stream says; begin() and take() are never called while another of them is at work.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/api/answer.h"
#include "engine/api/backend.h"

namespace sandglass::engine::api {

template <class Message>
class RecordStream : public Stream<Message>, public std::enable_shared_from_this<RecordStream<Message>> {
 public:
  explicit RecordStream(const Backend& backend) : backend_(backend) {}

  void next(Answer<std::optional<Message>> answer) final {
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
    }
    if (stream_) return go_on();
    begin();
  }

  void stop() final {
    std::uint64_t follow = 0;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      follow = std::exchange(follow_, 0);
    }
    if (follow != 0) backend_.engine.cancel_follow(follow);
    give(base::fail(base::Code::cancelled, "the caller went away"));
  }

 protected:
  /// Finds out whose records these are, then read_from() or give() an error.
  virtual void begin() = 0;
  /// The next record, on the pool. What is to be told of it goes to tell(); after the last, end().
  virtual base::Status take(const core::StoredRecord& record) = 0;

  void read_from(const core::StreamId& stream, std::uint64_t seq) {
    stream_ = stream;
    next_seq_ = seq;
    go_on();
  }
  void tell(Message message) { ready_.push_back(std::move(message)); }
  void end() { ended_ = true; }
  void give(base::Result<std::optional<Message>> message) {
    std::optional<Answer<std::optional<Message>>> answer;
    {
      const std::lock_guard lock(mutex_);
      answer = std::exchange(answer_, std::nullopt);
    }
    if (answer) (*answer)(std::move(message));
  }

  const Backend& backend_;

 private:
  static constexpr std::size_t kPage = 64;

  void go_on() {
    if (!ready_.empty()) {
      auto message = std::move(ready_.front());
      ready_.pop_front();
      return give(std::optional(std::move(message)));
    }
    if (ended_) return give(std::optional<Message>());
    const std::uint64_t follow = backend_.engine.follow(
        *stream_, next_seq_, kPage,
        [self = this->shared_from_this()](base::Result<std::vector<core::StoredRecord>> records) {
          self->backend_.pool.run(
              [self, records = std::move(records)]() mutable { self->take_all(std::move(records)); });
        });
    bool too_late = false;
    {
      const std::lock_guard lock(mutex_);
      too_late = stopped_;
      if (!stopped_) follow_ = follow;
    }
    if (too_late) backend_.engine.cancel_follow(follow);
  }

  void take_all(base::Result<std::vector<core::StoredRecord>> records) {
    if (!records) return give(std::unexpected(records.error()));
    for (const core::StoredRecord& record : *records) {
      if (auto taken = take(record); !taken) return give(std::unexpected(taken.error()));
      next_seq_ = record.seq + 1;
      if (ended_) break;
    }
    go_on();
  }

  std::optional<core::StreamId> stream_;
  std::uint64_t next_seq_ = 0;
  std::deque<Message> ready_;
  bool ended_ = false;

  std::mutex mutex_;  // of what stop() may meet
  std::optional<Answer<std::optional<Message>>> answer_;
  std::uint64_t follow_ = 0;
  bool stopped_ = false;
};

}  // namespace sandglass::engine::api
