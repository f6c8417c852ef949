// Memory: of host and init while a tree of 10,000 files passes (V13: at most 16 MiB each), and of an idle
// sandbox with what the kernel holds for it, as the difference that many of them make (V18). Needs an
// otherwise idle machine.
#include <benchmark/benchmark.h>

#include "bench/sandbox-runtime/host/live.h"
#include "bench/sandbox-runtime/host/many_files.h"

namespace sandglass::sandbox_runtime::host {
namespace {

constexpr int kSandboxes = 200;

std::string status_of(pid_t pid) {
  return "/proc/" + std::to_string(pid) + "/status";
}

double peak_mib(pid_t pid) {
  return static_cast<double>(number_after(status_of(pid), "VmHWM:")) / 1024;
}

void forget_peak(pid_t pid) {
  std::ofstream("/proc/" + std::to_string(pid) + "/clear_refs") << "5";
}

void memory_while_a_tree_passes(benchmark::State& state) {
  HostRig rig;
  const auto sandbox = rig.make(many_files_template());
  const pid_t host = rig.host_pid();
  const pid_t init = rig.init_pid();
  for (auto _ : state) {
    const double host_before = peak_mib(host);
    auto tree = many_files();
    auto back = std::make_shared<MemoryTree>();
    forget_peak(host);
    forget_peak(init);
    if (!rig.put(sandbox, "tree", tree) || !rig.get(sandbox, "tree", back))
      state.SkipWithError("the transfer failed");
    state.counters["host_peak_mib"] = peak_mib(host);
    state.counters["host_before_mib"] = host_before;
    state.counters["init_peak_mib"] = peak_mib(init);
  }
  state.SetLabel("largest resident size, shared libraries included; 10,000 files, 40 MB, in and out");
  (void)rig.destroy(sandbox);
}
BENCHMARK(memory_while_a_tree_passes)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);

/// Without what the kernel could give back at once.
double used_kib() {
  ::sync();
  for (int i = 0; i < 2; ++i) {
    std::ofstream("/proc/sys/vm/drop_caches") << "3";
    pause_ms(300);
  }
  return static_cast<double>(number_after("/proc/meminfo", "MemTotal:")) -
         static_cast<double>(number_after("/proc/meminfo", "MemFree:"));
}

void idle_memory_of_a_sandbox(benchmark::State& state) {
  if (::geteuid() != 0) {
    state.SkipWithError("needs root to drop caches");
    return;
  }
  HostRig rig;
  const auto make = [&] {
    const auto sandbox = rig.make();
    if (!rig.exec(sandbox, command(rig, {"/bin/true"}))) state.SkipWithError("the sandbox failed");
    return sandbox;
  };
  (void)make();
  for (auto _ : state) {
    const double before = used_kib();
    std::vector<provider::SandboxRef> made;
    for (int i = 0; i < kSandboxes; ++i) made.push_back(make());
    const double after = used_kib();
    state.counters["kib_per_sandbox"] = (after - before) / kSandboxes;
    for (const auto& sandbox : made) (void)rig.destroy(sandbox);
  }
  state.SetLabel(
      "difference of 200 sandboxes that have each run one command, kernel memory and host included");
}
BENCHMARK(idle_memory_of_a_sandbox)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace sandglass::sandbox_runtime::host
