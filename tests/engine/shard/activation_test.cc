// Workflow code in the loop: J12, J2, E5, J32's evict-everything, J8.
#include <gtest/gtest.h>

#include "tests/support/test_world.h"

namespace sandglass::engine::shard {
namespace {

using tests::Add;
using tests::test_command;
using tests::test_output;
using tests::test_stream;
using tests::TestCommand;
using tests::TestEvent;
using tests::TestEventType;
using tests::Wake;
using tests::World;

const std::vector<TestEvent>& events_of(const core::TurnView& turn) {
  return static_cast<const core::Events<TestEvent>&>(*turn.events).items;
}

/// A workflow of `steps` steps in a row: each wake or completion schedules the next.
tests::TestActivator::Code steps_in_a_row(int steps) {
  return [steps](const core::ActivationRequest& request) -> base::Result<core::CommandPtr> {
    const auto& state = tests::test_state(*request.state);
    int scheduled = 0;
    bool runnable = false;
    for (const auto& entry : state.log) scheduled += entry.starts_with("3:") ? 1 : 0;
    for (const TestEvent& event : events_of(request.turns.back())) {
      runnable |= event.type == TestEventType::woken || event.type == TestEventType::finished;
    }
    if (!runnable || scheduled >= steps) return core::CommandPtr{};
    return test_output({tests::Act{"step" + std::to_string(scheduled), "echo"}});
  };
}

void run_steps(World& world, const core::StreamId& stream, int steps) {
  ASSERT_TRUE(world.call_now(stream, test_command(Wake{"go"})));
  for (int i = 0; i < steps; ++i) {
    ASSERT_TRUE(world.until([&] { return world.dispatcher->submitted.size() > static_cast<std::size_t>(i); }))
        << i;
    const auto [from, action] = world.dispatcher->submitted[static_cast<std::size_t>(i)];
    world.dispatcher->finish(from, action);
  }
  world.settle();
}

// J9, J12: completion and next schedule are one record and nothing else is written.
TEST(Activation, ACompletionAndWhatItCausesAreOneRecord) {
  World world;
  world.activator->code = steps_in_a_row(10);
  const auto stream = test_stream("a");
  run_steps(world, stream, 10);
  const auto headers = world.headers(stream);
  ASSERT_EQ(headers.size(), 11U);
  for (std::size_t i = 1; i < 10; ++i) {
    ASSERT_EQ(headers[i].events.size(), 2U) << i;  // finished, scheduled
    EXPECT_EQ(headers[i].in_flight, codec::InFlightChange::unchanged);
    EXPECT_FALSE(headers[i].unanswered);
    fold::ViewChanges changes;
    fold::project_header(headers[i], 4, changes);
    EXPECT_TRUE(changes.empty());
  }
  EXPECT_EQ(world.activator->rebuilds, 1) << "the coroutine stays live";
  EXPECT_EQ(world.rows_of(view::Index::in_flight), 0U);
}

TEST(Activation, ALiveCoroutineIsShownTheTurnsThatItHasNotSeen) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Wake{"1"})));
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"between", 1})));  // does not activate
  ASSERT_TRUE(world.call_now(stream, test_command(Wake{"2"})));
  ASSERT_EQ(world.activator->seen.size(), 2U);
  EXPECT_TRUE(world.activator->seen[0].rebuild);
  EXPECT_FALSE(world.activator->seen[1].rebuild);
  ASSERT_EQ(world.activator->seen[1].turns.size(), 2U);
  EXPECT_EQ(world.activator->seen[1].turns[0].info.seq, 2U);
  EXPECT_EQ(world.activator->seen[1].turns[1].info.seq, 3U);
}

TEST(Activation, ARebuildIsShownEveryTurnDurableOrNot) {
  World world(1, {.partitions = 4, .evict_always = true});
  const auto stream = test_stream("a");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(world.call_now(stream, test_command(Wake{std::to_string(i)})));
  world.gate->closed = true;
  for (int i = 5; i < 7; ++i) {
    world.call("w", stream, test_command(Wake{std::to_string(i)}));
    world.tick(10);
  }
  const auto& last = world.activator->seen.back();
  EXPECT_TRUE(last.rebuild);
  ASSERT_EQ(last.turns.size(), last.head);
  for (std::size_t i = 0; i < last.turns.size(); ++i)
    EXPECT_EQ(events_of(last.turns[i])[0].text, std::to_string(i));
}

