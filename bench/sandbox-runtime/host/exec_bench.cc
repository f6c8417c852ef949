// A command in a live sandbox, from call to answer, against a plain fork and exec of the same program; a tree
// of many small files in and out, against tar | tar of the same files; a sandbox from nothing to its first
// answer (V18). Needs sandglass-host beside it; measures what the machine gives this user (root: all limits).
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/host/host_rig.h"

namespace sandglass::sandbox_runtime::host {
namespace {

namespace fs = std::filesystem;

struct Live {
  HostRig rig;
  provider::SandboxRef sandbox = rig.make();
};

/// One host for all of them; gone with the process.
Live& live() {
  static Live instance;
  return instance;
}

provider::ExecRequest true_command(HostRig& rig) {
  auto request = rig.shell("");
  request.argv = {"/bin/true"};
  return request;
}

void exec_true_in_a_live_sandbox(benchmark::State& state) {
  Live& at = live();
  std::vector<double> times;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = at.rig.exec(at.sandbox, true_command(at.rig));
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    if (!result || result->exit_code != 0) state.SkipWithError("the command failed");
  }
  std::ranges::sort(times);
  if (!times.empty()) state.counters["p50_us"] = times[times.size() / 2];
  if (!times.empty()) state.counters["p99_us"] = times[times.size() * 99 / 100];
}
BENCHMARK(exec_true_in_a_live_sandbox)->UseRealTime()->Unit(benchmark::kMicrosecond);

void create_first_command_destroy(benchmark::State& state) {
  Live& at = live();
  std::vector<double> times;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const auto sandbox = at.rig.make();
    const auto result = at.rig.exec(sandbox, true_command(at.rig));
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    if (!result || !at.rig.destroy(sandbox)) state.SkipWithError("the sandbox failed");
  }
  std::ranges::sort(times);
  if (!times.empty()) state.counters["cold_create_p50_us"] = times[times.size() / 2];
}
BENCHMARK(create_first_command_destroy)->UseRealTime()->Unit(benchmark::kMicrosecond);

constexpr int kFolders = 100;
constexpr int kFiles = 100;  // in each

std::shared_ptr<MemoryTree> many_files() {
  auto tree = std::make_shared<MemoryTree>();
  std::mt19937_64 random(9);
  for (int folder = 0; folder < kFolders; ++folder) {
    const std::string path = "d" + std::to_string(folder);
    tree->folder(path);
    for (int i = 0; i < kFiles; ++i) {
      std::string content(4096, '\0');
      for (auto& byte : content) byte = static_cast<char>(random());
      tree->file(path + "/f" + std::to_string(i), std::move(content));
    }
  }
  return tree;
}

/// 10,000 files, 40 MB.
void tree_in_and_out(benchmark::State& state) {
  HostRig& rig = live().rig;
  provider::Template tmpl = HostRig::small_template();
  tmpl.limits.disk.value = 256ull << 20;
  tmpl.limits.inodes.value = 50'000;
  for (auto _ : state) {
    state.PauseTiming();
    const auto sandbox = rig.make(tmpl);
    auto tree = many_files();
    auto back = std::make_shared<MemoryTree>();
    state.ResumeTiming();
    const auto put = rig.put(sandbox, "tree", tree);
    const auto got = rig.get(sandbox, "tree", back);
    state.PauseTiming();
    if (!put || !got || back->items.size() != tree->items.size()) state.SkipWithError("the transfer failed");
    (void)rig.destroy(sandbox);
    state.ResumeTiming();
  }
}
BENCHMARK(tree_in_and_out)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);

void tar_pipe_twice(benchmark::State& state) {
  const fs::path folder = fs::temp_directory_path() / ("sandglass-bench-" + std::to_string(getpid()));
  for (const auto& [path, item] : many_files()->items) {
    const fs::path file = folder / "from" / path;
    if (item.entry.type == provider::EntryType::folder) {
      fs::create_directories(file);
    } else {
      fs::create_directories(file.parent_path());
      std::ofstream(file, std::ios::binary) << item.content;
    }
  }
  const std::string base = folder.string();
  const auto copy = [&](const std::string& from, const std::string& to) {
    return "mkdir -p " + base + "/" + to + " && tar -C " + base + "/" + from + " -cf - . | tar -C " + base +
           "/" + to + " -xf -";
  };
  for (auto _ : state) {
    if (system((copy("from", "to") + " && " + copy("to", "back")).c_str()) != 0)
      state.SkipWithError("tar failed");
    state.PauseTiming();
    fs::remove_all(folder / "to");
    fs::remove_all(folder / "back");
    state.ResumeTiming();
  }
  fs::remove_all(folder);
}
BENCHMARK(tar_pipe_twice)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);

void fork_and_exec_true(benchmark::State& state) {
  for (auto _ : state) {
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/bin/true", "true", nullptr);
      _exit(1);
    }
    waitpid(pid, nullptr, 0);
  }
}
BENCHMARK(fork_and_exec_true)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sandglass::sandbox_runtime::host

BENCHMARK_MAIN();
