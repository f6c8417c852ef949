#include "replay-tools/replay/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/run/state.h"
#include "replay-tools/replay/fields.h"
#include "tests/replay-tools/replay/history_fixture.h"

namespace sandglass::replay_tools::replay {
namespace {

std::string value_of(const Facts& facts, std::string_view path) {
  const auto found = std::ranges::find(facts, path, &Fact::path);
  return found == facts.end() ? "(none)" : found->value;
}

TEST(Timeline, FoldsARunToAnyRecord) {
  Histories histories;
  const core::StreamId stream = histories.sample("a");
  const auto timeline = Timeline::read(histories.reader, histories.kinds, stream);
  ASSERT_TRUE(timeline) << timeline.error().message;
  EXPECT_EQ(timeline->last(), 9u);
  EXPECT_FALSE(timeline->fault());
  EXPECT_EQ(value_of(timeline->facts_after(0), "status"), "none");
  EXPECT_EQ(value_of(timeline->facts_after(2), "steps/0/compile/activity"), "exec");
  EXPECT_EQ(value_of(timeline->facts_after(4), "steps/0/compile/attempt"), "2");
  EXPECT_EQ(value_of(timeline->facts_after(5), "steps/0/compile/activity"), "(none)");
  EXPECT_EQ(value_of(timeline->facts_after(6), "operations/0/pay/status"), "intended");
  EXPECT_EQ(value_of(timeline->facts_after(9), "status"), "completed");
}

TEST(Timeline, AStateReachedFromAKeptOneEqualsTheFoldFromTheStart) {
  Histories histories;
  const core::StreamId stream = core::StreamId::named(core::StreamKind::run, "long");
  histories.record(stream, {run::RunStarted{.workflow = "w"}});
  for (int i = 0; i < 200; ++i) {
    histories.record(stream, {run::TimerStarted{.path = "0/t" + std::to_string(i), .due_ms = i}});
    if (i % 3 == 0) histories.record(stream, {run::TimerElapsed{"0/t" + std::to_string(i)}});
  }
  const auto timeline = Timeline::read(histories.reader, histories.kinds, stream);
  ASSERT_TRUE(timeline);
  auto whole = histories.kind->initial();
  for (std::uint64_t seq = 1; seq <= timeline->last(); ++seq) {
    histories.kind->evolve(*whole, *timeline->turn(seq).events, 0, timeline->turn(seq).header.info());
    EXPECT_EQ(static_cast<const core::StateOf<run::State>&>(*timeline->state_after(seq)).value,
              static_cast<const core::StateOf<run::State>&>(*whole).value);
  }
}

TEST(Timeline, PayloadsAreReadWhereTheirReferencePoints) {
  Histories histories;
  const auto timeline = Timeline::read(histories.reader, histories.kinds, histories.sample("a"));
  ASSERT_TRUE(timeline);
  const auto payload = timeline->payload({.seq = 1, .slot = 0});
  ASSERT_TRUE(payload);
  EXPECT_EQ((*payload)->bytes, "{\"a\":123}");
  EXPECT_FALSE(timeline->payload({.seq = 1, .slot = 1}));
  EXPECT_FALSE(timeline->payload({.seq = 99, .slot = 0}));
}

TEST(Timeline, EndsBeforeADamagedRecordAndSaysWhy) {
  for (const bool bytes_damaged : {true, false}) {
    Histories histories;
    const core::StreamId stream = histories.sample("a");
    const std::string key = engine::view::record_key(stream, 5);
    const std::string other = engine::view::record_key(stream, 4);
    histories.disk.tamper(key, bytes_damaged ? std::string("\x01") : *histories.disk.get(other));
    const auto timeline = Timeline::read(histories.reader, histories.kinds, stream);
    ASSERT_TRUE(timeline);
    EXPECT_EQ(timeline->last(), 4u);
    ASSERT_TRUE(timeline->fault());
    EXPECT_NE(timeline->fault()->message.find("5"), std::string::npos);
  }
}

TEST(Timeline, AStreamThatIsNotThereIsNotFound) {
  Histories histories;
  const auto timeline =
      Timeline::read(histories.reader, histories.kinds, core::StreamId::named(core::StreamKind::run, "none"));
  ASSERT_FALSE(timeline);
  EXPECT_EQ(timeline.error().code, base::Code::not_found);
}

TEST(Facts, DifferencesNameWhatCameWentAndChanged) {
  const std::vector<Change> changes =
      difference({{"a", "1"}, {"c", "3"}, {"b", "2"}}, {{"d", "4"}, {"b", "0"}, {"a", "1"}});
  const std::vector<Change> expected = {{Change::Kind::changed, "b", "2", "0"},
                                        {Change::Kind::removed, "c", "3", ""},
                                        {Change::Kind::added, "d", "", "4"}};
  EXPECT_EQ(changes, expected);
}

/// Number of fields of an aggregate: the most initialisers that it takes.
struct Anything {
  template <class Type>
  operator Type() const;
};
template <class Aggregate, class... Fields>
constexpr std::size_t field_count() {
  if constexpr (requires { Aggregate{Fields{}..., Anything{}}; }) {
    return field_count<Aggregate, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}
/// Of these, how many fields.h has a name for.
template <class Aggregate>
std::size_t shown_count(const Aggregate& from) {
  std::size_t count = 0;
#define SG_COUNT_FIELD(field) \
  if constexpr (requires { from.field; }) ++count;
  SG_EACH_FIELD(SG_COUNT_FIELD)
#undef SG_COUNT_FIELD
  return count;
}

TEST(RunDescriber, KnowsEveryFieldOfEveryEventOfTheStateAndOfEveryMessage) {
  const auto check = []<class Aggregate>(std::type_identity<Aggregate>) {
    EXPECT_EQ(shown_count(Aggregate{}), field_count<Aggregate>()) << type_name<Aggregate>();
  };
  const auto check_all = [&]<class... Each>(std::type_identity<std::variant<Each...>>) {
    (check(std::type_identity<Each>{}), ...);
  };
  check_all(std::type_identity<run::AnyEvent>{});
  check_all(std::type_identity<core::AnyMessageBody>{});
  EXPECT_EQ(field_count<run::RunStarted>(), 8u);
  check(std::type_identity<run::State>{});
  check(std::type_identity<run::Step>{});
  check(std::type_identity<run::Operation>{});
  check(std::type_identity<run::Exchange>{});
  check(std::type_identity<run::Lease>{});
  check(std::type_identity<run::Child>{});
  check(std::type_identity<core::RunAsker>{});
  check(std::type_identity<run::UnreadSignal>{});
  check(std::type_identity<run::StepOptions>{});
  check(std::type_identity<run::OperationOptions>{});
  check(std::type_identity<run::StuckReport>{});
  check(std::type_identity<core::RetryPolicy>{});
}

TEST(RunDescriber, NamesAnEventByItsType) {
  core::Events<run::Event> batch;
  batch.items = {run::StepScheduled{.path = "0/a", .activity = "exec"}, run::RunCompleted{}};
  const auto shown = RunDescriber().events(batch);
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0].what.name, "StepScheduled");
  EXPECT_EQ(value_of(shown[0].what.fields, "activity"), "exec");
  EXPECT_TRUE(shown[0].marks.step);
  EXPECT_EQ(shown[1].what.name, "RunCompleted");
}

}  // namespace
}  // namespace sandglass::replay_tools::replay
