// Steps per second where another process carries them out: runs of ten sequential steps, each durable, on
// RocksDB. The engine is that of bench/engine/shard; the worker is a process of its own behind the real gRPC
// service.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "bench/engine/shard/bench_engine.h"
#include "bench/measure.h"
#include "engine/api/rpc_server.h"
#include "engine/base/log.h"
#include "engine/client/worker.h"

namespace sandglass::engine::shard {
namespace {

constexpr const char* kBecomeWorker = "SANDGLASS_BENCH_WORKER";
constexpr const char* kToken = "sgt_0000000000000000000000000000000000000000000000000000000000000000";

/// The worker is this program once more.
int serve_as_worker(const char* socket) {
  client::Worker worker({.connect = {.socket = socket, .token = kToken}, .capacity = 512});
  worker.add("noop", [](const client::Task&, client::Attempt&) { return client::Ended::done("null"); });
  return worker.run() ? 0 : 1;
}

class NobodyAsks final : public api::EnginePort {
 public:
  void submit(CommandEnvelope) override {}
  void read(const core::StreamId&, ReadFn) override {}
  void ask(const core::StreamId&, core::Question, SaidFn) override {}
  std::uint64_t follow(const core::StreamId&, std::uint64_t, std::size_t, RecordsFn) override { return 0; }
  void cancel_follow(std::uint64_t) override {}
};

/// An engine with a worker beside it.
class Rig {
 public:
  Rig() : pool_(clock_, {}), engine(true, open_embedded, &pool_), refusals_(port_, clock_, "key") {
    identity::State identities;
    identity::Token token;
    token.hash = base::sha256(kToken);
    token.tenant = "t";
    token.user = "worker";
    token.roles = static_cast<identity::Roles>(identity::Role::worker);
    identities.tokens.emplace("worker", token);
    gate_.set_identities(std::make_shared<const identity::State>(std::move(identities)));
    const std::string socket = engine.folder() + "/api.sock";
    auto started = api::RpcServer::start({.socket = socket, .tcp = {}}, gate_, nullptr, refusals_, &pool_);
    SG_CHECK(started, started.error().message);
    server_ = std::move(*started);
    pool_.opened();
    const std::string told = std::string(kBecomeWorker) + "=" + socket;
    std::array<char*, 2> environment = {const_cast<char*>(told.c_str()), nullptr};
    std::array<char*, 2> arguments = {const_cast<char*>("worker"), nullptr};
    SG_CHECK(
        posix_spawn(&worker_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environment.data()) == 0,
        "cannot start a worker");
  }
  ~Rig() {
    kill(worker_, SIGKILL);
    waitpid(worker_, nullptr, 0);
    server_->stop(0);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

 private:
  base::SystemClock clock_;
  dispatch::WorkerPool pool_;

 public:
  BenchEngine engine;

 private:
  NobodyAsks port_;
  api::Gate gate_{{}};
  api::RefusalLog refusals_;
  std::unique_ptr<api::RpcServer> server_;
  pid_t worker_ = 0;
};

void ten_step_runs_elsewhere(benchmark::State& state) {
  base::set_log_level(base::LogLevel::warning);
  const auto concurrent = static_cast<std::uint64_t>(state.range(0));
  const std::uint64_t total = std::max<std::uint64_t>(4000, concurrent * 400);
  Rig rig;
  rig.engine.go_on_until(total / 10, concurrent, 10);  // warm
  const std::uint64_t before = rig.engine.steps;
  const double cpu = bench::cpu_us();
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) rig.engine.go_on_until(before + total, concurrent, 10);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto steps = static_cast<double>(rig.engine.steps - before);
  state.counters["steps_per_second"] = steps / seconds;
  state.counters["engine_cpu_per_step_us"] = (bench::cpu_us() - cpu) / steps;
  state.SetLabel("10-step runs, the worker in another process");
}
BENCHMARK(ten_step_runs_elsewhere)
    ->ArgName("runs")
    ->Arg(1)
    ->Arg(64)
    ->Arg(256)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sandglass::engine::shard

int main(int argc, char** argv) {
  if (const char* socket = std::getenv(sandglass::engine::shard::kBecomeWorker))
    return sandglass::engine::shard::serve_as_worker(socket);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
