// What holds an exec to its limits while it runs: clocks, the kernel's word about memory, and a look at the
// counters of what only refuses (V9).
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "sandbox-runtime/host/convert.h"
#include "sandbox-runtime/host/sandbox.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Result;
using provider::LimitHit;
using provider::LimitKind;
using provider::OnLimit;

namespace {

constexpr std::int64_t kLeastCpuPollMs = 20;
constexpr std::int64_t kMostCpuPollMs = 1'000;
constexpr std::int64_t kLookMs = 250;
constexpr std::int64_t kPatienceMs = 15'000;
constexpr engine::base::MonotonicNs kSecond = 1'000'000'000;

}  // namespace

void Sandbox::start_clocks(Exec& exec, std::uint64_t elapsed_ms) {
  for (frames::Loop::TimerId* timer : {&exec.patience, &exec.wall_timer, &exec.look_timer, &exec.cpu_timer})
    around_.loop.cancel(std::exchange(*timer, 0));
  const std::uint64_t number = exec.number;
  const std::uint64_t left = exec.limits.wall_ms - std::min(exec.limits.wall_ms, elapsed_ms);
  exec.wall_timer = around_.loop.after(static_cast<std::int64_t>(left), [this, number] {
    if (Exec* due = find_exec(number)) {
      due->wall_timer = 0;
      kill(*due, KillReason::wall);
    }
  });
  exec.look_timer = around_.loop.after(kLookMs, [this, number] { look(number); });
  if (exec.limits.cpu_ms == 0) return;
  const std::uint64_t processors = std::max<std::uint64_t>(1, (spec_.tmpl.limits.cpu.value + 999) / 1000);
  const auto first = static_cast<std::int64_t>(exec.limits.cpu_ms / processors);
  exec.cpu_timer = around_.loop.after(std::clamp(first, kLeastCpuPollMs, kMostCpuPollMs),
                                      [this, number] { check_cpu(number); });
}

/// Looks at the processor time used, again no later than the rest could be used up.
void Sandbox::check_cpu(std::uint64_t number) {
  auto used = std::make_shared<Result<provider::Usage>>(provider::Usage{});
  enqueue({false, [this, number, used] { *used = around_.launcher.exec_usage(spec_.id, number); },
           [this, number, used] {
             Exec* exec = find_exec(number);
             if (exec == nullptr || exec->end || !*used) return;
             exec->cpu_timer = 0;
             const std::uint64_t used_ms = (*used)->cpu_ns / 1'000'000;
             if (used_ms >= exec->limits.cpu_ms) return kill(*exec, KillReason::cpu);
             const std::uint64_t processors =
                 std::max<std::uint64_t>(1, (spec_.tmpl.limits.cpu.value + 999) / 1000);
             const auto rest = static_cast<std::int64_t>((exec->limits.cpu_ms - used_ms) / processors);
             exec->cpu_timer = around_.loop.after(std::clamp(rest, kLeastCpuPollMs, kMostCpuPollMs),
                                                  [this, number] { check_cpu(number); });
           }});
}

void Sandbox::on_memory(std::uint64_t number) {
  Exec* exec = find_exec(number);
  if (exec == nullptr) return;
  std::array<char, 4096> ignored;
  (void)!::read(exec->memory_event.get(), ignored.data(), ignored.size());
  auto used = std::make_shared<Result<provider::Usage>>(provider::Usage{});
  enqueue({false, [this, number, used] { *used = around_.launcher.exec_usage(spec_.id, number); },
           [this, number, used] {
             Exec* due = find_exec(number);
             if (due == nullptr || !*used) return;
             const bool hit = std::ranges::any_of((*used)->limits_hit, [](const provider::LimitHit& item) {
               return item.kind == LimitKind::memory;
             });
             if (hit) kill(*due, KillReason::memory);
           }});
}

