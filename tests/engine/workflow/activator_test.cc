#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/system_ports.h"
#include "engine/run/decider.h"
#include "engine/workflow/slot_file.h"
#include "engine/workflow/threaded_activator.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::workflow {
namespace {

using base::Code;

/// Time that the test moves.
class ManualClock final : public base::Clock {
 public:
  base::WallMs wall_ms() const override { return 0; }
  base::MonotonicNs monotonic_ns() const override { return now_ns.load(); }
  std::atomic<base::MonotonicNs> now_ns{0};
};

std::string tenant_key(const std::string&) {
  return "key";
}

core::StreamId stream(int number) {
  return core::StreamId::named(core::StreamKind::run, std::to_string(number));
}

/// The first activation of a run of workflow `name`.
core::ActivationRequest first_request(int number, const std::string& name) {
  const core::DigestKey key("key", stream(number).text());
  core::Turn turn;
  const core::DecideInput input{stream(number), 1, 0, 1};
  core::TurnWriter<run::Event> out(turn, input);
  const run::Command start = run::StartRun{
      .workflow = name, .version = "1", .tenant = "t", .input = key.make(core::Encoding::json, "1")};
  auto state = std::make_shared<core::StateOf<run::State>>();
  EXPECT_TRUE(run::RunDecider::decide(state->value, start, input, out));
  const core::TurnInfo info{1, 0, 1};
  for (const auto& event : out.events()) run::RunDecider::evolve(state->value, event, info);
  return {.stream = stream(number),
          .head = 1,
          .state = state,
          .turns = {{info, turn.events, turn.slots}},
          .rebuild = true};
}

/// Counts wake-ups, so that a test waits for an answer without sleeping.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  int rings = 0;

  void ring() {
    const std::lock_guard lock(mutex);
    ++rings;
    rung.notify_all();
  }
  void wait_for(int wanted) {
    std::unique_lock lock(mutex);
    rung.wait(lock, [&] { return rings >= wanted; });
  }
};

const run::ApplyActivation& output_of(const core::ActivationAnswer& answer) {
  return std::get<run::ApplyActivation>(
      static_cast<const core::CommandOf<run::Command>&>(**answer.command).value);
}

TEST(ThreadedActivator, AnswersComeBackAndCoroutinesStayLive) {
  Registry registry;
  registry.add("w", "1",
               [](Context& ctx, Json) -> Task<Result<Json>> { co_return co_await ctx.step("s", "a", 1); });
  const base::SystemClock clock;
  Bell bell;
  ThreadedActivator activator(registry, tenant_key, clock,
                              {.limit_ms = 60'000, .wake = [&] { bell.ring(); }, .slots = {}});
  for (int i = 0; i < 20; ++i) activator.submit(first_request(i, "w"));
  bell.wait_for(20);
  std::vector<core::ActivationAnswer> answers;
  activator.poll(answers);
  ASSERT_EQ(answers.size(), 20U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(answers[static_cast<std::size_t>(i)].stream, stream(i));
    EXPECT_EQ(output_of(answers[static_cast<std::size_t>(i)]).commands.size(), 1U);
    EXPECT_TRUE(activator.is_live_at(stream(i), 1));
    EXPECT_FALSE(activator.is_live_at(stream(i), 2));
  }
  activator.evict(stream(3));
  EXPECT_FALSE(activator.is_live_at(stream(3), 1));
  activator.evict_all();
  EXPECT_FALSE(activator.is_live_at(stream(4), 1));
}

TEST(ThreadedActivator, CodeThatHasEndedLeavesNoCoroutine) {
  Registry registry;
  registry.add("w", "1", [](Context&, Json) -> Task<Result<Json>> { co_return 2; });
  const base::SystemClock clock;
  Bell bell;
  ThreadedActivator activator(registry, tenant_key, clock,
                              {.limit_ms = 60'000, .wake = [&] { bell.ring(); }, .slots = {}});
  activator.submit(first_request(1, "w"));
  bell.wait_for(1);
  std::vector<core::ActivationAnswer> answers;
  activator.poll(answers);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(output_of(answers[0]).commands.size(), 1U);
  EXPECT_FALSE(activator.is_live_at(stream(1), 1));
}

TEST(ThreadedActivator, BlockedCodeIsGivenUpAndOthersGoOn) {  // J13, E14
  struct Gate {
    std::mutex mutex;
    std::condition_variable open;
    bool is_open = false;
    bool entered = false;
    bool left = false;
  };
  static Gate gate;
  static Registry registry;  // an abandoned thread may use it until the process ends
  static ManualClock clock;
  registry.add("blocks", "1", [](Context&, Json) -> Task<Result<Json>> {
    std::unique_lock lock(gate.mutex);
    gate.entered = true;
    gate.open.notify_all();
    gate.open.wait(lock, [] { return gate.is_open; });
    gate.left = true;
    gate.open.notify_all();
    co_return 1;
  });
  registry.add("w", "1", [](Context&, Json) -> Task<Result<Json>> { co_return 2; });
  Bell bell;
  {
    ThreadedActivator activator(registry, tenant_key, clock,
                                {.limit_ms = 1000, .wake = [&] { bell.ring(); }, .slots = {}});
    activator.submit(first_request(1, "blocks"));
    activator.submit(first_request(2, "w"));
    {
      std::unique_lock lock(gate.mutex);
      gate.open.wait(lock, [] { return gate.entered; });
    }
    std::vector<core::ActivationAnswer> answers;
    activator.poll(answers);
    EXPECT_TRUE(answers.empty());
    clock.now_ns = 1'000'000'001;
    activator.poll(answers);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].stream, stream(1));
    EXPECT_EQ(answers[0].command.error().code, Code::activation_blocked);
    EXPECT_EQ(activator.abandoned(), 1U);
    bell.wait_for(1);  // the other run, on the new thread
    answers.clear();
    activator.poll(answers);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].stream, stream(2));
    {
      std::unique_lock lock(gate.mutex);
      gate.is_open = true;
      gate.open.notify_all();
      gate.open.wait(lock, [] { return gate.left; });
    }
    EXPECT_FALSE(activator.is_live_at(stream(1), 1));
  }
}

