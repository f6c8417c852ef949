// Runs that start, stop, await and continue each other, by messages alone. RunBench does the replay check
// after each event.
#include <algorithm>
#include <deque>
#include <random>
#include <set>

#include "tests/support/run_bench.h"

namespace sandglass::tests {
namespace {

using base::Code;

const core::StreamId kSchedule = core::StreamId::named(core::StreamKind::schedule, "nightly");

/// Some runs, and the messages between them in the order in which they were sent. What goes to anybody else
/// is kept.
class Family {
 public:
  RunBench& bench(const core::StreamId& stream) {
    auto& made = benches_[stream];
    if (!made) {
      made = std::make_unique<RunBench>();
      made->stream = stream;
      made->digest_key = core::DigestKey("tenant key", stream.text());
    }
    return *made;
  }
  RunBench& root() { return bench(core::StreamId::named(core::StreamKind::run, "root")); }
  bool knows(const core::StreamId& stream) const { return benches_.contains(stream); }

  base::Status give(RunBench& bench, run::Command command) {
    const auto status = bench.give(std::move(command));
    for (core::Message& message : std::exchange(bench.messages, {})) sent.push_back(std::move(message));
    return status;
  }
  base::Status apply(RunBench& bench, std::vector<run::WorkflowCommand> commands) {
    return give(bench, run::ApplyActivation{.commands = std::move(commands)});
  }
  /// From outside, as a record of `source`.
  base::Status say(const core::StreamId& source, RunBench& target, std::string correlation,
                   core::MessageBody body, core::Payload payload = {}) {
    core::Message message;
    message.source = source;
    message.target = target.stream;
    message.correlation = std::move(correlation);
    message.body = std::move(body);
    message.payload = std::move(payload);
    return give(target, core::MessageReceived{std::move(message)});
  }
  bool deliver_one() {
    if (sent.empty()) return false;
    core::Message message = std::move(sent.front());
    sent.pop_front();
    if (message.target.kind != core::StreamKind::run) {
      outside.push_back(std::move(message));
    } else {
      (void)give(bench(message.target), core::MessageReceived{std::move(message)});
    }
    return true;
  }
  void settle() {
    while (deliver_one()) {
    }
  }

  std::deque<core::Message> sent;
  std::vector<core::Message> outside;

