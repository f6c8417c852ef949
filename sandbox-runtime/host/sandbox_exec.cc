// Execs: one number, one group, one barrier, one answer. The group exists before the child may run (V5);
// limits are enforced and read from outside; the answer comes after nothing of the exec is left (FR-136).
#include <algorithm>
#include <cstring>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "sandbox-runtime/host/convert.h"
#include "sandbox-runtime/host/sandbox.h"
#include "sandbox-runtime/host/sandbox_tell.h"
#include "sandbox-runtime/provider/environment.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;
using engine::base::Error;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using provider::LimitKind;

namespace {

constexpr std::size_t kKeptExecs = 200;  // ended ones whose result can be asked for again
constexpr std::uint64_t kStreamBytes = 64ull << 20;
constexpr std::uint32_t kDrainMs = 150;

}  // namespace

Sandbox::Exec* Sandbox::find_exec(std::uint64_t number) {
  const auto found = execs_.find(number);
  return found == execs_.end() ? nullptr : &found->second;
}

Sandbox::Exec* Sandbox::find_key(const std::string& key) {
  const auto found = std::ranges::find_if(execs_, [&](const auto& item) { return item.second.key == key; });
  return found == execs_.end() ? nullptr : &found->second;
}

void Sandbox::exec(const frame::v1::HostExec& request, CallRef call) {
  if (state_ == State::live) return exec_now(request, call);
  when_live(call, [this, request, call] { exec_now(request, call); });
}

void Sandbox::exec_now(const frame::v1::HostExec& request, CallRef call) {
  frames::Digest digest{};
  if (request.key().empty() || request.key().size() > frames::kMaxKey || request.argv().empty() ||
      request.argv(0).empty() || request.digest().size() != digest.size()) {
    return around_.outbox.failed(call,
                                 {Code::invalid_argument, "an exec needs a key, a digest and a command"});
  }
  std::memcpy(digest.data(), request.digest().data(), digest.size());
  Exec* known = find_key(request.key());
  if (known == nullptr) return start_exec(request, call);
  if (known->digest != digest) {
    return around_.outbox.failed(
        call, {Code::exec_conflict, "exec key " + engine::base::quote_for_terminal(request.key()) +
                                        " was used with another command"});
  }
  attach(*known, request, call);
}

void Sandbox::attach(Exec& exec, const frame::v1::HostExec& request, CallRef call) {
  if (exec.follower && exec.follower != call) {
    around_.outbox.failed(exec.follower, {Code::unavailable, "another call follows this exec now"});
  }
  exec.follower = call;
  exec.flow[0].attach(request.out_offset());
  exec.flow[1].attach(request.err_offset());
  ++exec.states_due;
  tell(frames::Attach{exec.number, request.out_offset(), request.err_offset()});
  if (!exec.done) return;
  await_init(exec);
  frame::v1::HostMessage message;
  *message.mutable_exec_done() = *exec.done;
  around_.outbox.send(call, std::move(message));
}

/// The runtime's variables and, where the template allows it, the exec's own.
Result<std::vector<std::string>> Sandbox::environment(const frame::v1::HostExec& request) const {
  auto variables = provider::runtime_environment(spec_.tmpl);
  for (const auto& variable : request.env()) {
    if (!variables.contains(variable.name()) && !provider::may_set_variable(spec_.tmpl, variable.name())) {
      return fail(Code::invalid_argument,
                  "variable " + engine::base::quote_for_terminal(variable.name()) +
                      " is not on the list that template '" + spec_.tmpl.name +
                      "' allows; the operator's sandbox.templates." + spec_.tmpl.name +
                      ".env_allow can name it, or the command be run by env NAME=VALUE …");
    }
    variables[variable.name()] = variable.value();
  }
  std::vector<std::string> list;
  list.reserve(variables.size());
  for (const auto& [name, value] : variables) list.push_back(name + "=" + value);
  return list;
}

frames::ExecStart Sandbox::start_packet(const frame::v1::HostExec& request, std::vector<std::string> env,
                                        const provider::ExecLimits& limits) const {
  frames::ExecStart start;
  start.key = request.key();
  std::memcpy(start.digest.data(), request.digest().data(), start.digest.size());
  start.argv.assign(request.argv().begin(), request.argv().end());
  start.env = std::move(env);
  start.cwd = request.cwd();
  start.stdin_bytes = request.stdin().size();
  start.ring_bytes = limits.output_bytes;
  start.stream_bytes = std::max(kStreamBytes, limits.output_bytes + 1);
  start.drain_ms = kDrainMs;
  start.open_files = static_cast<std::uint32_t>(spec_.tmpl.limits.open_files.value);
  start.processes = rootless_ ? limits.pids : 0;
  start.cpu_seconds = rootless_ ? static_cast<std::uint32_t>((limits.cpu_ms + 999) / 1000) : 0;
  frame::v1::HostExecRecord record;
  record.mutable_limits()->set_memory_bytes(limits.memory_bytes);
  record.mutable_limits()->set_pids(limits.pids);
  record.mutable_limits()->set_wall_ms(limits.wall_ms);
  record.mutable_limits()->set_cpu_ms(limits.cpu_ms);
  record.mutable_limits()->set_output_bytes(limits.output_bytes);
  start.note = record.SerializeAsString();
  return start;
}