/// Init has something to do: start the command, tell its end, send the rest of its output. One that does not
/// is not used any longer (ADV-B25): no limit of the exec runs meanwhile that could end the waiting.
void Sandbox::await_init(Exec& exec) {
  around_.loop.cancel(exec.patience);
  exec.patience = around_.loop.after(kPatienceMs, [this, number = exec.number] {
    Exec* due = find_exec(number);
    if (due == nullptr) return;
    due->patience = 0;
    const bool all_there = due->flow[0].at_end() && due->flow[1].at_end();
    if (due->done && (all_there || !due->follower)) return;
    const auto full = [](const OutputFlow& flow) { return flow.under_way() > frames::kOutputWindow / 2; };
    if (due->done && (full(due->flow[0]) || full(due->flow[1])))
      return await_init(*due);  // the reader's turn
    lost("its first process does not do what it has to for a command");
  });
}

OnLimit Sandbox::on_limit(LimitKind kind) const {
  return spec_.tmpl.limits.of(kind).on_limit;
}

/// Keeps what was seen: a disk that was full once was hit, whatever was removed since.
void Sandbox::note_hits(Exec& exec, const std::vector<LimitHit>& hits) {
  for (const LimitHit& hit : hits) {
    const auto known = std::ranges::find(exec.hits, hit.kind, &LimitHit::kind);
    if (known == exec.hits.end()) {
      exec.hits.push_back(hit);
    } else if (hit.count > known->count) {
      *known = hit;
    }
  }
}

void Sandbox::look(std::uint64_t number) {
  auto seen = std::make_shared<Result<std::vector<LimitHit>>>(std::vector<LimitHit>());
  enqueue({false, [this, number, seen] { *seen = around_.launcher.exec_hits(spec_.id, number); },
           [this, number, seen] {
             Exec* exec = find_exec(number);
             if (exec == nullptr || exec->end || exec->finishing || !*seen) return;
             for (const LimitHit& hit : **seen) {
               if (!must_end(*exec, hit)) continue;
               exec->ended_for = hit.kind;
               kill(*exec, KillReason::limit);
             }
             note_hits(*exec, **seen);
             exec->look_timer = around_.loop.after(kLookMs, [this, number] { look(number); });
           }});
}

bool Sandbox::must_end(Exec& exec, const LimitHit& hit) {
  const OnLimit wanted = on_limit(hit.kind);
  if (wanted != OnLimit::automatic) return wanted == OnLimit::kill;
  if (hit.kind != LimitKind::pids) return false;
  const engine::base::MonotonicNs now = around_.loop.now();
  if (now - exec.second_began >= kSecond) {
    exec.second_began = now;
    exec.refused_before = exec.refused;
  }
  exec.refused = hit.count;
  return exec.refused - exec.refused_before > provider::kPidsRefusedPerSecond;
}

/// All that was hit, into the answer.
void Sandbox::add_hits(Exec& exec, const provider::Usage& usage, frame::v1::HostExecDone& done) {
  note_hits(exec, usage.limits_hit);
  const auto ended_for = [&](LimitKind kind) {
    return exec.reason == KillReason::limit && exec.ended_for == kind ? "; it was ended for that" : "";
  };
  for (LimitHit hit : exec.hits) {
    hit.detail += ended_for(hit.kind);
    add_hit(hit, done);
  }
  if (exec.reason == KillReason::wall) {
    add_hit({LimitKind::exec_wall, 1, std::to_string(exec.limits.wall_ms) + " ms of wall time"}, done);
  }
  // Rootless the kernel tells each process by itself, and what they have used in all is known at the end.
  const bool used_up =
      rootless_ && (exec.end->signal == SIGXCPU || exec.end->cpu_ns / 1'000'000 >= exec.limits.cpu_ms);
  if (exec.reason == KillReason::cpu || used_up) {
    add_hit({LimitKind::exec_cpu, 1, std::to_string(exec.limits.cpu_ms) + " ms of processor time"}, done);
    done.set_timed_out(done.timed_out() || exec.reason == KillReason::cpu || exec.end->signal != 0);
  }
  for (const auto& [name, total] : {std::pair("standard output", exec.end->out_total),
                                    std::pair("standard error", exec.end->err_total)}) {
    if (total <= exec.limits.output_bytes) continue;
    add_hit({LimitKind::output, 1,
             std::string(name) + ": " + std::to_string(total) + " bytes, of which " +
                 std::to_string(exec.limits.output_bytes) + " may be kept" + ended_for(LimitKind::output)},
            done);
  }
}

}  // namespace sandglass::sandbox_runtime::host
