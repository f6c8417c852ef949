#include "engine/workflow/threaded_activator.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "engine/base/log.h"
#include "engine/workflow/activator.h"

namespace sandglass::engine::workflow {

/// What threads share. Lives as long as the last of them, an abandoned one included.
struct ThreadedActivator::Shared {
  Shared(const Registry& registry, TenantKey tenant_key, ThreadedActivatorOptions made_options)
      : runs(registry, std::move(tenant_key)), options(std::move(made_options)) {}

  LiveRuns runs;
  ThreadedActivatorOptions options;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<core::ActivationRequest> requests;
  std::vector<core::ActivationAnswer> answers;
  std::set<core::RunningCode> unanswered;  // questions that this process does not put again
  bool stopping = false;
  std::size_t lost_threads = 0;  // abandoned, and not returned
};

/// One thread. `running` is what it has taken; guarded by Shared::mutex, as `abandoned` is.
struct ThreadedActivator::Lane {
  struct Running {
    core::StreamId stream;
    std::uint64_t head = 0;
    base::MonotonicNs since_ns = 0;
    bool dropped = false;   // evicted meanwhile: nobody wants the answer
    bool question = false;  // of a caller: it alone gets an error
  };

  std::optional<Running> running;
  pid_t thread_id = 0;
  bool abandoned = false;
  std::thread thread;

  static void work(const std::shared_ptr<Shared>& shared, const std::shared_ptr<Lane>& lane,
                   const base::Clock& clock);
  static core::ActivationAnswer run_one(Shared& shared, core::ActivationRequest request);
  static core::ActivationAnswer ask(Shared& shared, core::ActivationRequest request);
};

/// A question that ended the process three times is not put again by this one; its run goes on as it was.
core::ActivationAnswer ThreadedActivator::Lane::ask(Shared& shared, core::ActivationRequest request) {
  SlotFile* slots = shared.options.slots.get();
  const core::Question& question = *request.question;
  const bool query = question.kind == core::Question::Kind::query;
  const auto code =
      core::RunningCode::of_step(request.stream, (query ? "?query " : "?update ") + question.name);
  {
    const std::lock_guard lock(shared.mutex);
    if (slots->is_suspect(code)) shared.unanswered.insert(code);
    if (shared.unanswered.contains(code)) {
      slots->clear(code);  // a process with repaired code tries it again
      return {.stream = request.stream,
              .head = request.head,
              .said = base::fail(base::Code::activation_blocked,
                                 "the engine ended three times while it ran the code of \"" + question.name +
                                     "\"; it is not run again before the engine is started with other code")};
    }
  }
  const std::size_t slot = slots->enter(code);
  core::ActivationAnswer answer = shared.runs.activate(std::move(request));
  slots->leave(slot);
  slots->clear(code);
  return answer;
}

core::ActivationAnswer ThreadedActivator::Lane::run_one(Shared& shared, core::ActivationRequest request) {
  SlotFile* slots = shared.options.slots.get();
  const core::StreamId stream = request.stream;
  if (slots == nullptr) return shared.runs.activate(std::move(request));
  if (request.question) return ask(shared, std::move(request));
  const core::RunningCode code{stream};
  if (slots->is_suspect(code)) {
    slots->clear(code);  // once it is resumed, it has its three restarts again
    return {.stream = stream,
            .head = request.head,
            .command = base::fail(
                base::Code::activation_blocked,
                "the engine ended three times while it ran this workflow's code; it is not run again "
                "before it is resumed")};
  }
  const std::size_t slot = slots->enter(code);
  core::ActivationAnswer answer = shared.runs.activate(std::move(request));
  slots->leave(slot);
  slots->clear(code);
  return answer;
}

void ThreadedActivator::Lane::work(const std::shared_ptr<Shared>& shared, const std::shared_ptr<Lane>& lane,
                                   const base::Clock& clock) {
  std::unique_lock lock(shared->mutex);
  lane->thread_id = gettid();
  while (true) {
    shared->wake.wait(lock, [&] { return shared->stopping || lane->abandoned || !shared->requests.empty(); });
    if (shared->stopping || lane->abandoned) return;
    core::ActivationRequest request = std::move(shared->requests.front());
    shared->requests.pop_front();
    lane->running = Running{.stream = request.stream,
                            .head = request.head,
                            .since_ns = clock.monotonic_ns(),
                            .question = request.question.has_value()};
    lock.unlock();
    core::ActivationAnswer answer = run_one(*shared, std::move(request));
    lock.lock();
    if (lane->abandoned) {
      --shared->lost_threads;
      return;
    }
    if (!lane->running->dropped) shared->answers.push_back(std::move(answer));
    lane->running.reset();
    if (shared->options.wake) shared->options.wake();
  }
}

ThreadedActivator::ThreadedActivator(const Registry& registry, TenantKey tenant_key, const base::Clock& clock,
                                     ThreadedActivatorOptions options)
    : clock_(clock), shared_(std::make_shared<Shared>(registry, std::move(tenant_key), std::move(options))) {
  start_lane();
}

void ThreadedActivator::start_lane() {
  lane_ = std::make_shared<Lane>();
  lane_->thread =
      std::thread([shared = shared_, lane = lane_, &clock = clock_] { Lane::work(shared, lane, clock); });
}

ThreadedActivator::~ThreadedActivator() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->options.wake = nullptr;
  }
  shared_->wake.notify_all();
  if (came_back()) {
    lane_->thread.join();
  } else {
    lane_->thread.detach();
  }
}

