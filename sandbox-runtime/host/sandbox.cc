#include "sandbox-runtime/host/sandbox.h"

#include <google/protobuf/util/message_differencer.h>
#include <sys/epoll.h>

#include <algorithm>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "sandbox-runtime/host/convert.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;
using engine::base::Error;
using engine::base::fail;
using engine::base::log;
using engine::base::LogLevel;
using engine::base::Result;
using engine::base::Status;

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kGreetingMs = 10'000;
constexpr std::int64_t kDestroyRetryMs = 5'000;
constexpr std::size_t kMaxQueued = std::size_t{8} << 20;
}  // namespace

Sandbox::Sandbox(Surroundings around, SandboxHooks hooks, provider::SandboxSpec spec,
                 frame::v1::HostSandboxRecord record)
    : around_(around),
      hooks_(std::move(hooks)),
      spec_(std::move(spec)),
      record_(std::move(record)),
      writer_(kMaxQueued),
      rootless_(!around.launcher.has_groups()) {}

Sandbox::~Sandbox() {
  release_init();
  for (frames::Loop::TimerId timer : {expiry_timer_, greeting_timer_, ping_timer_, retry_timer_})
    around_.loop.cancel(timer);
}

void Sandbox::create(CallRef call) {
  creators_.push_back(call);
  auto made = std::make_shared<Result<provider::Launched>>(fail(Code::internal, "not made"));
  enqueue({true, [this, made] { *made = around_.launcher.create(spec_); },
           [this, made] { launched(std::move(*made)); }});
}

void Sandbox::launched(Result<provider::Launched> made) {
  SG_CRASH_POINT("host.launched");
  if (!made) {
    // the launcher leaves nothing behind when it fails; destroy() only verifies that
    if (!end_reason_) end_reason_ = made.error();
    state_ = State::ending;
    return destroy();
  }
  take(std::move(*made));
  if (end_reason_) return destroy();
  make_ready();  // as soon as init has started
  announce();
}