// J12: a batch waits 1 ms; then the record closes alone, and the late output is a record that names the
// turn's first.
TEST(Activation, ALateAnswerIsARecordOfItsOwnAndNothingComesBetween) {
  World world;
  world.activator->code = [](const core::ActivationRequest&) { return test_output({Add{"late", 10}}); };
  world.activator->closed = true;
  const auto stream = test_stream("a");
  world.call("wake", stream, test_command(Wake{"go"}));
  world.call("other stream", test_stream("b"), test_command(Add{"n", 1}));
  world.tick(2);
  EXPECT_TRUE(world.answers.empty()) << "the batch waits for its activation";
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 2; }));
  world.call("between", stream, test_command(Add{"between", 1}));
  world.tick(100);
  EXPECT_EQ(world.answers.size(), 2U) << "no other command of the stream is decided";
  EXPECT_EQ(world.rows_of(view::Index::in_flight), 1U) << "recovery would find the open turn";
  world.activator->closed = false;
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 3; }));
  world.settle();
  const auto headers = world.headers(stream);
  ASSERT_EQ(headers.size(), 3U);
  EXPECT_TRUE(headers[0].unanswered);
  EXPECT_EQ(headers[1].continues, 1U);
  EXPECT_FALSE(headers[1].unanswered);
  EXPECT_EQ(headers[2].continues, 0U);
  EXPECT_EQ(world.set->counters().late, 1U);
  EXPECT_EQ(world.rows_of(view::Index::in_flight), 0U);
}

// Found by simulation: a record that closes late while the turns before it are being read belongs to them.
TEST(Activation, ARebuildThatIsOvertakenByItsBatchIsShownTheWholeTurn) {
  World world(1, {.partitions = 1, .activation_wait_us = 0, .evict_always = true});
  const auto stream = test_stream("a");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(world.call_now(stream, test_command(Wake{std::to_string(i)})));
    world.settle();
    const auto& request = world.activator->seen.back();
    ASSERT_EQ(request.turns.size(), request.head);
    EXPECT_EQ(events_of(request.turns.back())[0].text, std::to_string(i));
  }
  EXPECT_GT(world.set->counters().late, 0U);
}

TEST(Activation, AnUnansweredTurnGoesOnAfterACrash) {
  World world;
  world.activator->closed = true;
  const auto stream = test_stream("a");
  world.call("wake", stream, test_command(Wake{"go"}));
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 1; }));
  world.code = [](const core::ActivationRequest&) { return test_output({Add{"late", 10}}); };
  world.crash();
  world.settle();
  EXPECT_EQ(world.state_of(stream).sum, 10);
  const auto headers = world.headers(stream);
  ASSERT_EQ(headers.size(), 2U);
  EXPECT_EQ(headers[1].continues, 1U);
  world.code = nullptr;
  world.crash();
  world.settle();
  EXPECT_EQ(world.activator->activations, 0) << "answered once, it is not asked again";
}

// J2: every prefix is legal; the pieces follow each other and name the first.
TEST(Activation, OutputThatDoesNotFitIsCutIntoSeveralRecords) {
  World world;
  world.activator->code = [](const core::ActivationRequest&) {
    std::vector<TestCommand> parts;
    for (int i = 0; i < 10; ++i) parts.push_back(Add{"part" + std::to_string(i), 1, 200 * 1024});
    return test_output(std::move(parts));
  };
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Wake{"go"})));
  ASSERT_TRUE(world.call_now(stream, test_command(Add{"after", 1})));
  const auto headers = world.headers(stream);
  ASSERT_EQ(headers.size(), 6U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(headers[i].unanswered, i < 4) << i;
    EXPECT_EQ(headers[i].continues, i == 0 ? 0U : 1U) << i;
  }
  EXPECT_EQ(world.state_of(stream).sum, 11);
  EXPECT_EQ(world.set->counters().cut, 4U);
}