/// Whether the code that runs now comes back within its limit; else its thread is left behind.
bool ThreadedActivator::came_back() {
  std::unique_lock lock(shared_->mutex);
  while (const auto& running = lane_->running) {
    if (clock_.monotonic_ns() - running->since_ns > shared_->options.limit_ms * 1'000'000) {
      lane_->abandoned = true;
      ++shared_->lost_threads;
      return false;
    }
    shared_->wake.wait_for(lock, std::chrono::milliseconds(1));
  }
  return true;
}

bool ThreadedActivator::is_live_at(const core::StreamId& stream, std::uint64_t head) const {
  return shared_->runs.is_live_at(stream, head);
}

std::uint64_t ThreadedActivator::restart_point(const core::StreamState& state) const {
  return restart_point_of(state);
}

void ThreadedActivator::submit(core::ActivationRequest request) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->requests.push_back(std::move(request));
  }
  shared_->wake.notify_one();
}

void ThreadedActivator::poll(std::vector<core::ActivationAnswer>& answers) {
  const std::lock_guard lock(shared_->mutex);
  for (auto& answer : shared_->answers) answers.push_back(std::move(answer));
  shared_->answers.clear();
  give_up_if_blocked(answers);
}

/// Called with the lock held.
void ThreadedActivator::give_up_if_blocked(std::vector<core::ActivationAnswer>& answers) {
  const std::optional<Lane::Running> running = lane_->running;
  if (!running || clock_.monotonic_ns() - running->since_ns <= shared_->options.limit_ms * 1'000'000) return;
  ++abandoned_;
  lane_->abandoned = true;
  ++shared_->lost_threads;
  // It must not take the processor from those who still work. Refused: it goes on as it was.
  const sched_param lowest{};
  sched_setscheduler(lane_->thread_id, SCHED_IDLE, &lowest);
  lane_->thread.detach();
  shared_->runs.evict(running->stream);
  base::log(base::LogLevel::warning, "activation_blocked",
            {{"stream", running->stream.text()}, {"limit_ms", shared_->options.limit_ms}});
  if (!running->dropped) {
    const base::Error blocked{
        base::Code::activation_blocked,
        "workflow code did not come back within " + std::to_string(shared_->options.limit_ms) + " ms"};
    core::ActivationAnswer answer{.stream = running->stream, .head = running->head};
    if (running->question) {
      answer.said = std::unexpected(blocked);
    } else {
      answer.command = std::unexpected(blocked);
    }
    answers.push_back(std::move(answer));
  }
  start_lane();
  if (shared_->lost_threads < shared_->options.max_abandoned || !shared_->options.exhausted) return;
  std::exchange(shared_->options.exhausted, nullptr)(
      {base::Code::activation_blocked,
       "workflow code that never returned holds " + std::to_string(shared_->lost_threads) +
           " threads; the engine starts anew, and the runs concerned stay stuck (`sandglass list --status "
           "stuck`)"});
}

void ThreadedActivator::evict(const core::StreamId& stream) {
  const std::lock_guard lock(shared_->mutex);
  shared_->runs.evict(stream);
  std::erase_if(shared_->requests, [&](const core::ActivationRequest& one) { return one.stream == stream; });
  std::erase_if(shared_->answers, [&](const core::ActivationAnswer& one) { return one.stream == stream; });
  if (lane_->running && lane_->running->stream == stream) lane_->running->dropped = true;
}

void ThreadedActivator::evict_all() {
  const std::lock_guard lock(shared_->mutex);
  shared_->runs.evict_all();
  shared_->requests.clear();
  shared_->answers.clear();
  if (lane_->running) lane_->running->dropped = true;
}

std::uint64_t ThreadedActivator::abandoned() const {
  return abandoned_;
}

}  // namespace sandglass::engine::workflow