 private:
  std::map<core::StreamId, std::unique_ptr<RunBench>> benches_;
};

core::RunStartRequested start_of(std::string workflow = "w") {
  return {.workflow = std::move(workflow), .version = "1", .tenant = "t", .user = "u"};
}

run::FailRun failure(RunBench& bench, Code code, core::FailureSide side) {
  return {.code = code, .side = side, .details = bench.json(R"({"message":"it broke"})")};
}

/// A root with one child under "0/c#0", both running.
RunBench& with_child(Family& family, run::ClosePolicy policy = run::ClosePolicy::cancel) {
  EXPECT_TRUE(family.root().start());
  EXPECT_TRUE(
      family.apply(family.root(), {run::StartChild{"0/c#0", "w", "1", family.root().json("7"), policy}}));
  family.settle();
  return family.bench(run::child_id(family.root().state.effect_root, "0/c#0"));
}

// ---- a start by message

TEST(RunAsked, AnyStreamStartsARunAndHearsOfItsEnd) {
  Family family;
  RunBench& bench = family.root();
  ASSERT_TRUE(family.say(kSchedule, bench, "fire 1", start_of(), bench.json("1")));
  EXPECT_EQ(bench.state.status, run::RunStatus::running);
  EXPECT_TRUE(bench.activates);
  EXPECT_EQ(bench.state.workflow, "w");
  EXPECT_EQ(bench.state.user, "u");
  EXPECT_EQ(bench.state.history_root, bench.stream.text());
  ASSERT_TRUE(family.apply(bench, {run::CompleteRun{bench.json("\"done\"")}}));
  family.settle();
  ASSERT_EQ(family.outside.size(), 1U);
  const core::Message& told = family.outside[0];
  EXPECT_EQ(told.target, kSchedule);
  EXPECT_EQ(told.correlation, "fire 1");
  EXPECT_EQ(told.payload.slot->bytes, "\"done\"");
  const auto& ended = std::get<core::RunEnded>(told.body);
  EXPECT_EQ(ended.how, core::RunEnd::completed);
  EXPECT_EQ(ended.run, bench.stream);
  EXPECT_TRUE(told.closing);
}

TEST(RunAsked, TheSameStartAttachesAndAnotherOneIsRefusedClearly) {
  Family family;
  RunBench& bench = family.root();
  const core::StreamId other = core::StreamId::named(core::StreamKind::schedule, "other");
  ASSERT_TRUE(family.say(kSchedule, bench, "1", start_of(), bench.json("1")));
  ASSERT_TRUE(family.say(kSchedule, bench, "1", start_of(), bench.json("1")));
  ASSERT_TRUE(family.say(other, bench, "x", start_of(), bench.json("1")));
  EXPECT_EQ(bench.count<run::RunStarted>(), 1U);
  EXPECT_EQ(bench.count<run::RunAsked>(), 2U);  // each asker once
  // Another input, workflow, tenant; or none at all.
  auto stranger = start_of();
  stranger.tenant = "somebody else";
  ASSERT_TRUE(family.say(other, bench, "2", start_of(), bench.json("2")));
  ASSERT_TRUE(family.say(other, bench, "3", start_of("v"), bench.json("1")));
  ASSERT_TRUE(family.say(other, bench, "4", stranger, bench.json("1")));
  ASSERT_TRUE(family.say(other, family.bench(run::child_id("e", "p")), "5", start_of(""), bench.json("1")));
  family.settle();
  ASSERT_EQ(family.outside.size(), 4U);
  for (const core::Message& told : family.outside) {
    const auto& ended = std::get<core::RunEnded>(told.body);
    EXPECT_EQ(ended.how, core::RunEnd::refused);
    EXPECT_EQ(ended.code, told.correlation == "5" ? Code::invalid_argument : Code::run_exists);
    EXPECT_FALSE(ended.message.empty());
    EXPECT_EQ(told.target, other);
  }
  EXPECT_EQ(bench.count<run::RunAsked>(), 2U);
  // Both that asked are told, and who asks after the end is told too.
  family.outside.clear();
  ASSERT_TRUE(family.apply(bench, {failure(bench, Code::step_failed, core::FailureSide::platform)}));
  ASSERT_TRUE(family.say(other, bench, "late", start_of(), bench.json("1")));
  family.settle();
  ASSERT_EQ(family.outside.size(), 3U);
  for (const core::Message& told : family.outside) {
    const auto& ended = std::get<core::RunEnded>(told.body);
    EXPECT_EQ(ended.how, core::RunEnd::failed);
    EXPECT_EQ(ended.code, Code::step_failed);
    EXPECT_EQ(ended.side, core::FailureSide::platform);
    EXPECT_EQ(ended.result, bench.state.result);
    EXPECT_EQ(static_cast<bool>(told.payload), told.correlation != "late");
  }
}

TEST(RunAsked, NobodyButItsAskersStopsARun) {
  Family family;
  RunBench& bench = family.root();
  const core::StreamId stranger = core::StreamId::named(core::StreamKind::run, "stranger");
  ASSERT_TRUE(family.say(kSchedule, bench, "1", start_of(), bench.json("1")));
  EXPECT_FALSE(family.say(stranger, bench, "1", core::RunStopRequested{.terminate = true}));
  EXPECT_FALSE(family.say(stranger, bench, "", core::RunSignalled{"s"}, bench.json("1")));
  EXPECT_FALSE(family.say(stranger, bench, "", core::RunAwaited{{{stranger, "1"}}}));
  EXPECT_FALSE(bench.state.cancel_requested);
  ASSERT_TRUE(family.say(kSchedule, bench, "1", core::RunStopRequested{}));
  EXPECT_TRUE(bench.state.cancel_requested);
  ASSERT_TRUE(family.say(kSchedule, bench, "1", core::RunStopRequested{.terminate = true}));
  EXPECT_EQ(bench.state.status, run::RunStatus::terminated);
  EXPECT_TRUE(family.say(kSchedule, bench, "1", core::RunStopRequested{}));  // it has ended: nothing to do
}

// ---- children

TEST(RunChildren, AChildIsARunOfItsOwnAndItsEndComesBack) {
  for (const int way : {0, 1, 2, 3}) {
    SCOPED_TRACE(way);
    Family family;
    RunBench& child = with_child(family);
    RunBench& parent = family.root();
    EXPECT_EQ(child.state.tenant, "t");
    EXPECT_EQ(child.state.effect_root, child.stream.text());
    ASSERT_EQ(child.state.askers.size(), 1U);
    EXPECT_EQ(child.state.askers[0], (core::RunAsker{parent.stream, "0/c#0"}));
    if (way == 0) ASSERT_TRUE(family.apply(child, {run::CompleteRun{child.json("8")}}));
    if (way == 1)
      ASSERT_TRUE(family.apply(child, {failure(child, Code::step_timed_out, core::FailureSide::platform)}));
    if (way == 2) {
      ASSERT_TRUE(family.give(child, run::Cancel{"by hand"}));
      ASSERT_TRUE(family.apply(child, {failure(child, Code::cancelled, core::FailureSide::user)}));
    }
    if (way == 3) ASSERT_TRUE(family.give(child, run::Terminate{"enough"}));
    family.settle();
    const auto* ended = parent.last<run::ChildEnded>();
    ASSERT_NE(ended, nullptr);
    const std::array codes{Code::ok, Code::step_timed_out, Code::cancelled, Code::run_closed};
    EXPECT_EQ(static_cast<int>(ended->how), way);
    EXPECT_EQ(ended->code, codes[static_cast<std::size_t>(way)]);
    EXPECT_EQ(ended->side, way == 1 ? core::FailureSide::platform : core::FailureSide::user);
    EXPECT_FALSE(ended->result.empty());
    EXPECT_TRUE(parent.activates);
    EXPECT_TRUE(parent.state.children.empty());
  }
}

TEST(RunChildren, AParentThatIsStuckHearsToo) {
  Family family;
  RunBench& child = with_child(family);
  RunBench& parent = family.root();
  ASSERT_TRUE(
      family.give(parent, run::ApplyActivation{.commands = {}, .stuck = run::StuckReport{.message = "m"}}));
  ASSERT_TRUE(family.apply(child, {run::CompleteRun{child.json("8")}}));
  family.settle();
  EXPECT_EQ(parent.count<run::ChildEnded>(), 1U);
  EXPECT_FALSE(parent.activates);
  ASSERT_TRUE(family.give(parent, run::Resume{}));
  EXPECT_TRUE(parent.activates);
}

TEST(RunChildren, WhatBecomesOfAChildWhenItsParentEndsInWhicheverWay) {  // FR-67, FR-69
  for (const auto policy :
       {run::ClosePolicy::cancel, run::ClosePolicy::terminate, run::ClosePolicy::abandon}) {
    for (const int way : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(name_of(policy)) + " " + std::to_string(way));
      Family family;
      RunBench& child = with_child(family, policy);
      RunBench& parent = family.root();
      if (way == 0) ASSERT_TRUE(family.apply(parent, {run::CompleteRun{}}));
      if (way == 1)
        ASSERT_TRUE(family.apply(parent, {failure(parent, Code::step_failed, core::FailureSide::user)}));
      if (way == 2) {
        ASSERT_TRUE(family.give(parent, run::Cancel{"stop"}));
        ASSERT_TRUE(family.apply(parent, {failure(parent, Code::cancelled, core::FailureSide::user)}));
      }
      if (way == 3) ASSERT_TRUE(family.give(parent, run::Terminate{"enough"}));
      EXPECT_TRUE(parent.state.children.empty());
      family.settle();
      EXPECT_EQ(child.state.cancel_requested, policy == run::ClosePolicy::cancel);
      EXPECT_EQ(child.state.status,
                policy == run::ClosePolicy::terminate ? run::RunStatus::terminated : run::RunStatus::running);
      // Its end comes to a parent that is gone, and changes nothing there.
      if (child.state.open()) ASSERT_TRUE(family.apply(child, {run::CompleteRun{}}));
      family.settle();
      EXPECT_EQ(parent.count<run::ChildEnded>(), 0U);
    }
  }
}

TEST(RunChildren, ACancelledChildIsToldOnceAndItsEndStillComes) {  // FR-70: also before it was started
  Family family;
  RunBench& parent = family.root();
  ASSERT_TRUE(parent.start());
  ASSERT_TRUE(family.apply(
      parent, {run::StartChild{"0/c#0", "w", "1", parent.json("7")}, run::CancelChild{"0/c#0"}}));
  ASSERT_TRUE(family.apply(parent, {run::CancelChild{"0/c#0"}}));
  family.settle();
  RunBench& child = family.bench(run::child_id(parent.state.effect_root, "0/c#0"));
  EXPECT_EQ(child.count<run::CancelRequested>(), 1U);
  ASSERT_TRUE(family.apply(child, {failure(child, Code::cancelled, core::FailureSide::user)}));
  family.settle();
  EXPECT_EQ(parent.last<run::ChildEnded>()->how, core::RunEnd::cancelled);
  ASSERT_TRUE(family.apply(parent, {run::CancelChild{"0/c#0"}}));  // it has ended meanwhile: no error
  EXPECT_TRUE(family.sent.empty());
  EXPECT_EQ(parent.state.status, run::RunStatus::running);
}

TEST(RunChildren, AnIdThatIsTakenEndsTheChildAsRefused) {
  Family family;
  RunBench& parent = family.root();
  ASSERT_TRUE(parent.start());
  RunBench& taken = family.bench(run::child_id(parent.state.effect_root, "0/c#0"));
  ASSERT_TRUE(taken.start("{\"other\":1}"));
  ASSERT_TRUE(family.apply(
      parent, {run::StartChild{"0/c#0", "w", "1", parent.json("7")}, run::CancelChild{"0/c#0"}}));
  family.settle();
  EXPECT_EQ(parent.last<run::ChildEnded>()->how, core::RunEnd::refused);
  EXPECT_EQ(parent.last<run::ChildEnded>()->code, Code::run_exists);
  EXPECT_FALSE(taken.state.cancel_requested);
}

TEST(RunChildren, TheIdFollowsFromEffectRootAndPath) {  // J17
  EXPECT_EQ(run::child_id("root", "0/c#0"), run::child_id("root", "0/c#0"));
  EXPECT_NE(run::child_id("root", "0/c#0"), run::child_id("root", "0/c#1"));
  EXPECT_NE(run::child_id("root", "0/c#0"), run::child_id("fork", "0/c#0"));
  EXPECT_NE(run::child_id("root", "0/c#0"),
            run::successor_id(core::StreamId::named(core::StreamKind::run, "root")));
}

// ---- continued runs

std::vector<run::CarriedSignal> unread_of(RunBench& bench,
                                          const std::map<std::uint64_t, std::string>& texts) {
  std::vector<run::CarriedSignal> signals;
  for (const auto& [number, text] : texts) {
    signals.push_back({number, bench.state.signals.at(number).name, bench.json(text)});
  }
  return signals;
}

TEST(RunContinued, TheSuccessorHasTheInputAllUnreadSignalsInOrderAndWhoeverWaits) {  // FR-62
  Family family;
  RunBench& first = with_child(family);
  const core::StreamId second_id = run::successor_id(first.stream);
  for (int i = 1; i <= 4; ++i)
    ASSERT_TRUE(family.give(first, run::Signal{"s", first.json(std::to_string(i))}));
  ASSERT_TRUE(family.apply(first, {run::TakeSignal{"0/s#0", 2}}));
  ASSERT_TRUE(family.apply(first, {run::ContinueAsNew{"2", first.json("\"next\""),
                                                      unread_of(first, {{1, "1"}, {3, "3"}, {4, "4"}})}}));
  EXPECT_EQ(first.state.status, run::RunStatus::continued);
  EXPECT_EQ(first.state.successor, second_id);
  // Before the successor has heard anything, a signal, a cancel request and an asker come for the first one.
  ASSERT_TRUE(family.give(first, run::Signal{"s", first.json("5")}));
  ASSERT_TRUE(family.say(kSchedule, first, "fire", start_of(), family.root().json("7")));
  ASSERT_TRUE(family.give(first, run::Cancel{"stop"}));
  family.settle();
  RunBench& second = family.bench(second_id);
  EXPECT_EQ(second.state.status, run::RunStatus::running);
  EXPECT_EQ(second.state.version, "2");
  EXPECT_EQ(second.state.history_root, second_id.text());  // J17: new roots
  EXPECT_EQ(second.state.effect_root, second_id.text());
  EXPECT_EQ(second.state.continues, first.stream);
  ASSERT_EQ(second.state.signals.size(), 4U);
  std::uint64_t expected = 1;
  for (const auto& [number, signal] : second.state.signals) EXPECT_EQ(number, expected++);
  EXPECT_TRUE(second.state.cancel_requested);
  EXPECT_EQ(first.count<run::RunPassedOn>(), 3U);
  EXPECT_EQ(family.root().count<run::ChildEnded>(), 0U);
  // The parent's child and the schedule's run is the last one of the chain.
  ASSERT_TRUE(family.apply(second, {run::CompleteRun{second.json("\"end\"")}}));
  family.settle();
  ASSERT_EQ(family.root().count<run::ChildEnded>(), 1U);
  EXPECT_EQ(family.root().last<run::ChildEnded>()->run, second_id);
  ASSERT_EQ(family.outside.size(), 1U);
  EXPECT_EQ(family.outside[0].correlation, "fire");
  EXPECT_FALSE(family.give(first, run::Resume{}));
}

TEST(RunContinued, TheParentReachesTheLastOfTheChain) {
  Family family;
  RunBench* last = &with_child(family, run::ClosePolicy::terminate);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(family.apply(*last, {run::ContinueAsNew{"1", last->json(std::to_string(i)), {}}}));
    if (i % 2 == 0) family.settle();
    last = &family.bench(run::successor_id(last->stream));
    if (i % 2 == 1) family.settle();
    if (last->state.status == run::RunStatus::none) family.settle();
  }
  ASSERT_TRUE(family.apply(family.root(), {run::CancelChild{"0/c#0"}}));
  family.settle();
  EXPECT_TRUE(last->state.cancel_requested);
  ASSERT_TRUE(family.give(family.root(), run::Terminate{"enough"}));
  family.settle();
  EXPECT_EQ(last->state.status, run::RunStatus::terminated);
}