TEST(Activation, APieceThatFitsNowhereMakesTheStreamStuckAndACallIsRefused) {
  World world;
  world.activator->code = [](const core::ActivationRequest&) {
    return test_output({Add{"fits", 1}, Add{"huge", 1, 600 * 1024}});
  };
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(Wake{"go"})));
  EXPECT_EQ(world.state_of(stream).stuck, static_cast<int>(base::Code::record_too_large));
  EXPECT_EQ(world.call_now(stream, test_command(Add{"huge", 1, 600 * 1024})).error().code,
            base::Code::record_too_large);
}

TEST(Activation, AResultThatIsTooLargeFailsItsStepInsteadOfLosingIt) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(tests::Act{"p", "echo"})));
  ASSERT_TRUE(world.until([&] { return !world.dispatcher->submitted.empty(); }));
  world.dispatcher->finish(stream, world.dispatcher->submitted[0].second, std::string(600 * 1024, 'x'));
  world.settle();
  EXPECT_TRUE(world.state_of(stream).actions.empty());
}

TEST(Activation, AnErrorOrARefusedOutputParksTheStreamWithItsReason) {
  for (const bool error : {true, false}) {
    World world;
    world.activator->code = [error](const core::ActivationRequest&) -> base::Result<core::CommandPtr> {
      if (error) return base::fail(base::Code::non_determinism, "expected a, got b");
      return test_output({tests::Refuse{}});
    };
    const auto stream = test_stream("a");
    ASSERT_TRUE(world.call_now(stream, test_command(Wake{"go"})));
    EXPECT_EQ(world.state_of(stream).stuck,
              static_cast<int>(error ? base::Code::non_determinism : base::Code::invalid_argument));
    ASSERT_TRUE(world.call_now(stream, test_command(Add{"n", 1}))) << "a stuck stream takes commands";
  }
}

// J12: two parallel completions are two turns in two batches.
TEST(Activation, ABatchHasAtMostOneActivatedTurnOfAStream) {
  World world(1, {.partitions = 1});
  const auto stream = test_stream("a");
  for (int i = 0; i < 4; ++i) world.call("w", stream, test_command(Wake{std::to_string(i)}));
  ASSERT_TRUE(world.until([&] { return world.answers.size() == 4; }));
  EXPECT_EQ(world.headers(stream).size(), 4U);
  EXPECT_GE(world.gate->batches, 4U);
}

// J8: late, doubled and foreign completions change nothing.
TEST(Activation, AStaleCompletionIsDropped) {
  World world;
  const auto stream = test_stream("a");
  ASSERT_TRUE(world.call_now(stream, test_command(tests::Act{"p", "echo"})));
  ASSERT_TRUE(world.until([&] { return !world.dispatcher->submitted.empty(); }));
  core::Action action = world.dispatcher->submitted[0].second;
  world.dispatcher->finish(stream, action);
  world.dispatcher->finish(stream, action);
  action.token.counter += 1;
  world.dispatcher->finish(stream, action);
  world.settle();
  EXPECT_EQ(world.headers(stream).size(), 2U);
  EXPECT_EQ(world.set->counters().stale, 2U);
}

// J32: what the records say does not depend on what is cached.
TEST(Activation, EvictingEveryCoroutineGivesTheSameRecords) {
  std::vector<std::vector<codec::TurnHeader>> histories;
  for (const bool evict : {false, true}) {
    World world(1, {.partitions = 4, .max_resident = evict ? std::size_t{1} : 100, .evict_always = evict});
    world.activator->code = steps_in_a_row(5);
    for (const char* name : {"a", "b"}) {
      world.dispatcher->submitted.clear();
      run_steps(world, test_stream(name), 5);
      auto headers = world.headers(test_stream(name));
      for (auto& header : headers) header.previous = {};
      histories.push_back(std::move(headers));
    }
    if (evict) EXPECT_GT(world.set->counters().rebuilds, 10U);
  }
  EXPECT_EQ(histories[0], histories[2]);
  EXPECT_EQ(histories[1], histories[3]);
}

}  // namespace
}  // namespace sandglass::engine::shard
