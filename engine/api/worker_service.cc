#include "engine/api/worker_service.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "engine/api/rpc_status.h"
#include "engine/codec/json.h"
#include "engine/run/types.h"
#include "schemas/sandglass/v1/worker_service.grpc.pb.h"

namespace sandglass::engine::api {
namespace {

namespace v1 = ::sandglass::v1;
using base::Code;
using dispatch::TaskId;

constexpr std::size_t kMostQueues = 100;
constexpr std::uint32_t kMostTasks = 1000;
constexpr std::size_t kMostName = 256;
constexpr std::size_t kFullMessage = 2 << 20;  // then another one is begun

// ---- between protobuf and the pool

void to_proto(const TaskId& id, v1::TaskRef& out) {
  out.set_run_id(id.stream.text());
  out.set_path(id.path);
  out.set_epoch(id.token.epoch);
  out.set_attempt(id.token.attempt);
  out.set_counter(id.token.counter);
}

base::Result<TaskId> from_proto(const v1::TaskRef& in) {
  const auto stream = core::StreamId::parse(in.run_id());
  if (!stream) return base::fail(Code::invalid_argument, "a task names no run: give its ref back as it came");
  return TaskId(*stream, in.path(), {in.epoch(), in.attempt(), in.counter()});
}

base::Status check_json(const std::string& bytes, std::string_view what) {
  if (bytes.empty()) return {};
  if (auto checked = codec::check_json(bytes, {.max_bytes = run::kMaxPayloadBytes}); !checked) {
    return base::fail(Code::payload_invalid, std::string(what) + ": " + checked.error().message);
  }
  return {};
}

core::ActivityResult result_of(v1::TaskEnd& end) {
  core::ActivityResult result;
  if (end.done()) {
    result.bytes = std::move(*end.mutable_result());
    if (result.bytes.size() <= run::kMaxPayloadBytes) return result;
    const auto size = std::to_string(result.bytes.size());
    result = {};
    result.outcome = core::Outcome::unknown;
    result.code = Code::record_too_large;
    result.message = "the result has " + size + " bytes; at most " + std::to_string(run::kMaxPayloadBytes) +
                     " may be recorded, larger content is kept as artifact";
    return result;
  }
  result.outcome = core::Outcome::unknown;
  result.code = end.interrupted() ? Code::worker_lost : Code::step_failed;
  result.side = end.interrupted() ? core::FailureSide::platform : core::FailureSide::user;
  result.retryable = !end.final();
  result.type = std::move(*end.mutable_type());
  result.message = std::move(*end.mutable_message());
  if (result.message.empty() && end.interrupted()) result.message = "interrupted: its worker was stopped";
  result.progress = std::move(*end.mutable_progress());
  return result;
}

bool is_worker_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

base::Result<dispatch::WorkerHello> hello_of(const identity::Caller& caller, const v1::WorkerHello& in) {
  if (!is_worker_name(in.worker())) {
    return base::fail(
        Code::invalid_argument,
        "a worker's name has 1 to 64 letters, digits, '.', '_' and '-', and is its process's own");
  }
  if (in.queues().empty() || in.queues_size() > static_cast<int>(kMostQueues) ||
      std::any_of(in.queues().begin(), in.queues().end(),
                  [](const std::string& q) { return q.empty() || q.size() > kMostName; })) {
    return base::fail(Code::invalid_argument, "a worker serves 1 to 100 queues with names of 1 to 256 bytes");
  }
  if (in.capacity() == 0 || in.capacity() > kMostTasks) {
    return base::fail(Code::invalid_argument, "a worker's capacity is 1 to 1000 tasks at a time");
  }
  dispatch::WorkerHello hello{.worker = in.worker(),
                              .tenant = caller.tenant,
                              .all_tenants = identity::has(caller.roles, identity::Role::admin),
                              .queues = {in.queues().begin(), in.queues().end()},
                              .capacity = in.capacity(),
                              .held = {}};
  std::ranges::sort(hello.queues);
  const auto repeated = std::ranges::unique(hello.queues);
  hello.queues.erase(repeated.begin(), repeated.end());
  for (const auto& ref : in.held()) {
    auto id = from_proto(ref);
    if (!id) return std::unexpected(id.error());
    hello.held.push_back(std::move(*id));
  }
  return hello;
}

base::Result<dispatch::WorkerSays> words_of(v1::WorkerMessage& in) {
  dispatch::WorkerSays words{.answers = {}, .heartbeats = {}, .handed_back = {}, .drains = in.drain()};
  for (auto& end : *in.mutable_ends()) {
    auto id = from_proto(end.ref());
    if (!id) return std::unexpected(id.error());
    if (auto good = check_json(end.progress(), "the progress of " + id->path); !good)
      return std::unexpected(good.error());
    words.answers.push_back({std::move(*id), result_of(end)});
  }
  for (auto& heartbeat : *in.mutable_heartbeats()) {
    auto id = from_proto(heartbeat.ref());
    if (!id) return std::unexpected(id.error());
    if (auto good = check_json(heartbeat.details(), "a heartbeat of " + id->path); !good)
      return std::unexpected(good.error());
    words.heartbeats.push_back({std::move(*id), std::move(*heartbeat.mutable_details())});
  }
  for (const auto& ref : in.handed_back()) {
    auto id = from_proto(ref);
    if (!id) return std::unexpected(id.error());
    words.handed_back.push_back(std::move(*id));
  }
  return words;
}

void add(dispatch::WorkerTask& task, v1::EngineMessage& out) {
  v1::WorkerTask& one = *out.add_tasks();
  to_proto(task.id, *one.mutable_ref());
  one.set_activity(std::move(task.activity));
  one.set_queue(std::move(task.queue));
  one.set_tenant(std::move(task.tenant));
  one.set_key(std::move(task.key));
  if (task.input) one.set_input(task.input->bytes);
  if (task.progress) one.set_progress(task.progress->bytes);
  one.set_start_to_close_ms(task.start_to_close_ms);
  one.set_heartbeat_ms(task.heartbeat_ms);
}

// ---- one call

using Reactor = grpc::ServerBidiReactor<v1::WorkerMessage, v1::EngineMessage>;

/// What the pool has of a call; outlives it. While a message is on its way the next one collects.
class Outbox final : public dispatch::WorkerLink {
 public:
  explicit Outbox(Reactor& reactor) : reactor_(&reactor) {}

