#include "engine/client/worker.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/client/channel.h"
#include "schemas/sandglass/v1/worker_service.grpc.pb.h"

namespace sandglass::engine::client {
namespace {

using base::Code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kFirstPause = milliseconds(50);
constexpr auto kLongestPause = milliseconds(500);
constexpr auto kSettleWait = milliseconds(3'000);
constexpr std::size_t kFullMessage = 384 * 1024;  // one more end still fits into what the engine takes

/// Nothing that another try would cure.
bool is_final(Code code) {
  return code == Code::unauthenticated || code == Code::permission_denied || code == Code::invalid_argument ||
         code == Code::payload_invalid || code == Code::already_exists;
}

std::string id_of(const api::TaskRef& ref) {
  return ref.SerializeAsString();
}

}  // namespace

/// A task from its coming until it is settled or gone.
struct Held {
  api::WorkerTask task;
  std::atomic<bool> cancelled{false};
  bool begun = false;
  bool gone = false;
  std::string progress;
  std::optional<api::TaskEnd> end;
};
using HeldPtr = std::shared_ptr<Held>;

struct Worker::State : std::enable_shared_from_this<Worker::State> {
  class Call;

  explicit State(WorkerOptions given) : options(std::move(given)) {
    if (options.name.empty()) options.name = "worker-" + new_request_id().substr(0, 16);
  }

  void take(api::EngineMessage& message);
  void accept(api::WorkerTask task);
  void work();
  void carry_out(const HeldPtr& held);
  void finish(const HeldPtr& held, const Ended& ended);
  void end(const HeldPtr& held, api::TaskEnd end);
  void say_heartbeat(const HeldPtr& held, std::string details);
  void write();
  api::WorkerMessage& room_for(std::size_t size);
  api::WorkerMessage hello();
  base::Status serve_once(bool& served);
  void begin_drain();
  void interrupt_all();
  bool all_ended() const;

  WorkerOptions options;
  std::map<std::string, Function> functions;
  std::vector<std::string> queues;

  std::mutex mutex;
  std::condition_variable changed;  // something ended, settled, or the call did
  std::condition_variable ready;    // a task is there to begin
  std::map<std::string, HeldPtr> held;
  std::deque<HeldPtr> waiting;
  std::uint32_t threads = 0;
  std::uint32_t idle = 0;
  bool draining = false;
  bool closed = false;
  std::int64_t lease_ms = 10'000;

  Call* call = nullptr;  // null: not connected
  std::deque<api::WorkerMessage> outbox;
  std::size_t filled = 0;
};

/// One connection. Lives on the stack of serve_once until OnDone.
class Worker::State::Call final : public grpc::ClientBidiReactor<api::WorkerMessage, api::EngineMessage> {
 public:
  Call(State& state, api::Workers::Stub& stub, const std::string& token) : state_(state) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    stub.async()->Work(&context_, this);
  }
  void begin() {
    AddHold();
    StartRead(&in_);
    StartCall();
  }
  // Of the state's mutex: write_next, close, cancel.
  void write_next() {
    if (writing_ || closing_) return;
    if (state_.outbox.empty()) {
      if (!wants_close_) return;
      closing_ = true;
      return StartWritesDone();
    }
    out_ = std::move(state_.outbox.front());
    state_.outbox.pop_front();
    if (state_.outbox.empty()) state_.filled = 0;
    writing_ = true;
    StartWrite(&out_);
  }
  void close() {
    wants_close_ = true;
    write_next();
  }
  void cancel() { context_.TryCancel(); }
  void release() { RemoveHold(); }

  void OnReadDone(bool ok) override {
    if (!ok) {  // the end of the call: its status comes once the hold is released
      const std::lock_guard lock(state_.mutex);
      broken_ = true;
      return state_.changed.notify_all();
    }
    state_.take(in_);
    in_.Clear();
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(state_.mutex);
    writing_ = false;
    if (ok && state_.call == this) write_next();
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(state_.mutex);
    status_ = status;
    state_.changed.notify_all();
  }
  bool broken() const { return broken_; }
  const std::optional<grpc::Status>& status() const { return status_; }
  bool welcomed = false;

