// FR-25: a signal and the completion of a step come together, again and again, where a workflow begins anew
// from a checkpoint: one decision at a time, no step twice, no signal missing.
#include <gtest/gtest.h>

#include <cereal/types/vector.hpp>
#include <climits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "engine/run/codec/codec.h"
#include "engine/run/commands.h"
#include "engine/run/decider.h"
#include "engine/run/view/run_view.h"
#include "engine/workflow/activator.h"
#include "engine/workflow/checkpoint.h"
#include "tests/simulation/checks.h"
#include "tests/simulation/run_history.h"
#include "tests/simulation/sim_engine.h"

namespace sandglass::tests::simulation {
namespace {

namespace fold = engine::fold;
namespace run = engine::run;
namespace workflow = engine::workflow;
using workflow::Json;

using RunKind =
    fold::Kind<core::StreamKind::run, true, run::RunDecider, run::codec::RunCodec, run::view::RunView>;

constexpr std::size_t kRuns = 20;
constexpr std::size_t kMeetings = 10'000 / kRuns;

struct Heard {
  std::vector<int> signals;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(signals);
  }
};

workflow::Task<workflow::Result<Json>> listens(workflow::Context& ctx, Heard heard) {
  while (heard.signals.size() < kMeetings) {
    auto worked = co_await ctx.step("work", "work", heard.signals.size());
    if (!worked) co_return std::unexpected(worked.error());
    auto news = co_await ctx.wait_signal("news");
    if (!news) co_return std::unexpected(news.error());
    heard.signals.push_back(news->get<int>());
    if (auto kept = co_await ctx.checkpoint(heard); !kept) co_return std::unexpected(kept.error());
  }
  co_return Json(heard.signals);
}

/// Keeps what was started until the test lets it end.
struct Work final : core::Activity {
  explicit Work(std::map<std::string, int>& counted) : starts(counted) {}
  void start(core::ActivityCall call, core::ActivityDone done) override {
    ++starts[call.stream.text() + " " + call.path];
    under_way.insert_or_assign(call.stream, std::make_shared<core::ActivityDone>(std::move(done)));
  }
  void cancel(const core::StreamId&, const std::string&, const core::Token&) override {}

  std::map<std::string, int>& starts;
  std::map<core::StreamId, std::shared_ptr<core::ActivityDone>> under_way;
};

class Meetings {
 public:
  explicit Meetings(const SimOptions& options)
      : random_(options.seed), engine_(options, random_, kinds_, workload(), result_) {
    kinds_.add(std::make_shared<RunKind>());
    shard::register_partition_kind(kinds_);
    workflow::add_checkpointing<Heard>(
        workflows_, "listens", "1", [](const Json&) -> workflow::Result<Heard> { return Heard{}; }, listens);
    for (std::size_t i = 0; i < kRuns; ++i)
      streams_.push_back(core::StreamId::named(core::StreamKind::run, "run" + std::to_string(i)));
  }

  void play() {
    engine_.play(result_,
                 {.done = [this] { return started_ && met_ == kRuns * kMeetings && engine_.quiet(); },
                  .talk = [this] { talk(); },
                  .process_ended = [] {},
                  .polled = [] {},
                  .max_polls = 3'000'000});
    EXPECT_EQ(met_, kRuns * kMeetings);
    check_view(engine_.disk(), kinds_, result_.violations);
    for (const auto& violation : result_.violations) ADD_FAILURE() << violation;
    for (const auto& [step, times] : starts_) EXPECT_EQ(times, 1) << step;
    EXPECT_EQ(starts_.size(), kRuns * kMeetings);
    std::vector<int> all(kMeetings);
    std::iota(all.begin(), all.end(), 0);
    const RunHistory history(engine_.disk(), kinds_);
    for (const auto& stream : streams_) {
      EXPECT_EQ(history.result_of(stream), Json(all)) << stream.text();
      std::multiset<std::string> scheduled;
      history.for_each_event<run::Event>(stream, [&](const run::Event& event, const fold::ReadTurn&) {
        if (const auto* step = std::get_if<run::StepScheduled>(&event)) scheduled.insert(step->path);
      });
      EXPECT_EQ(scheduled.size(), std::set<std::string>(scheduled.begin(), scheduled.end()).size());
    }
  }

 private:
  Workload workload() {
    return {.make_activator =
                [this](bool disorder) {
                  auto inner = std::make_unique<workflow::InlineActivator>(
                      workflows_, [](const std::string&) { return std::string("key"); });
                  return std::make_unique<SlowActivator>(std::move(inner), random_, disorder);
                },
            .add_activities =
                [this](core::ActivityRegistry& registry) {
                  work_ = std::make_shared<Work>(starts_);
                  registry.add("work", work_);
                },
            .peek = [](const journal::Batch&) {},
            .next_outside_ns = [] { return INT64_MAX; },
            .poll_outside = [] {}};
  }

  void talk() {
    if (!std::exchange(started_, true)) {
      for (const auto& stream : streams_) {
        run::StartRun start{.workflow = "listens", .version = "1", .tenant = "t", .user = "u"};
        start.input = payload(stream, Json(nullptr));
        call(stream, "start", std::move(start));
      }
    }
    for (const auto& stream : streams_) {
      const auto found = work_->under_way.find(stream);
      if (found == work_->under_way.end() || random_.next() % 3 == 0) continue;
      const auto done = found->second;
      work_->under_way.erase(found);
      // Both in one poll, whichever is first.
      const bool signal_first = random_.next() % 2 == 0;
      if (signal_first) signal(stream);
      (*done)({.bytes = "null"});
      if (!signal_first) signal(stream);
      ++met_;
    }
  }

  void signal(const core::StreamId& stream) {
    const int number = signals_[stream]++;
    call(stream, "signal " + std::to_string(number), run::Signal{"news", payload(stream, Json(number))});
  }

  core::Payload payload(const core::StreamId& stream, const Json& json) const {
    return core::DigestKey("tenant key", stream.text()).make(core::Encoding::json, json.dump());
  }
  void call(const core::StreamId& stream, const std::string& id, run::Command command) {
    engine_.set().submit({.target = stream,
                          .command = core::make_command<run::Command>(std::move(command)),
                          .request_id = id,
                          .request_digest = base::sha256(id),
                          .on_reply = [this, id](base::Result<shard::Reply> reply) {
                            if (!reply) result_.violations.push_back(id + ": " + reply.error().message);
                          }});
  }

  SimResult result_;
  support::SeededRandom random_;
  engine::fold::Registry kinds_;
  workflow::Registry workflows_;
  std::map<std::string, int> starts_;
  std::shared_ptr<Work> work_;
  std::vector<core::StreamId> streams_;
  std::map<core::StreamId, int> signals_;
  bool started_ = false;
  std::uint64_t met_ = 0;
  SimEngine engine_;
};

TEST(Meetings, OfASignalAndACompletionAtACheckpointStartNoStepTwiceAndLoseNoSignal) {
  for (const bool evict : {false, true}) {
    SCOPED_TRACE(evict ? "every coroutine evicted" : "coroutines live");
    Meetings({.seed = 25, .crashes = false, .evict_always = evict, .clock_steps = false}).play();
  }
}

}  // namespace
}  // namespace sandglass::tests::simulation