TEST(SlotFile, ThreeCrashesWhileARunWasRunningMakeItASuspect) {  // J13
  const tests::support::TempFolder folder;
  const std::string path = folder.file("slots");
  for (int crash = 1; crash <= 3; ++crash) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto slots = SlotFile::open(path);
      if (!slots) ::_exit(2);
      const auto step = core::RunningCode::of_step(stream(3), "0/a");
      if ((*slots)->is_suspect({stream(1)}) || (*slots)->is_suspect(step)) ::_exit(3);
      (*slots)->enter({stream(1)});
      (*slots)->leave((*slots)->enter({stream(2)}));
      (*slots)->enter(step);  // by the loop that starts it
      (*slots)->enter(step);  // by the thread that runs it: still one death
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a suspect before the restart after the third death";
  }
  auto slots = SlotFile::open(path);
  ASSERT_TRUE(slots) << slots.error().message;
  EXPECT_TRUE((*slots)->is_suspect({stream(1)}));
  EXPECT_FALSE((*slots)->is_suspect({stream(2)}));
  EXPECT_TRUE((*slots)->is_suspect(core::RunningCode::of_step(stream(3), "0/a")));
  EXPECT_FALSE((*slots)->is_suspect(core::RunningCode::of_step(stream(3), "0/b"))) << "another step of it";
  EXPECT_FALSE((*slots)->is_suspect({stream(3)})) << "its workflow code";

  Registry registry;
  registry.add("w", "1", [](Context&, Json) -> Task<Result<Json>> { co_return 2; });
  const base::SystemClock clock;
  Bell bell;
  ThreadedActivator activator(registry, tenant_key, clock,
                              {.limit_ms = 60'000,
                               .wake = [&] { bell.ring(); },
                               .slots = std::shared_ptr<SlotFile>(std::move(*slots))});
  activator.submit(first_request(1, "w"));
  bell.wait_for(1);
  std::vector<core::ActivationAnswer> answers;
  activator.poll(answers);
  EXPECT_EQ(answers.at(0).command.error().code, Code::activation_blocked);
  activator.submit(first_request(1, "w"));  // resumed by an operator
  bell.wait_for(2);
  activator.poll(answers);
  EXPECT_TRUE(answers.at(1).command);
}

core::ActivationRequest query_request(int number, const std::string& workflow, const std::string& name) {
  core::ActivationRequest request = first_request(number, workflow);
  request.question = core::Question{.kind = core::Question::Kind::query, .name = name, .input = nullptr};
  return request;
}

TEST(ThreadedActivator, ABlockedQueryIsItsCallersErrorAlone) {  // J13
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool entered = false, is_open = false, left = false;
  };
  static Gate gate;
  static Registry registry;  // an abandoned thread may use it until the process ends
  static ManualClock clock;
  registry.add("asked", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    const auto blocks = ctx.on_query("blocks", [](const Json&) -> Result<Json> {
      std::unique_lock lock(gate.mutex);
      gate.entered = true;
      gate.changed.notify_all();
      gate.changed.wait(lock, [] { return gate.is_open; });
      gate.left = true;
      gate.changed.notify_all();
      return 1;
    });
    const auto answers = ctx.on_query("answers", [](const Json&) -> Result<Json> { return 2; });
    co_return co_await ctx.wait_signal("end");
  });
  Bell bell;
  ThreadedActivator activator(registry, tenant_key, clock,
                              {.limit_ms = 1000, .wake = [&] { bell.ring(); }, .slots = {}});
  activator.submit(query_request(1, "asked", "blocks"));
  {
    std::unique_lock lock(gate.mutex);
    gate.changed.wait(lock, [] { return gate.entered; });
  }
  clock.now_ns = 1'000'000'001;
  std::vector<core::ActivationAnswer> answers;
  activator.poll(answers);
  ASSERT_EQ(answers.size(), 1U);
  ASSERT_TRUE(answers[0].said) << "the question is answered, and no output is, so that the run goes on";
  EXPECT_EQ(answers[0].said->error().code, Code::activation_blocked);
  EXPECT_FALSE(activator.is_live_at(stream(1), 1));
  activator.submit(query_request(1, "asked", "answers"));
  bell.wait_for(1);
  answers.clear();
  activator.poll(answers);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(*answers[0].said, "2");
  EXPECT_TRUE(activator.is_live_at(stream(1), 1));
  std::unique_lock lock(gate.mutex);
  gate.is_open = true;
  gate.changed.notify_all();
  gate.changed.wait(lock, [] { return gate.left; });
}