void Sandbox::adopt(provider::Launched made) {
  take(std::move(made));
  // greater than any number that the earlier host can have given: this clock goes on over processes
  last_number_ = static_cast<std::uint64_t>(around_.loop.now() / 1'000);
  awaited_reset_ = reset_init();
  announce();
}

void Sandbox::take(provider::Launched made) {
  state_ = State::greeting;
  support_ = std::move(made.support);
  control_ = std::move(made.control);
  barrier_ = std::move(made.barrier);
  listener_ = std::move(made.listener);
  pidfd_ = std::move(made.pidfd);
  control_watch_ =
      around_.loop.watch(control_.get(), EPOLLIN, [this](std::uint32_t events) { on_control(events); });
  barrier_watch_ = around_.loop.watch(barrier_.get(), EPOLLIN, [this](std::uint32_t) { on_barrier(); });
  pidfd_watch_ =
      around_.loop.watch(pidfd_.get(), EPOLLIN, [this](std::uint32_t) { lost("its first process ended"); });
  greeting_timer_ = around_.loop.after(kGreetingMs, [this] {
    greeting_timer_ = 0;
    lost("its first process did not answer in time");
  });
  arm_expiry();
}

/// The proxy has to know the sandbox before anyone uses it; meanwhile init starts.
void Sandbox::announce() {
  if (!spec_.tmpl.network) return on_network({});
  EgressLease lease{spec_.id,
                    record_.fence(),
                    record_.create().run(),
                    {record_.create().allow().begin(), record_.create().allow().end()}};
  announced_token_ = lease.token;
  around_.egress.begin(std::move(lease), std::move(listener_), [weak = weak_from_this()](Status status) {
    if (auto self = weak.lock()) self->on_network(std::move(status));
  });
}

void Sandbox::on_network(Status status) {
  if (state_ != State::greeting) return;
  if (!status) return end(status.error(), {});
  network_there_ = true;
  become_live();
}

/// Init is there.
void Sandbox::greeted() {
  around_.loop.cancel(std::exchange(greeting_timer_, 0));
  become_live();
}

void Sandbox::become_live() {
  if (state_ != State::greeting || greeting_timer_ != 0 || !network_there_) return;
  state_ = State::live;
  ping();
  make_ready();  // of one that was adopted
  for (CallRef call : std::exchange(creators_, {})) around_.outbox.send(call, created_message());
  if (spec_.tmpl.network && announced_token_ != record_.fence()) return begin_next_lease();
  for (auto& [call, work] : std::exchange(deferred_, {})) work();
}

frame::v1::HostMessage Sandbox::created_message() const {
  frame::v1::HostMessage message;
  add_support(support_, *message.mutable_created());
  return message;
}

void Sandbox::create_again(const frame::v1::HostCreate& create, CallRef call) {
  if (!google::protobuf::util::MessageDifferencer::Equals(create.template_(), record_.create().template_())) {
    return around_.outbox.failed(
        call, {Code::already_exists, "sandbox " + spec_.id + " exists with another template"});
  }
  if (state_ == State::live) return around_.outbox.send(call, created_message());
  if (state_ == State::ending) {
    return around_.outbox.failed(call,
                                 end_reason_.value_or(Error{Code::sandbox_lost, "the sandbox is ending"}));
  }
  creators_.push_back(call);
}

Status Sandbox::check_fence(std::uint64_t fence) {
  if (fence < record_.fence()) {
    return fail(Code::lease_fenced, "sandbox " + spec_.id + ": token " + std::to_string(fence) +
                                        " is older than the lease's " + std::to_string(record_.fence()));
  }
  if (fence > record_.fence()) {
    record_.set_fence(fence);
    if (spec_.tmpl.network) begin_next_lease();
    hooks_.keep(record_);
  }
  return {};
}

/// Somebody else holds it now: what the last one had open ends, and what that one might reach is closed,
/// before anything is done for the new one (V15). A way out is allowed anew.
void Sandbox::begin_next_lease() {
  record_.mutable_create()->clear_allow();
  record_.mutable_create()->clear_run();
  if (state_ != State::live) return;  // become_live() sees to it
  changing_lease_ = true;
  around_.egress.change(spec_.id, record_.fence(),
                        [weak = weak_from_this(), token = record_.fence()](Status status) {
                          if (auto self = weak.lock()) self->lease_changed(token, std::move(status));
                        });
}

void Sandbox::lease_changed(std::uint64_t token, Status status) {
  if (token != record_.fence() || state_ != State::live) return;  // a later change, or the end, goes on
  changing_lease_ = false;
  if (!status) return end(status.error(), {});
  for (auto& [call, work] : std::exchange(deferred_, {})) work();
}

void Sandbox::when_live(CallRef call, std::move_only_function<void()> work) {
  if (state_ == State::live && !end_reason_ && !changing_lease_) return work();
  if (end_reason_) {
    return around_.outbox.failed(call,
                                 {Code::sandbox_lost, "sandbox " + spec_.id + ": " + end_reason_->message});
  }
  deferred_.emplace_back(call, std::move(work));
}

void Sandbox::renew(const frame::v1::HostRenew& request, CallRef call) {
  when_live(call, [this, expires_at_ms = request.expires_at_ms(), call] {
    record_.set_expires_at_ms(expires_at_ms);
    hooks_.keep(record_);
    SG_CRASH_POINT("host.lease_renewed");
    arm_expiry();
    around_.outbox.done(call);
  });
}

void Sandbox::allow(const frame::v1::HostAllow& request, CallRef call) {
  when_live(call, [this, request, call] {
    *record_.mutable_create()->mutable_allow() = request.allow();
    hooks_.keep(record_);
    around_.egress.allow(spec_.id, {request.allow().begin(), request.allow().end()},
                         [&outbox = around_.outbox, call](Status status) {
                           status ? outbox.done(call) : outbox.failed(call, status.error());
                         });
  });
}

void Sandbox::arm_expiry() {
  around_.loop.cancel(expiry_timer_);
  const std::int64_t now = around_.loop.now() / kNsPerMs;
  const std::int64_t life_end =
      record_.created_at_ms() + static_cast<std::int64_t>(spec_.tmpl.limits.life.value);
  const bool by_life = record_.expires_at_ms() == 0 || life_end < record_.expires_at_ms();
  const std::int64_t at = std::max(by_life ? life_end : record_.expires_at_ms(), now);
  expiry_timer_ = around_.loop.after(at - now, [this, by_life] {
    expiry_timer_ = 0;
    const std::string life = std::to_string(spec_.tmpl.limits.life.value / 1000) + " s";
    end({Code::sandbox_lost, by_life ? "it reached its life limit of " + life : "its lease ran out"}, {});
  });
}

void Sandbox::lost(const std::string& why) {
  if (state_ == State::ending || state_ == State::gone) return;
  log(LogLevel::warning, "sandbox_lost", {{"sandbox", spec_.id}, {"reason", why}});
  end({Code::sandbox_lost, why}, {});
}

void Sandbox::end(Error why, CallRef call) {
  if (call) enders_.push_back(call);
  if (end_reason_) return;  // under way
  end_reason_ = why;
  frame::v1::HostMessage message;
  message.mutable_sandbox_ended()->set_id(spec_.id);
  message.mutable_sandbox_ended()->set_fence(record_.fence());
  message.mutable_sandbox_ended()->set_code(static_cast<std::uint32_t>(why.code));
  message.mutable_sandbox_ended()->set_reason(why.message);
  if (!call) around_.outbox.announce(std::move(message));
  fail_all({Code::sandbox_lost, "sandbox " + spec_.id + ": " + why.message});
  if (state_ == State::creating) return;  // launched() goes on
  destroy();
}

/// Everyone who waits for something other than its beginning and its end.
void Sandbox::fail_all(const Error& why) {
  for (auto& [call, work] : std::exchange(deferred_, {})) around_.outbox.failed(call, why);
  after_pong_.clear();
  for (auto& [number, exec] : execs_) {
    stop_watching(exec);
    for (CallRef killer : std::exchange(exec.killers, {})) around_.outbox.done(killer);
    around_.outbox.failed(std::exchange(exec.follower, {}), why);
  }
  for (auto& [id, transfer] : std::exchange(transfers_, {})) around_.outbox.failed(transfer.call, why);
}

/// First the proxy closes what came from here (V15), then the kernel ends the rest.
void Sandbox::destroy() {
  state_ = State::ending;
  around_.egress.end(spec_.id, [weak = weak_from_this()](Status) {
    auto self = weak.lock();
    if (!self) return;
    SG_CRASH_POINT("host.lease_ended");
    self->release_init();
    auto status = std::make_shared<Status>();
    self->enqueue({true,
                   [raw = self.get(), status] { *status = raw->around_.launcher.destroy(raw->spec_.id); },
                   [raw = self.get(), status] { raw->destroyed(*status); }});
  });
}

void Sandbox::destroyed(Status status) {
  // a create that failed says so once nothing is left
  for (CallRef call : std::exchange(creators_, {})) around_.outbox.failed(call, *end_reason_);
  if (!status) {
    log(LogLevel::error, "destroy_failed", {{"sandbox", spec_.id}, {"reason", status.error().message}});
    for (CallRef call : std::exchange(enders_, {})) around_.outbox.failed(call, status.error());
    retry_timer_ = around_.loop.after(kDestroyRetryMs, [this] {
      retry_timer_ = 0;
      destroy();
    });
    return;
  }
  state_ = State::gone;
  fail_all(*end_reason_);
  for (CallRef call : std::exchange(enders_, {})) around_.outbox.done(call);
  hooks_.gone(spec_.id);
}

void Sandbox::release_init() {
  for (auto& [number, exec] : execs_) stop_watching(exec);
  for (frames::Loop::WatchId* watch : {&control_watch_, &barrier_watch_, &pidfd_watch_}) {
    around_.loop.unwatch(std::exchange(*watch, 0));
  }
  for (frames::Loop::TimerId* timer : {&expiry_timer_, &greeting_timer_, &ping_timer_}) {
    around_.loop.cancel(std::exchange(*timer, 0));
  }
  writer_.clear();
  ready_.reset();
  control_.reset();
  barrier_.reset();
  pidfd_.reset();
}

void Sandbox::enqueue(Job job) {
  jobs_.push_back(std::move(job));
  pump();
}

void Sandbox::pump() {
  while (!job_running_ && !jobs_.empty()) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    job_running_ = true;
    if (!job.pool) {
      job.work();
      job_running_ = false;
      job.then();
      continue;
    }
    around_.pool.run([self = shared_from_this(), job = std::move(job)]() mutable {
      job.work();
      frames::Loop& loop = self->around_.loop;
      loop.post([self = std::move(self), then = std::move(job.then)]() mutable {
        self->job_running_ = false;
        then();
        self->pump();
      });
    });
  }
}

void Sandbox::forget_calls() {
  creators_.clear();
  deferred_.clear();
  enders_.clear();
  for (auto& [number, exec] : execs_) {
    exec.follower = {};
    exec.killers.clear();
  }
  for (auto& [id, transfer] : std::exchange(transfers_, {})) {
    if (control_) tell(frames::TransferCancel{id});
  }
}

}  // namespace sandglass::sandbox_runtime::host
