#include "engine/server/compose/loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "engine/base/check.h"

namespace sandglass::engine::server::compose {

namespace {

constexpr std::int64_t kLongestSleepMs = 60'000;

}  // namespace

Loop::Loop(const base::Clock& clock) : clock_(clock), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  SG_CHECK(event_, "eventfd");
}

Loop::~Loop() {
  stop();
}

void Loop::start(std::unique_ptr<shard::ShardSet> shards, LoopExtra extra,
                 std::function<void(const base::Error&)> on_lost) {
  shards_ = std::move(shards);
  extra_ = std::move(extra);
  on_lost_ = std::move(on_lost);
  thread_ = std::thread([this] { run(); });
}

void Loop::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  wake();
  thread_.join();
  shards_.reset();
}

void Loop::wake() {
  // One write for any number of wake-ups before the loop looks: the flag is taken back before it does.
  if (woken_.exchange(true)) return;
  const std::uint64_t one = 1;
  while (::write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Loop::post(std::move_only_function<void(shard::ShardSet&)> work) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(work));
  }
  wake();
}

bool Loop::drain() {
  std::vector<std::move_only_function<void(shard::ShardSet&)>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(mailbox_);
  }
  for (auto& work : taken) work(*shards_);
  return !taken.empty();
}

shard::Now Loop::now() const {
  return {.wall_ms = clock_.wall_ms(),
          .monotonic_ns = clock_.monotonic_ns(),
          .calendar_ms = clock_.calendar_ms()};
}

void Loop::run() {
  while (!stopping_) {
    woken_ = false;
    std::uint64_t count = 0;
    if (::read(event_.get(), &count, sizeof count) < 0) count = 0;  // nobody woke us
    step_until_idle();
    quiet_ = shards_->quiet();
    records_ = shards_->counters().records;
    sleep();
  }
}

void Loop::step_until_idle() {
  for (bool busy = true; busy && !stopping_;) {
    busy = drain();
    if (extra_.poll) extra_.poll();
    if (!shards_->lost()) busy = shards_->poll(now()) || busy;
    if (shards_->lost() && on_lost_) std::exchange(on_lost_, nullptr)(*shards_->lost());
  }
}

void Loop::sleep() {
  const shard::Now slept = now();
  const std::int64_t wake = shards_->lost() ? slept.wall_ms + kLongestSleepMs : shards_->next_wake_ms(slept);
  const auto ms = static_cast<int>(std::clamp<std::int64_t>(wake - slept.wall_ms, 0, kLongestSleepMs));
  const int extra = extra_.wake_fd ? extra_.wake_fd() : -1;
  std::array<pollfd, 2> polled = {{{event_.get(), POLLIN, 0}, {extra, POLLIN, 0}}};
  if (!stopping_) ::poll(polled.data(), polled.size(), ms);  // interrupted or not: the caller looks again
}

void Loop::submit(shard::CommandEnvelope envelope) {
  post([envelope = std::move(envelope)](shard::ShardSet& shards) mutable {
    shards.submit(std::move(envelope));
  });
}

void Loop::read(const core::StreamId& stream, shard::ReadFn on_read) {
  post([stream, on_read = std::move(on_read)](shard::ShardSet& shards) mutable {
    shards.read(stream, std::move(on_read));
  });
}

void Loop::ask(const core::StreamId& stream, core::Question question, shard::SaidFn on_said) {
  post([stream, question = std::move(question), on_said = std::move(on_said)](
           shard::ShardSet& shards) mutable { shards.ask(stream, std::move(question), std::move(on_said)); });
}

std::uint64_t Loop::follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                           shard::RecordsFn on_records) {
  const std::uint64_t number = ++last_follow_;
  post([this, number, stream, from_seq, limit,
        on_records = std::move(on_records)](shard::ShardSet& shards) mutable {
    follows_[number].stream = stream;
    const shard::FollowId id =
        shards.follow(stream, from_seq, limit,
                      [this, number, on_records = std::move(on_records)](
                          base::Result<std::vector<core::StoredRecord>> records) mutable {
                        follows_.erase(number);
                        on_records(std::move(records));
                      });
    if (const auto found = follows_.find(number); found != follows_.end()) found->second.id = id;
  });
  return number;
}

void Loop::cancel_follow(std::uint64_t number) {
  post([this, number](shard::ShardSet& shards) {
    const auto found = follows_.find(number);
    if (found == follows_.end()) return;
    shards.cancel_follow(found->second.stream, found->second.id);
    follows_.erase(found);
  });
}

}  // namespace sandglass::engine::server::compose