 private:
  State& state_;
  grpc::ClientContext context_;
  api::EngineMessage in_;
  api::WorkerMessage out_;
  bool writing_ = false;
  bool wants_close_ = false;
  bool closing_ = false;
  bool broken_ = false;
  std::optional<grpc::Status> status_;
};

// ---- what the engine says

void Worker::State::take(api::EngineMessage& message) {
  const std::lock_guard lock(mutex);
  if (message.has_welcome()) {
    lease_ms = std::max<std::int64_t>(message.welcome().lease_ms(), 30);
    if (call != nullptr) call->welcomed = true;
  }
  for (const auto& ref : message.settled()) held.erase(id_of(ref));
  for (const auto& ref : message.cancelled()) {
    if (const auto found = held.find(id_of(ref)); found != held.end()) found->second->cancelled = true;
  }
  for (const auto& ref : message.gone()) {
    const auto found = held.find(id_of(ref));
    if (found == held.end()) continue;
    found->second->cancelled = found->second->gone = true;
    std::erase(waiting, found->second);
    held.erase(found);
  }
  for (auto& task : *message.mutable_tasks()) accept(std::move(task));
  changed.notify_all();
}

void Worker::State::accept(api::WorkerTask task) {
  std::string id = id_of(task.ref());
  if (held.contains(id)) return;  // it is here already
  auto made = std::make_shared<Held>();
  made->task = std::move(task);
  made->progress = made->task.progress();
  if (draining) {
    *room_for(0).add_handed_back() = made->task.ref();
    return write();
  }
  held.emplace(std::move(id), made);
  waiting.push_back(std::move(made));
  if (idle >= waiting.size()) return ready.notify_one();
  if (threads < options.capacity) {
    ++threads;
    std::thread([self = shared_from_this()] { self->work(); }).detach();
  }
}

// ---- carrying out

void Worker::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    ++idle;
    ready.wait(lock, [this] { return closed || !waiting.empty(); });
    --idle;
    if (waiting.empty()) break;
    const HeldPtr next = std::move(waiting.front());
    waiting.pop_front();
    next->begun = true;
    lock.unlock();
    carry_out(next);
    lock.lock();
  }
  --threads;
}

namespace {

class RunningAttempt final : public Attempt {
 public:
  using Tell = std::function<void(std::string)>;
  RunningAttempt(const std::atomic<bool>& cancelled, Tell tell)
      : cancelled_(cancelled), tell_(std::move(tell)) {}
  void heartbeat(std::string details) override { tell_(std::move(details)); }
  bool cancelled() const override { return cancelled_; }

 private:
  const std::atomic<bool>& cancelled_;
  Tell tell_;
};

}  // namespace

void Worker::State::carry_out(const HeldPtr& one) {
  const api::WorkerTask& in = one->task;
  const auto function = functions.find(in.activity());
  if (function == functions.end()) {
    return finish(one, Ended::failed("this worker serves the queue " + in.queue() +
                                         " but has no function for activity " + in.activity(),
                                     "activity_unknown", true));
  }
  const Task task{.run_id = in.ref().run_id(),
                  .path = in.ref().path(),
                  .activity = in.activity(),
                  .queue = in.queue(),
                  .tenant = in.tenant(),
                  .key = in.key(),
                  .attempt = in.ref().attempt(),
                  .input = in.input(),
                  .progress = in.progress(),
                  .start_to_close_ms = in.start_to_close_ms()};
  RunningAttempt attempt(one->cancelled,
                         [this, &one](std::string details) { say_heartbeat(one, std::move(details)); });
  finish(one, function->second(task, attempt));
}

void Worker::State::finish(const HeldPtr& one, const Ended& ended) {
  api::TaskEnd made;
  *made.mutable_ref() = one->task.ref();
  made.set_done(ended.is_done);
  made.set_result(ended.result);
  made.set_type(ended.type);
  made.set_message(ended.message);
  made.set_final(ended.final);
  const std::lock_guard lock(mutex);
  end(one, std::move(made));
}

void Worker::State::end(const HeldPtr& one, api::TaskEnd made) {
  if (one->gone || one->end) return;
  if (!made.done()) made.set_progress(one->progress);
  one->end = std::move(made);
  if (call != nullptr) {  // else the next hello brings it
    *room_for(one->end->ByteSizeLong()).add_ends() = *one->end;
    write();
  }
  changed.notify_all();
}

void Worker::State::say_heartbeat(const HeldPtr& one, std::string details) {
  const std::lock_guard lock(mutex);
  if (one->gone || one->end) return;
  if (!details.empty()) one->progress = details;
  if (call == nullptr) return;
  auto& heartbeat = *room_for(details.size() + 128).add_heartbeats();
  *heartbeat.mutable_ref() = one->task.ref();
  heartbeat.set_details(std::move(details));
  write();
}