TEST(RunContinued, ItIsRefusedWhileAnOperationIsOpenOrASignalWouldBeLost) {  // J17
  {
    Family family;
    RunBench& bench = family.root();
    ASSERT_TRUE(bench.start());
    ASSERT_TRUE(family.apply(bench, {run::ScheduleOperation{"0/send#0", "http", bench.json("{}"), {}}}));
    ASSERT_TRUE(family.apply(bench, {run::ContinueAsNew{"1", bench.json("1"), {}}}));
    EXPECT_EQ(bench.state.status, run::RunStatus::stuck);
    EXPECT_TRUE(family.sent.empty());
  }
  Family family;
  RunBench& bench = family.root();
  ASSERT_TRUE(bench.start());
  ASSERT_TRUE(family.give(bench, run::Signal{"s", bench.json("1")}));
  ASSERT_TRUE(family.apply(bench, {run::ContinueAsNew{"1", bench.json("1"), {}}}));
  EXPECT_EQ(bench.state.status, run::RunStatus::stuck);
  EXPECT_TRUE(family.sent.empty());
}

TEST(RunContinued, ASuccessorWhoseIdIsTakenIsAnEndForWhoeverWaits) {
  Family family;
  RunBench& first = with_child(family);
  RunBench& taken = family.bench(run::successor_id(first.stream));
  ASSERT_TRUE(taken.start("\"mine\""));
  ASSERT_TRUE(family.give(first, run::Signal{"s", first.json("1")}));
  ASSERT_TRUE(family.apply(first, {run::ContinueAsNew{"1", first.json("1"), unread_of(first, {{1, "1"}})}}));
  ASSERT_TRUE(family.give(first, run::Terminate{"enough"}));
  family.settle();
  EXPECT_EQ(family.root().last<run::ChildEnded>()->how, core::RunEnd::refused);
  EXPECT_EQ(taken.state.status,
            run::RunStatus::running);  // another run is not touched by what came for this one
  EXPECT_TRUE(taken.state.signals.empty());
}

