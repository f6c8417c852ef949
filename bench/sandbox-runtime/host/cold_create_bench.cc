// V18: cold create through host, keeper, init and proxy, in turns with bubblewrap in the same run; and the
// end of a sandbox whose command forks as fast as it can.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>

#include "bench/sandbox-runtime/host/live.h"
#include "schemas/sandglass/frame/v1/network.pb.h"

namespace sandglass::sandbox_runtime::host {
namespace {

namespace fs = std::filesystem;

/// The end of what was destroyed before goes on in the kernel for a while; neither side is to pay for it.
constexpr int kRestMs = 20;

struct LiveWithProxy {
  LiveWithProxy() {
    rig.start_egress(frame::v1::NetworkConfig().SerializeAsString());
    pause_ms(1'000);  // the host looks for its proxy five times a second
    provider::Template tmpl;
    tmpl.network = true;
    (void)rig.destroy(rig.make(tmpl));  // makes the template's disk image
  }
  HostRig rig;
};

LiveWithProxy& live_with_proxy() {
  static LiveWithProxy instance;
  return instance;
}

bool run_bubblewrap() {
  std::vector<std::string> words = {
      "bwrap",  "--unshare-all", "--ro-bind", "/usr", "/usr",      "--symlink", "usr/lib64",
      "/lib64", "--symlink",     "usr/bin",   "/bin", "--symlink", "usr/lib",   "/lib",
      "--proc", "/proc",         "--dev",     "/dev", "--tmpfs",   "/tmp",      "/bin/true"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  int status = -1;
  return ::posix_spawnp(&pid, "bwrap", nullptr, nullptr, argv.data(), environ) == 0 &&
         ::waitpid(pid, &status, 0) == pid && status == 0;
}

/// From the provider call until the first /bin/true has returned, with the default template's limits.
void cold_create(benchmark::State& state) {
  HostRig& rig = live_with_proxy().rig;
  provider::Template tmpl;
  tmpl.network = true;
  std::vector<double> ours;
  std::vector<double> made;
  std::vector<double> theirs;
  for (auto _ : state) {
    pause_ms(kRestMs);
    auto start = SteadyClock::now();
    const auto sandbox = rig.make(tmpl);
    made.push_back(since_ms(start));
    const auto result = rig.exec(sandbox, command(rig, {"/bin/true"}));
    ours.push_back(since_ms(start));
    state.SetIterationTime(ours.back() / 1e3);
    if (!result || result->exit_code != 0 || !rig.destroy(sandbox)) state.SkipWithError("the sandbox failed");
    pause_ms(kRestMs);
    start = SteadyClock::now();
    if (!run_bubblewrap()) state.SkipWithError("bubblewrap does not run here");
    theirs.push_back(since_ms(start));
  }
  state.counters["p50_ms"] = percentile(ours, 0.5);
  state.counters["p95_ms"] = percentile(ours, 0.95);
  state.counters["until_created_p50_ms"] = percentile(made, 0.5);
  state.counters["bubblewrap_p50_ms"] = percentile(theirs, 0.5);
  state.counters["ratio_to_bubblewrap"] = percentile(ours, 0.5) / percentile(theirs, 0.5);
  state.SetLabel(
      "default template, network, nothing of the sandbox made before the call; in turns with bwrap");
}
BENCHMARK(cold_create)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(100);

/// Creates that follow one another at once use up the images that were made ahead and meet their remaking.
void cold_create_in_a_row(benchmark::State& state) {
  constexpr int kAhead = 2;
  HostRig& rig = live_with_proxy().rig;
  provider::Template tmpl;
  tmpl.network = true;
  std::vector<double> times;
  for (auto _ : state) {
    pause_ms(kRestMs);
    std::vector<provider::SandboxRef> made;
    for (int i = 0; i < kAhead + 3; ++i) {
      const auto start = SteadyClock::now();
      made.push_back(rig.make(tmpl));
      if (!rig.exec(made.back(), command(rig, {"/bin/true"}))) state.SkipWithError("the sandbox failed");
      if (i < kAhead) continue;
      times.push_back(since_ms(start));
    }
    state.SetIterationTime(times.back() / 1e3);
    for (const auto& sandbox : made) (void)rig.destroy(sandbox);
  }
  state.counters["p50_ms"] = percentile(times, 0.5);
  state.SetLabel("as cold_create, the third to the fifth of five without a pause");
}
BENCHMARK(cold_create_in_a_row)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(15);

/// Processes of the newest sandbox, as the kernel counts them; 0 where no counter is.
std::uint64_t processes_of(const std::string& id) {
  std::error_code error;
  for (const char* root : {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"}) {
    for (const auto& entry : fs::directory_iterator(root, error)) {
      if (entry.path().filename().string().ends_with("-" + id))
        return number_after(entry.path() / "pids.current", "");
    }
  }
  return 0;
}

void destroy_of_a_fork_bomb(benchmark::State& state) {
  HostRig& rig = live_with_proxy().rig;
  provider::Template tmpl;
  std::vector<double> times;
  double processes = 0;
  for (auto _ : state) {
    const auto sandbox = rig.make(tmpl);
    auto bomb = rig.begin(sandbox, rig.shell("bomb() { bomb | bomb & }; bomb; while :; do bomb; done"));
    HostRig::eventually([&] { return processes_of(sandbox.id) * 10 >= tmpl.limits.pids.value * 9; }, 3000);
    processes += static_cast<double>(processes_of(sandbox.id));
    const auto start = SteadyClock::now();
    const bool gone = rig.destroy(sandbox).has_value();
    times.push_back(since_ms(start));
    state.SetIterationTime(times.back() / 1e3);
    if (!gone) state.SkipWithError("the sandbox is not gone");
    (void)bomb.get();
  }
  state.counters["p50_ms"] = percentile(times, 0.5);
  state.counters["p95_ms"] = percentile(times, 0.95);
  state.counters["processes"] = processes / static_cast<double>(times.size());
  state.SetLabel("from the call until nothing of it is left, verified");
}
BENCHMARK(destroy_of_a_fork_bomb)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(20);

void destroy_of_an_idle_sandbox(benchmark::State& state) {
  HostRig& rig = live_with_proxy().rig;
  std::vector<double> times;
  for (auto _ : state) {
    const auto sandbox = rig.make(provider::Template{});
    const auto start = SteadyClock::now();
    if (!rig.destroy(sandbox)) state.SkipWithError("the sandbox is not gone");
    times.push_back(since_ms(start));
    state.SetIterationTime(times.back() / 1e3);
  }
  state.counters["p50_ms"] = percentile(times, 0.5);
}
BENCHMARK(destroy_of_an_idle_sandbox)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(20);

}  // namespace
}  // namespace sandglass::sandbox_runtime::host