void Sandbox::start_exec(const frame::v1::HostExec& request, CallRef call) {
  auto env = environment(request);
  if (!env) return around_.outbox.failed(call, env.error());
  trim_execs();
  if (!alive())
    return around_.outbox.failed(call, {Code::sandbox_lost, "sandbox " + spec_.id + " has ended"});
  const provider::ExecLimits limits = exec_limits(request.limits(), spec_.tmpl.limits);
  frames::ExecStart start = start_packet(request, std::move(*env), limits);
  start.number = ready_ ? ready_->number : last_number_ + 1;
  const bool was_ready = ready_.has_value();
  const bool at_once = was_ready && ready_->passage.admitted && has_usual_limits(limits);
  start.leave = at_once ? frames::Leave::given : frames::Leave::go;
  const std::string packet = frames::encode(start);
  if (packet.size() > frames::kMaxPacket || start.stdin_bytes > frames::kMaxStdin) {
    return around_.outbox.failed(call,
                                 {Code::invalid_argument,
                                  "arguments and variables of an exec may have 128 KiB, its input 2 MiB; put "
                                  "larger things into a file"});
  }
  last_number_ = std::max(last_number_, start.number);
  Exec& exec = execs_[start.number];
  exec.number = start.number;
  exec.key = start.key;
  exec.digest = start.digest;
  exec.limits = limits;
  exec.follower = call;
  exec.states_due = 1;
  if (was_ready) take_ready(exec);
  if (auto status = writer_.push(packet); !status) return lost("its first process does not read");
  const std::string_view input = request.stdin();
  for (std::size_t at = 0; at < input.size(); at += frames::kChunk) {
    if (!writer_.push(encode(frames::StdinData{start.number, input.substr(at, frames::kChunk)}))) {
      return lost("its first process does not read");
    }
  }
  flush();
  SG_CRASH_POINT("host.exec_started");
  if (!alive()) return;  // init was not there any more: it was failed with the sandbox
  await_init(exec);
  if (at_once) return started_at_once(exec);
  if (!was_ready) return make_group(exec.number, limits);
  if (exec.passage.grouped) set_limits(exec.number);
}

void Sandbox::kill_exec(const std::string& key, CallRef call) {
  when_live(call, [this, key, call] { kill_exec_now(key, call); });
}

void Sandbox::kill_exec_now(const std::string& key, CallRef call) {
  Exec* exec = find_key(key);
  if (exec == nullptr) return around_.outbox.failed(call, {Code::not_found, "no exec has this key"});
  if (exec->done) return around_.outbox.done(call);
  exec->killers.push_back(call);
  kill(*exec, KillReason::cancelled);
}

void Sandbox::kill(Exec& exec, KillReason reason) {
  if (exec.end || exec.kill_running) return;
  if (exec.reason == KillReason::none) exec.reason = reason;
  exec.kill_running = true;
  const std::uint64_t number = exec.number;
  if (rootless_) {
    return end_inside(number, [this, number] {
      Exec* due = find_exec(number);
      if (due == nullptr) return;
      due->kill_running = false;
      due->end ? finish_exec(number) : await_init(*due);
    });
  }
  auto killed = std::make_shared<Status>();
  enqueue({true, [this, number, killed] { *killed = around_.launcher.kill_exec(spec_.id, number); },
           [this, number, killed] {
             Exec* due = find_exec(number);
             if (due == nullptr) return;
             due->kill_running = false;
             if (!*killed) return lost("an exec could not be ended: " + killed->error().message);
             due->end ? finish_exec(number) : await_init(*due);
           }});
}

/// Init does one thing after the other: its answer to the ping comes when the processes are gone.
void Sandbox::end_inside(std::uint64_t number, std::move_only_function<void()> then) {
  const std::uint64_t nonce = ++last_nonce_;
  after_pong_.emplace(nonce, std::move(then));
  tell(frames::Signal{number, 9, true});
  tell(frames::Ping{nonce});
}

void Sandbox::on_output(const frames::Output& output) {
  Exec* exec = find_exec(output.number);
  if (exec == nullptr || exec->states_due > 0 || output.stream < 1 || output.stream > 2) return;
  if (exec->follower && !exec->flow[output.stream - 1].sent(output.offset, output.bytes.size())) {
    return lost("its first process sends more output than it may");
  }
  const std::uint64_t end = output.offset + output.bytes.size();
  if (end > exec->limits.output_bytes && on_limit(LimitKind::output) == provider::OnLimit::kill) {
    exec->ended_for = LimitKind::output;
    kill(*exec, KillReason::limit);
  }
  if (!exec->follower) return;
  frame::v1::HostMessage message;
  auto& out = *message.mutable_exec_output();
  out.set_stream(output.stream);
  out.set_offset(output.offset);
  out.set_data(output.bytes.data(), output.bytes.size());
  around_.outbox.send(exec->follower, std::move(message));
}