// ---- whole families at random

/// Random runs do random things to each other; messages of different pairs overtake each other at random.
class Play {
 public:
  explicit Play(std::uint32_t seed) : random_(seed) {
    EXPECT_TRUE(family_.root().start());
    runs_.insert(family_.root().stream);
  }

  void move() {
    RunBench& bench = any_run();
    const std::string path = "0/c#" + std::to_string(random_() % 3);
    switch (random_() % 12) {
      case 0:
      case 1:
        if (bench.state.open() && !bench.state.children.contains(path) &&
            !used_.contains({bench.stream, path})) {
          used_.insert({bench.stream, path});
          const auto policy = static_cast<run::ClosePolicy>(random_() % 3);
          (void)family_.apply(bench, {run::StartChild{path, "w", "1", bench.json("1"), policy}});
        }
        break;
      case 2:
        (void)family_.apply(bench, {run::CancelChild{path}});
        break;
      case 3:
        continue_one(bench);
        break;
      case 4:
        if (random_() % 3 == 0) (void)family_.give(bench, run::Terminate{"by hand"});
        break;
      case 5:
        (void)family_.give(bench, run::Cancel{"by hand"});
        break;
      case 6:
      case 7:
        signal(bench);
        break;
      case 8:
        finish(bench, random_() % 3);
        break;
      default:
        deliver();
    }
  }

