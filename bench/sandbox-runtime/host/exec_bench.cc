// A command in a live sandbox, from call to answer, in turns with a plain fork and exec of the same program;
// a tree of many small files in and out, in turns with tar | tar of the same files (V13). Needs
// sandglass-host beside it; measures what the machine gives this user (root: all limits).
#include <benchmark/benchmark.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/sandbox-runtime/host/live.h"
#include "bench/sandbox-runtime/host/many_files.h"

namespace sandglass::sandbox_runtime::host {
namespace {

namespace fs = std::filesystem;

bool run_true() {
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(1);
  }
  int status = -1;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

void exec_true_in_a_live_sandbox(benchmark::State& state) {
  Live& at = live();
  std::vector<double> ours;
  std::vector<double> theirs;
  for (auto _ : state) {
    auto start = SteadyClock::now();
    const auto result = at.rig.exec(at.sandbox, command(at.rig, {"/bin/true"}));
    ours.push_back(since_us(start));
    state.SetIterationTime(ours.back() / 1e6);
    if (!result || result->exit_code != 0) state.SkipWithError("the command failed");
    start = SteadyClock::now();
    if (!run_true()) state.SkipWithError("/bin/true failed");
    theirs.push_back(since_us(start));
  }
  state.counters["p50_us"] = percentile(ours, 0.5);
  state.counters["p99_us"] = percentile(ours, 0.99);
  state.counters["fork_and_exec_p50_us"] = percentile(theirs, 0.5);
  state.counters["ratio_to_fork_and_exec"] = percentile(ours, 0.5) / percentile(theirs, 0.5);
}
BENCHMARK(exec_true_in_a_live_sandbox)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(1000);

/// Each as soon as the one before was answered, so that its child is not yet ready.
void execs_in_a_row(benchmark::State& state) {
  Live& at = live();
  std::vector<double> ours;
  for (auto _ : state) {
    const auto start = SteadyClock::now();
    const auto result = at.rig.exec(at.sandbox, command(at.rig, {"/bin/true"}));
    ours.push_back(since_us(start));
    state.SetIterationTime(ours.back() / 1e6);
    if (!result || result->exit_code != 0) state.SkipWithError("the command failed");
  }
  state.counters["p50_us"] = percentile(ours, 0.5);
}
BENCHMARK(execs_in_a_row)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(1000);

/// The same files in a folder of the machine, copied twice by tar | tar.
class TarPipe {
 public:
  TarPipe() {
    for (const auto& [path, item] : many_files()->items) {
      const fs::path file = folder_ / "from" / path;
      if (item.entry.type == provider::EntryType::folder) {
        fs::create_directories(file);
      } else {
        fs::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << item.content;
      }
    }
  }
  ~TarPipe() { fs::remove_all(folder_); }

  bool copy_twice() const { return system((copy("from", "to") + " && " + copy("to", "back")).c_str()) == 0; }
  void remove_copies() const {
    fs::remove_all(folder_ / "to");
    fs::remove_all(folder_ / "back");
  }

 private:
  std::string copy(const std::string& from, const std::string& to) const {
    const std::string base = folder_.string();
    return "mkdir -p " + base + "/" + to + " && tar -C " + base + "/" + from + " -cf - . | tar -C " + base +
           "/" + to + " -xf -";
  }
  const fs::path folder_ = fs::temp_directory_path() / ("sandglass-bench-" + std::to_string(getpid()));
};

void tree_in_and_out(benchmark::State& state) {
  HostRig& rig = live().rig;
  const TarPipe tar;
  std::vector<double> ours;
  std::vector<double> theirs;
  for (auto _ : state) {
    const auto sandbox = rig.make(many_files_template());
    auto tree = many_files();
    auto back = std::make_shared<MemoryTree>();
    auto start = SteadyClock::now();
    const auto put = rig.put(sandbox, "tree", tree);
    const auto got = rig.get(sandbox, "tree", back);
    ours.push_back(since_ms(start));
    state.SetIterationTime(ours.back() / 1e3);
    if (!put || !got || back->items.size() != tree->items.size()) state.SkipWithError("the transfer failed");
    (void)rig.destroy(sandbox);
    start = SteadyClock::now();
    if (!tar.copy_twice()) state.SkipWithError("tar failed");
    theirs.push_back(since_ms(start));
    tar.remove_copies();
  }
  state.counters["p50_ms"] = percentile(ours, 0.5);
  state.counters["tar_p50_ms"] = percentile(theirs, 0.5);
  state.counters["ratio_to_tar"] = percentile(ours, 0.5) / percentile(theirs, 0.5);
  state.SetLabel("10,000 files, 40 MB, into a sandbox and out again; in turns with tar | tar twice");
}
BENCHMARK(tree_in_and_out)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace sandglass::sandbox_runtime::host

BENCHMARK_MAIN();