void Sandbox::exec_taken(CallRef call, const frame::v1::HostExecTaken& taken) {
  for (auto& [number, exec] : execs_) {
    if (exec.follower != call || taken.stream() < 1 || taken.stream() > 2) continue;
    exec.flow[taken.stream() - 1].taken(taken.taken());
    tell(frames::Window{number, static_cast<std::uint8_t>(taken.stream()), taken.taken()});
    return;
  }
}

void Sandbox::on_exec_end(const frames::ExecEnd& end) {
  Exec* exec = find_exec(end.number);
  if (exec == nullptr)
    return tell(frames::Forget{end.number});  // given up before it began: its key is free again
  if (exec->end) return;
  if (end.start_stage == "barrier" && exec->reason == KillReason::none) {
    stop_watching(*exec);
    around_.outbox.failed(exec->follower,
                          {Code::unavailable, "the command could not be put under its limits; retry"});
    execs_.erase(end.number);
    tell(frames::Forget{end.number});
    enqueue({false, [this, number = end.number] { (void)around_.launcher.remove_exec(spec_.id, number); },
             [] {}});
    return make_ready();
  }
  exec->end = end;
  if (!exec->kill_running) finish_exec(end.number);
}

void Sandbox::on_refused(const frames::Refused& refused) {
  Exec* exec = find_exec(refused.number);
  if (exec == nullptr) return;
  stop_watching(*exec);
  around_.outbox.failed(exec->follower, {static_cast<Code>(refused.code), refused.message});
  execs_.erase(refused.number);
  enqueue({false, [this, number = refused.number] { (void)around_.launcher.remove_exec(spec_.id, number); },
           [] {}});
  make_ready();
}

/// Counters first, then an end to what outlived the command, then the answer.
void Sandbox::finish_exec(std::uint64_t number) {
  Exec* exec = find_exec(number);
  if (exec == nullptr || exec->finishing || exec->done) return;
  exec->finishing = true;
  stop_watching(*exec);
  auto usage = std::make_shared<provider::Usage>();
  const auto answer = [this, number, usage] {
    if (Exec* done = find_exec(number)) report(*done, *usage);
  };
  // an empty group is no more than a folder: nobody has to wait until it is gone
  const auto remove = [this, number] { (void)around_.launcher.remove_exec(spec_.id, number); };
  enqueue({false,
           [this, number, usage] {
             if (auto counted = around_.launcher.exec_usage(spec_.id, number)) *usage = std::move(*counted);
           },
           [this, number, usage, answer, remove] {
             const Exec* due = find_exec(number);
             if (rootless_) {
               if (due == nullptr || !due->end || due->end->left == 0) return answer();
               return end_inside(number, answer);
             }
             if (usage->pids == 0) {
               answer();
               return enqueue({false, remove, [] {}});
             }
             enqueue({true, [this, number] { (void)around_.launcher.kill_exec(spec_.id, number); }, answer});
             enqueue({false, remove, [] {}});
           }});
}

void Sandbox::report(Exec& exec, const provider::Usage& usage) {
  if (!exec.end || exec.done) return;
  frame::v1::HostExecDone done;
  done.set_exit_code(exec.end->exit_code);
  done.set_signal(exec.end->signal);
  done.set_timed_out(exec.reason == KillReason::wall || exec.reason == KillReason::cpu);
  done.set_cancelled(exec.reason == KillReason::cancelled);
  done.set_out_total(exec.end->out_total);
  done.set_err_total(exec.end->err_total);
  done.set_duration_ms(exec.end->duration_ms);
  done.set_cpu_ns(rootless_ ? exec.end->cpu_ns : usage.cpu_ns);
  done.set_memory_peak_bytes(usage.memory_peak_bytes);
  done.set_background(rootless_ ? exec.end->left : usage.pids);
  add_hits(exec, usage, done);
  exec.done = done;
  await_init(exec);
  SG_CRASH_POINT("host.exec_done");
  for (CallRef killer : std::exchange(exec.killers, {})) around_.outbox.done(killer);
  if (exec.follower) {
    frame::v1::HostMessage message;
    *message.mutable_exec_done() = std::move(done);
    around_.outbox.send(exec.follower, std::move(message));
  }
  make_ready();
}

void Sandbox::stop_watching(Exec& exec) {
  around_.loop.unwatch(std::exchange(exec.memory_watch, 0));
  exec.memory_event.reset();
  around_.loop.cancel(std::exchange(exec.wall_timer, 0));
  around_.loop.cancel(std::exchange(exec.cpu_timer, 0));
  around_.loop.cancel(std::exchange(exec.look_timer, 0));
  around_.loop.cancel(std::exchange(exec.patience, 0));
}

/// Results are kept until the lease ends, but not without bound: the oldest go, in init as well.
void Sandbox::trim_execs() {
  for (auto at = execs_.begin(); execs_.size() >= kKeptExecs && at != execs_.end();) {
    if (!at->second.done) {
      ++at;
      continue;
    }
    tell(frames::Forget{at->first});
    at = execs_.erase(at);
  }
}

}  // namespace sandglass::sandbox_runtime::host