  void check_end() {
    while (!family_.sent.empty()) deliver();
    for (const core::StreamId& stream : runs_) {
      const RunBench& bench = family_.bench(stream);
      const run::State& state = bench.state;
      ASSERT_NE(state.status, run::RunStatus::stuck) << state.stuck.message;
      // A child that is still awaited is still under way, as itself or as the last of its chain.
      for (const auto& [path, child] : state.children) {
        ASSERT_TRUE(last_of(child.run).state.open()) << path;
        ASSERT_FALSE(child.cancel_requested && !last_of(child.run).state.cancel_requested) << path;
      }
      ASSERT_LE(bench.count<run::ChildEnded>(), bench.count<run::ChildScheduled>());
      if (state.status != run::RunStatus::completed && state.status != run::RunStatus::failed) continue;
      for (const run::Event& event : bench.events) check_policy(bench, event);
    }
    // Each signal that was taken in stands in one run, the carried ones aside, unless that had ended.
    for (const auto& [digest, to] : signals_) {
      std::size_t stands = 0;
      for (const core::StreamId& stream : runs_) stands += received_and_kept(family_.bench(stream), digest);
      ASSERT_LE(stands, 1U);
      if (last_of(to).state.open()) ASSERT_EQ(stands, 1U);
    }
  }

