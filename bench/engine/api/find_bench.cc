// How long the first page of a filter takes on many runs (E10): rows as the projection of runs leaves them,
// in a real database. --runs N before the options of Google Benchmark says how many; 200,000 by default.
#include <benchmark/benchmark.h>

#include <charconv>
#include <string_view>

#include "bench/measure.h"
#include "engine/api/run_list.h"
#include "engine/base/check.h"
#include "engine/run/view/run_view.h"
#include "engine/view/rocksdb/view.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::api {
namespace {

namespace v1 = ::sandglass::v1;

constexpr std::uint16_t kPartitions = 8;
constexpr std::int64_t kFirstMs = 1'793'491'200'000;  // 2026-11-01, one run a second
std::uint64_t runs = 200'000;

core::StreamId run_number(std::uint64_t number) {
  return core::StreamId::named(core::StreamKind::run, std::to_string(number));
}

/// One of 5,000 has failed, one of a million is stuck; every run has an order of its own, in ten tenants.
void project_run(std::uint64_t number, std::vector<view::ViewChange>& changes) {
  const core::StreamId stream = run_number(number);
  const std::uint16_t partition = view::partition_of(stream.bucket(), kPartitions);
  const run::State before;
  run::State after;
  after.status = number % 1'000'000 == 7 ? run::RunStatus::stuck
                 : number % 5'000 == 3   ? run::RunStatus::failed
                                         : run::RunStatus::completed;
  after.workflow = number % 10 == 0 ? "hello" : "agent";
  after.version = "1";
  after.tenant = "tenant " + std::to_string(number % 10);
  after.user = "user " + std::to_string(number % 100);
  after.started_ms = kFirstMs + static_cast<std::int64_t>(number) * 1000;
  after.closed_ms = after.started_ms + 500;
  run::view::RunView::project(before, after, stream, partition, changes);
  const std::string said = R"({"order":{"keyword":"A-)" + std::to_string(number) + R"("}})";
  run::view::RunView::project_content(
      run::AttributesSet{"0/attributes#0", {.seq = 1, .slot = 0, .size = 1}},
      {std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, said})}, after, stream, partition,
      changes);
}

/// Made once, for all that is measured.
class Folder {
 public:
  Folder() {
    auto opened = view::Database::open({.path = folder_.file("db")});
    SG_CHECK(opened.has_value(), opened.error().message);
    database_ = std::move(*opened);
    std::vector<std::vector<view::ViewChange>> groups(1);
    for (std::uint64_t number = 0; number < runs; ++number) {
      project_run(number, groups[0]);
      if (groups[0].size() < 30'000 && number + 1 < runs) continue;
      const auto written = database_->write(groups);
      SG_CHECK(written.has_value(), written.error().message);
      groups[0].clear();
    }
    view_ = std::make_unique<view::RocksView>(*database_, 0);
  }
  const view::View& view() const { return *view_; }

 private:
  tests::support::TempFolder folder_;
  std::unique_ptr<view::Database> database_;
  std::unique_ptr<view::RocksView> view_;
};

void first_page(benchmark::State& state, const std::string& filter, const std::string& tenant) {
  static const Folder folder;
  const identity::Caller caller{.token_name = "t",
                                .tenant = tenant,
                                .user = "user 1",
                                .roles = static_cast<identity::Roles>(identity::Role::operator_)};
  v1::ListRunsRequest request;
  request.set_filter(filter);
  std::vector<double> took;
  int given = 0;
  for (auto _ : state) {
    const auto start = bench::SteadyClock::now();
    const auto page = list_runs(folder.view(), kPartitions, caller, request);
    took.push_back(bench::since_ms(start));
    SG_CHECK(page.has_value(), page.error().message);
    given = page->runs_size();
  }
  state.counters["runs"] = static_cast<double>(runs);
  state.counters["given"] = given;
  state.counters["p50_ms"] = bench::percentile(took, 0.5);
  state.counters["p99_ms"] = bench::percentile(took, 0.99);
  state.SetLabel(filter);
}

}  // namespace
}  // namespace sandglass::engine::api

int main(int argc, char** argv) {
  using sandglass::engine::api::first_page;
  using sandglass::engine::api::runs;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) != "--runs") continue;
    const std::string_view number = argv[i + 1];
    std::from_chars(number.data(), number.data() + number.size(), runs);
    std::copy(argv + i + 2, argv + argc, argv + i);
    argc -= 2;
  }
  const std::string order = R"(attributes.order = "A-)" + std::to_string(runs / 20 * 10 + 1) + "\"";
  const auto add = [](const char* name, const std::string& filter) {
    benchmark::RegisterBenchmark(name,
                                 [filter](benchmark::State& state) { first_page(state, filter, "tenant 1"); })
        ->Iterations(20)
        ->Unit(benchmark::kMillisecond);
  };
  add("first_page/all", "");
  add("first_page/common", R"(status = "completed" and workflow = "agent")");
  add("first_page/attribute", order);
  add("first_page/attribute_and_status", order + R"( and status = "completed" and workflow = "agent")");
  add("first_page/within_an_hour",
      R"(started >= "2026-11-01T10:00:00Z" and started < "2026-11-01T11:00:00Z")");
  add("first_page/rare", R"(status = "failed")");
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