  void say(dispatch::EngineSays words) override {
    const std::lock_guard lock(mutex_);
    for (auto& task : words.tasks) {
      const std::size_t size = (task.input ? task.input->bytes.size() : 0) + 512;
      v1::EngineMessage& message = room_for(size);
      add(task, message);
    }
    v1::EngineMessage& message = room_for(0);
    for (const auto& id : words.cancelled) to_proto(id, *message.add_cancelled());
    for (const auto& id : words.settled) to_proto(id, *message.add_settled());
    for (const auto& id : words.gone) to_proto(id, *message.add_gone());
    write();
  }
  void close(base::Error why) override {
    const std::lock_guard lock(mutex_);
    if (!end_) end_ = to_status(why);
    write();
  }
  void welcome(std::int64_t lease_ms) {
    const std::lock_guard lock(mutex_);
    room_for(0).mutable_welcome()->set_lease_ms(lease_ms);
    write();
  }
  /// The worker has said its last: what collects is still written.
  void finish(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (!end_) end_ = std::move(status);
    write();
  }
  void written(bool ok) {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) waiting_.clear();
    write();
  }
  void over() {
    const std::lock_guard lock(mutex_);
    reactor_ = nullptr;
  }

 private:
  v1::EngineMessage& room_for(std::size_t size) {
    if (waiting_.empty() || filled_ + size > kFullMessage) {
      waiting_.emplace_back();
      filled_ = 0;
    }
    filled_ += size;
    return waiting_.back();
  }
  void write() {
    if (reactor_ == nullptr || writing_ || finished_) return;
    if (!waiting_.empty()) {
      message_ = std::move(waiting_.front());
      waiting_.pop_front();
      writing_ = true;
      return reactor_->StartWrite(&message_);
    }
    if (!end_) return;
    finished_ = true;
    reactor_->Finish(*end_);
  }

  std::mutex mutex_;
  Reactor* reactor_;  // null: the call is over
  std::deque<v1::EngineMessage> waiting_;
  std::size_t filled_ = 0;  // bytes of the last that waits, about
  v1::EngineMessage message_;
  bool writing_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> end_;
};

/// Deletes itself.
class WorkerCall final : public Reactor {
 public:
  WorkerCall(Gate::Pass pass, dispatch::WorkerPool& pool)
      : pass_(std::move(pass)), pool_(pool), outbox_(std::make_shared<Outbox>(*this)) {
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return outbox_->finish(grpc::Status::OK);
    if (auto valid = pass_.still_valid(); !valid) return outbox_->finish(to_status(valid.error()));
    if (auto taken = take(); !taken) return outbox_->finish(to_status(taken.error()));
    message_.Clear();
    StartRead(&message_);
  }
  void OnWriteDone(bool ok) override { outbox_->written(ok); }
  void OnDone() override {
    outbox_->over();
    if (session_) pool_.detach(*session_);
    delete this;
  }

 private:
  base::Status take() {
    if (!session_) {
      if (!message_.has_hello())
        return base::fail(Code::invalid_argument, "a worker's first message has its hello");
      auto hello = hello_of(pass_.caller, message_.hello());
      if (!hello) return std::unexpected(hello.error());
      outbox_->welcome(pool_.lease_ms());
      session_ = pool_.attach(outbox_, std::move(*hello));
    }
    auto words = words_of(message_);
    if (!words) return std::unexpected(words.error());
    pool_.hear(*session_, std::move(*words));
    return {};
  }

  Gate::Pass pass_;
  dispatch::WorkerPool& pool_;
  std::shared_ptr<Outbox> outbox_;
  std::optional<dispatch::WorkerPool::SessionId> session_;
  v1::WorkerMessage message_;
};

class WorkerRefuser final : public Reactor {
 public:
  explicit WorkerRefuser(const base::Error& error) { Finish(to_status(error)); }
  void OnDone() override { delete this; }
};

class Service final : public v1::Workers::CallbackService {
 public:
  Service(Gate& gate, dispatch::WorkerPool& pool,
          std::function<void(const identity::Caller&, const base::Error&)> denied)
      : gate_(gate), pool_(pool), denied_(std::move(denied)) {}

  Reactor* Work(grpc::CallbackServerContext* context) override {
    std::optional<identity::Caller> denied;
    auto pass = gate_.admit(authorization_of(*context), identity::Call::work, true, &denied);
    if (pass) return new WorkerCall(std::move(*pass), pool_);
    if (denied) denied_(*denied, pass.error());
    return new WorkerRefuser(pass.error());
  }

 private:
  Gate& gate_;
  dispatch::WorkerPool& pool_;
  std::function<void(const identity::Caller&, const base::Error&)> denied_;
};

}  // namespace

std::unique_ptr<grpc::Service> worker_service(
    Gate& gate, dispatch::WorkerPool& pool,
    std::function<void(const identity::Caller&, const base::Error&)> denied) {
  return std::make_unique<Service>(gate, pool, std::move(denied));
}

}  // namespace sandglass::engine::api