// ---- the connection

api::WorkerMessage& Worker::State::room_for(std::size_t size) {
  if (outbox.empty() || filled + size > kFullMessage) {
    outbox.emplace_back();
    filled = 0;
  }
  filled += size;
  return outbox.back();
}

void Worker::State::write() {
  if (call != nullptr) call->write_next();
}

/// Names everything, and sends again what was not settled.
api::WorkerMessage Worker::State::hello() {
  api::WorkerMessage message;
  auto& made = *message.mutable_hello();
  made.set_worker(options.name);
  for (const auto& queue : queues) made.add_queues(queue);
  made.set_capacity(options.capacity);
  for (const auto& [id, one] : held) *made.add_held() = one->task.ref();
  message.set_drain(draining);
  return message;
}

base::Status Worker::State::serve_once(bool& served) {
  base::UniqueFd folder;
  const auto stub = api::Workers::NewStub(open_channel(options.connect, folder));
  Call connection(*this, *stub, options.connect.token);
  std::unique_lock lock(mutex);
  outbox.clear();
  outbox.push_back(hello());
  filled = kFullMessage;  // the hello stands alone
  for (const auto& [id, one] : held) {
    if (one->end) *room_for(one->end->ByteSizeLong()).add_ends() = *one->end;
  }
  call = &connection;
  connection.begin();
  write();
  const auto pause = [this] { return milliseconds(lease_ms / 3); };
  while (!connection.broken() && !closed) {
    if (changed.wait_for(lock, pause()) == std::cv_status::timeout && outbox.empty()) {
      outbox.emplace_back();  // a sign of life
      write();
    }
  }
  if (closed) {
    connection.close();
    if (!changed.wait_for(lock, kSettleWait, [&] { return connection.broken(); })) connection.cancel();
  }
  call = nullptr;
  served = connection.welcomed;
  connection.release();
  changed.wait(lock, [&] { return connection.status().has_value(); });
  if (connection.status()->ok()) return {};
  return std::unexpected(to_error(*connection.status()));
}

// ---- its life

void Worker::State::begin_drain() {
  draining = true;
  for (const HeldPtr& one : std::exchange(waiting, {})) {
    held.erase(id_of(one->task.ref()));
    *room_for(64).add_handed_back() = one->task.ref();
  }
  room_for(0).set_drain(true);
  write();
}

bool Worker::State::all_ended() const {
  return std::ranges::all_of(held, [](const auto& entry) { return entry.second->end.has_value(); });
}

void Worker::State::interrupt_all() {
  for (const auto& [id, one] : held) {
    if (one->end) continue;
    one->cancelled = true;
    api::TaskEnd made;
    *made.mutable_ref() = one->task.ref();
    made.set_interrupted(true);
    made.set_message("interrupted: its worker was stopped");
    end(one, std::move(made));
  }
}

Worker::Worker(WorkerOptions options) : state_(std::make_shared<State>(std::move(options))) {}
Worker::~Worker() = default;

const std::string& Worker::name() const {
  return state_->options.name;
}

void Worker::add(const std::string& activity, Function function, const std::string& queue) {
  state_->functions[activity] = std::move(function);
  state_->queues.push_back(queue.empty() ? activity : queue);
}

base::Status Worker::run() {
  State& state = *state_;
  base::Status fatal;
  std::thread connection([&state, &fatal] {
    auto pause = kFirstPause;
    for (;;) {
      bool served = false;
      auto status = state.serve_once(served);
      std::unique_lock lock(state.mutex);
      if (!status && is_final(status.error().code)) {
        fatal = std::move(status);
        state.closed = true;
        state.changed.notify_all();
      }
      if (state.closed) return;
      pause = served ? kFirstPause : std::min(kLongestPause, pause * 2);
      state.changed.wait_for(lock, pause, [&state] { return state.closed; });
    }
  });
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&state] { return state.draining || state.closed; });
    state.changed.wait_for(lock, milliseconds(state.options.grace_ms),
                           [&state] { return state.closed || state.all_ended(); });
    state.interrupt_all();
    state.changed.wait_for(lock, kSettleWait, [&state] { return state.closed || state.held.empty(); });
    state.closed = true;
    state.changed.notify_all();
    state.ready.notify_all();
  }
  connection.join();
  return fatal;
}

void Worker::drain() {
  const std::lock_guard lock(state_->mutex);
  if (state_->draining) return;
  state_->begin_drain();
  state_->changed.notify_all();
}

}  // namespace sandglass::engine::client