  void finish_all() {
    for (bool open = true; std::exchange(open, false);) {
      for (const core::StreamId& stream : std::set(runs_)) {
        if (!family_.bench(stream).state.open()) continue;
        open = true;
        finish(family_.bench(stream), 0);
      }
      while (!family_.sent.empty()) deliver();
    }
    for (const core::StreamId& stream : runs_) {
      ASSERT_FALSE(family_.bench(stream).state.open());
      ASSERT_TRUE(family_.bench(stream).state.children.empty());
    }
  }

 private:
  RunBench& any_run() {
    auto at = runs_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % runs_.size()));
    return family_.bench(*at);
  }
  RunBench& last_of(core::StreamId stream) {
    while (family_.bench(stream).state.status == run::RunStatus::continued) {
      stream = family_.bench(stream).state.successor;
    }
    return family_.bench(stream);
  }
  /// The oldest message of a random pair of streams.
  void deliver() {
    if (family_.sent.empty()) return;
    const auto drawn = family_.sent.begin() + static_cast<std::ptrdiff_t>(random_() % family_.sent.size());
    const auto oldest = std::ranges::find_if(family_.sent, [&](const core::Message& message) {
      return message.source == drawn->source && message.target == drawn->target;
    });
    std::rotate(family_.sent.begin(), oldest, std::next(oldest));
    runs_.insert(family_.sent.front().target);
    family_.deliver_one();
  }
  void signal(RunBench& bench) {
    const auto payload = bench.json(std::to_string(signals_.size()));
    if (family_.give(bench, run::Signal{"s", payload})) signals_.emplace(payload.digest, bench.stream);
  }
  void continue_one(RunBench& bench) {
    if (!bench.state.open() || !bench.state.children.empty()) return;
    std::vector<run::CarriedSignal> signals;
    for (const auto& [number, unread] : bench.state.signals) {
      core::Payload payload = bench.json("carried");
      payload.digest = unread.payload.digest;
      signals.push_back({number, unread.name, std::move(payload)});
      carried_.emplace(bench.stream, unread.payload.digest);
    }
    ASSERT_TRUE(family_.apply(bench, {run::ContinueAsNew{"1", bench.json("2"), std::move(signals)}}));
    ASSERT_EQ(bench.state.status, run::RunStatus::continued);
  }
  void finish(RunBench& bench, std::uint32_t way) {
    if (!bench.state.open()) return;
    for (const auto& [path, child] : bench.state.children) open_at_end_[bench.stream].insert(path);
    if (way == 0) {
      (void)family_.apply(bench, {run::CompleteRun{bench.json("3")}});
    } else {
      const Code code = way == 1 ? Code::cancelled : Code::step_failed;
      (void)family_.apply(bench, {run::FailRun{.code = code, .details = bench.json("{}")}});
    }
  }
  /// What was open when its parent ended has been stopped as its policy says.
  void check_policy(const RunBench& parent, const run::Event& event) {
    const auto* started = std::get_if<run::ChildScheduled>(&event);
    if (started == nullptr || !open_at_end_[parent.stream].contains(started->path)) return;
    const run::State& child = last_of(started->run).state;
    if (started->policy == run::ClosePolicy::terminate) ASSERT_FALSE(child.open());
    if (started->policy == run::ClosePolicy::cancel) ASSERT_TRUE(child.cancel_requested || !child.open());
  }
  std::size_t received_and_kept(const RunBench& bench, const core::ContentDigest& digest) const {
    std::size_t count = 0;
    for (const run::Event& event : bench.events) {
      const auto* received = std::get_if<run::SignalReceived>(&event);
      count += received != nullptr && received->payload.digest == digest;
    }
    return count - carried_.count({bench.stream, digest});
  }

  struct ByBytes {
    bool operator()(const core::ContentDigest& a, const core::ContentDigest& b) const {
      return a.hash.bytes < b.hash.bytes;
    }
    bool operator()(const std::pair<core::StreamId, core::ContentDigest>& a,
                    const std::pair<core::StreamId, core::ContentDigest>& b) const {
      return std::tie(a.first, a.second.hash.bytes) < std::tie(b.first, b.second.hash.bytes);
    }
  };

  std::mt19937 random_;
  Family family_;
  std::set<core::StreamId> runs_;
  std::set<std::pair<core::StreamId, std::string>> used_;
  std::map<core::StreamId, std::set<std::string>> open_at_end_;
  std::map<core::ContentDigest, core::StreamId, ByBytes> signals_;  // to which run
  std::set<std::pair<core::StreamId, core::ContentDigest>, ByBytes> carried_;
};

TEST(RunKin, RandomFamiliesKeepTheirWord) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Play play(seed);
    for (int i = 0; i < 150; ++i) play.move();
    ASSERT_NO_FATAL_FAILURE(play.check_end());
    ASSERT_NO_FATAL_FAILURE(play.finish_all());
  }
}

}  // namespace
}  // namespace sandglass::tests