TEST(SlotFile, AQueryThatCrashesIsNotPutAgainAndItsRunGoesOn) {  // J13
  const tests::support::TempFolder folder;
  const std::string path = folder.file("slots");
  Registry registry;
  registry.add("asked", "1", [](Context& ctx, Json) -> Task<Result<Json>> {
    const auto crashes = ctx.on_query("crashes", [](const Json&) -> Result<Json> {
      ::kill(::getpid(), SIGKILL);
      return 1;
    });
    const auto answers = ctx.on_query("answers", [](const Json&) -> Result<Json> { return 2; });
    co_return co_await ctx.wait_signal("end");
  });
  const base::SystemClock clock;
  for (int crash = 1; crash <= 3; ++crash) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto slots = SlotFile::open(path);
      ThreadedActivator activator(
          registry, tenant_key, clock,
          {.limit_ms = 60'000, .wake = {}, .slots = std::shared_ptr<SlotFile>(std::move(*slots))});
      activator.submit(query_request(1, "asked", "crashes"));
      while (true) ::pause();
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  auto slots = SlotFile::open(path);
  ASSERT_TRUE(slots) << slots.error().message;
  EXPECT_FALSE((*slots)->is_suspect({stream(1)})) << "its workflow code";
  Bell bell;
  ThreadedActivator activator(registry, tenant_key, clock,
                              {.limit_ms = 60'000,
                               .wake = [&] { bell.ring(); },
                               .slots = std::shared_ptr<SlotFile>(std::move(*slots))});
  const char* const names[] = {"crashes", "answers", "crashes"};
  for (const char* name : names) activator.submit(query_request(1, "asked", name));
  activator.submit(first_request(1, "asked"));
  bell.wait_for(4);
  std::vector<core::ActivationAnswer> answers;
  activator.poll(answers);
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_EQ(answers[0].said->error().code, Code::activation_blocked);
  EXPECT_EQ(*answers[1].said, "2");
  EXPECT_EQ(answers[2].said->error().code, Code::activation_blocked) << "not in this process any more";
  EXPECT_TRUE(answers[3].command) << "the run's own code is not concerned";
}

TEST(SlotFile, ADamagedRowNamesNobody) {
  const tests::support::TempFolder folder;
  const std::string path = folder.file("slots");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto slots = SlotFile::open(path);
    if (!slots) ::_exit(2);
    (*slots)->enter({stream(1)});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (std::size_t at = 8; at < 8 + 28; ++at) {  // the first row, without what is spare
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    for (int start = 0; start < 4; ++start) {  // were it believed, its strikes would stay in the file
      if (start == 0) std::ofstream(path, std::ios::binary) << flipped;
      auto slots = SlotFile::open(path);
      ASSERT_TRUE(slots);
      if (start == 0) (*slots)->enter({stream(2)});
    }
    std::ifstream again(path, std::ios::binary);
    const std::string now((std::istreambuf_iterator<char>(again)), std::istreambuf_iterator<char>());
    EXPECT_EQ(now.find(stream(1).bytes()), std::string::npos) << "byte " << at;
  }
}

TEST(ThreadedActivator, TooManyBlockedThreadsAskForANewProcess) {  // J13
  static std::atomic<bool> let_go{false};
  static Registry registry;
  static ManualClock clock;
  registry.add("spins", "1", [](Context&, Json) -> Task<Result<Json>> {
    while (!let_go) std::this_thread::yield();
    co_return 1;
  });
  std::optional<base::Error> exhausted;
  int asked = 0;
  const auto activator = std::make_unique<ThreadedActivator>(
      registry, tenant_key, clock,
      ThreadedActivatorOptions{
          .limit_ms = 1000, .max_abandoned = 3, .exhausted = [&](const base::Error& error) {
            exhausted = error;
            ++asked;
          }});
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(asked, i > 3 ? 1 : 0);
    activator->submit(first_request(i, "spins"));
    std::vector<core::ActivationAnswer> answers;
    while (answers.empty()) {  // the thread has taken it once the clock's next second goes by
      clock.now_ns += 1'000'000'001;
      activator->poll(answers);
      std::this_thread::yield();
    }
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].stream, stream(i)) << "each is stuck, and none is forgotten";
    EXPECT_EQ(answers[0].command.error().code, Code::activation_blocked);
  }
  EXPECT_EQ(asked, 1) << "asked once";
  ASSERT_TRUE(exhausted);
  EXPECT_NE(exhausted->message.find("3 threads"), std::string::npos) << exhausted->message;
  let_go = true;
}

}  // namespace
}  // namespace sandglass::engine::workflow
