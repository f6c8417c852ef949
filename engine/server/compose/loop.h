// The loop thread: the only one that steps the shards. Others reach it through a mailbox and wake it by an
// eventfd, as do journal, view, activator and dispatcher when they have news.
//
//   mailbox ─▶ closures ─▶ poll() until nothing happens ─▶ sleep until the next timer or a wake-up
//
// When the ownership ends (J6) the loop answers everybody, tells `on_lost` and does nothing more: the process
// exits and its supervisor starts another.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/api/backend.h"
#include "engine/base/ports.h"
#include "engine/base/unique_fd.h"
#include "engine/shard/shard_set.h"

namespace sandglass::engine::server::compose {

/// What else the loop's thread does: a part that is polled there and has a descriptor of its own.
struct LoopExtra {
  std::function<void()> poll;    // before each poll of the shards
  std::function<int()> wake_fd;  // readable when `poll` has something to do; -1: none now
};

/// Thread rule: public methods from any thread; start and stop from one.
class Loop final : public api::EnginePort {
 public:
  explicit Loop(const base::Clock& clock);
  ~Loop() override;

  /// From now on the thread steps these shards. `on_lost` is called on it, once.
  void start(std::unique_ptr<shard::ShardSet> shards, LoopExtra extra,
             std::function<void(const base::Error&)> on_lost);
  /// Ends the thread and destroys the shards; what waits for an answer is not answered.
  void stop();

  /// A port has news.
  void wake();
  /// Runs on the loop's thread, in order.
  void post(std::move_only_function<void(shard::ShardSet&)> work);

  void submit(shard::CommandEnvelope envelope) override;
  void read(const core::StreamId& stream, shard::ReadFn on_read) override;
  void ask(const core::StreamId& stream, core::Question question, shard::SaidFn on_said) override;
  std::uint64_t follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                       shard::RecordsFn on_records) override;
  void cancel_follow(std::uint64_t number) override;

  /// Nothing was waiting, open or in flight when the loop went to sleep.
  bool quiet() const { return quiet_; }
  /// Records made so far: changes whenever anything durable changes.
  std::uint64_t records() const { return records_; }

 private:
  struct Follow {
    core::StreamId stream;
    shard::FollowId id = 0;
  };
  void run();
  void step_until_idle();
  void sleep();
  bool drain();
  shard::Now now() const;

  const base::Clock& clock_;
  base::UniqueFd event_;
  std::unique_ptr<shard::ShardSet> shards_;
  LoopExtra extra_;
  std::function<void(const base::Error&)> on_lost_;

  std::mutex mutex_;
  std::vector<std::move_only_function<void(shard::ShardSet&)>> mailbox_;
  std::atomic<bool> woken_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> quiet_{false};
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> last_follow_{0};
  std::map<std::uint64_t, Follow> follows_;  // of the loop's thread
  std::thread thread_;
};

}  // namespace sandglass::engine::server::compose
