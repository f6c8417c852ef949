// Lists and counts of runs: chosen by a filter, page by page while runs come and change, each tenant its own.
#include "engine/api/run_list.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/run/view/run_view.h"
#include "engine/view/memory/view.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::api {
namespace {

namespace v1 = ::sandglass::v1;

constexpr std::uint16_t kPartitions = 4;

class RunList : public testing::Test {
 protected:
  /// As the projection of a run's records leaves it.
  void put(int number, run::RunStatus status, const std::string& tenant = "default") {
    const auto stream = core::StreamId::named(core::StreamKind::run, "run " + std::to_string(number));
    const std::uint16_t partition = view::partition_of(stream.bucket(), kPartitions);
    run::State state;
    state.status = status;
    state.workflow = number % 2 == 0 ? "even" : "odd";
    state.tenant = tenant;
    state.user = "ann";
    state.started_ms = 1000 + number;
    view::ViewChange change{run::view::run_row_key(partition, state.started_ms, stream),
                            run::view::encode_row(run::view::row_of(state))};
    disk_.sync(disk_.write(partition, {std::move(change)}));
  }

  /// As the projection of a record leaves it in which the run's workflow has said this.
  void say(int number, const std::string& json) {
    const auto stream = core::StreamId::named(core::StreamKind::run, "run " + std::to_string(number));
    const std::uint16_t partition = view::partition_of(stream.bucket(), kPartitions);
    run::State state;
    state.started_ms = 1000 + number;
    std::vector<view::ViewChange> changes;
    run::view::RunView::project_content(
        run::AttributesSet{"0/attributes#0", {.seq = 1, .slot = 0, .size = 1}},
        {std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, json})}, state, stream,
        partition, changes);
    EXPECT_FALSE(changes.empty()) << json;
    disk_.sync(disk_.write(partition, std::move(changes)));
  }

  base::Result<v1::ListRunsReply> page(const std::string& filter, const std::string& token = {},
                                       std::uint32_t size = 10) {
    v1::ListRunsRequest request;
    request.set_filter(filter);
    request.set_page_token(token);
    request.set_page_size(size);
    return list_runs(view_, kPartitions, caller_, request, damage_of_);
  }
  std::vector<std::int64_t> starts(const std::string& filter, std::uint32_t size = 3) {
    std::vector<std::int64_t> all;
    std::string token;
    do {
      const auto got = page(filter, token, size);
      EXPECT_TRUE(got) << got.error().message;
      if (!got) break;
      for (const auto& run : got->runs()) all.push_back(run.started_ms() - 1000);
      token = got->next_page_token();
    } while (!token.empty());
    return all;
  }
  std::uint64_t count(const std::string& filter) {
    v1::CountRunsRequest request;
    request.set_filter(filter);
    const auto reply = count_runs(view_, kPartitions, caller_, request, damage_of_);
    EXPECT_TRUE(reply && reply->next_page_token().empty());
    return reply ? reply->runs() : 0;
  }

  tests::support::SeededRandom random_{1};
  view::MemoryDisk disk_{random_};
  view::MemoryView view_{disk_, random_};
  identity::Caller caller_{.token_name = "t",
                           .tenant = "default",
                           .user = "ann",
                           .roles = static_cast<identity::Roles>(identity::Role::user)};
  DamageOf damage_of_;
};

TEST_F(RunList, GivesWhatTheFilterChoosesNewestFirst) {
  for (int i = 0; i < 20; ++i) put(i, i % 5 == 0 ? run::RunStatus::failed : run::RunStatus::completed);
  EXPECT_EQ(starts(R"(status = "failed")"), (std::vector<std::int64_t>{15, 10, 5, 0}));
  EXPECT_EQ(starts(R"(status = "failed" and workflow = "odd")"), (std::vector<std::int64_t>{15, 5}));
  EXPECT_EQ(starts(R"(started > "1970-01-01T00:00:01.003Z" and started <= "1970-01-01T00:00:01.006Z")"),
            (std::vector<std::int64_t>{6, 5, 4}));
  EXPECT_EQ(starts(R"(started < "1970-01-01")"), std::vector<std::int64_t>());
  EXPECT_EQ(starts(R"(started > "1970-01-01T00:00:03Z" and started < "1970-01-01T00:00:02Z")"),
            std::vector<std::int64_t>());
  EXPECT_EQ(count(R"(status = "failed")"), 4U);
  EXPECT_EQ(count(""), 20U);
  EXPECT_EQ(page("status = 1").error().code, base::Code::invalid_argument);
}

TEST_F(RunList, GoesOnAfterItsTokenWhileRunsComeAndChange) {
  for (int i = 0; i < 12; ++i) put(i, run::RunStatus::running);
  const auto first = page(R"(status = "running")", {}, 4);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->runs_size(), 4);
  for (int i = 100; i < 110; ++i) put(i, run::RunStatus::running);  // newer than the page: not in later ones
  put(8, run::RunStatus::completed);                                // given already
  put(5, run::RunStatus::completed);                                // not given yet
  std::set<std::int64_t> rest;
  std::string token = first->next_page_token();
  while (!token.empty()) {
    const auto more = page(R"(status = "running")", token, 4);
    ASSERT_TRUE(more);
    for (const auto& run : more->runs()) EXPECT_TRUE(rest.insert(run.started_ms() - 1000).second);
    token = more->next_page_token();
  }
  EXPECT_EQ(rest, (std::set<std::int64_t>{0, 1, 2, 3, 4, 6, 7}));
}

TEST_F(RunList, FindsRunsByTheirSearchAttributes) {
  for (int i = 0; i < 30; ++i) {
    put(i, i % 2 == 0 ? run::RunStatus::failed : run::RunStatus::completed, i == 12 ? "other" : "default");
    say(i, R"({"order":{"keyword":"A-)" + std::to_string(i % 6) + R"("},"n":{"integer":)" +
               std::to_string(i) + "}}");
  }
  put(30, run::RunStatus::failed);  // says nothing
  EXPECT_EQ(starts(R"(attributes.order = "A-0")"), (std::vector<std::int64_t>{24, 18, 6, 0}))
      << "12 is another's";
  EXPECT_EQ(
      starts(R"(attributes.order = "A-1" and attributes.n > 10 and started < "1970-01-01T00:00:01.020Z")"),
      (std::vector<std::int64_t>{19, 13}));
  EXPECT_EQ(starts(R"(attributes.n >= 27 and status = "failed")"), std::vector<std::int64_t>{28});
  EXPECT_EQ(starts("attributes.n in (3, 4.0, 99)"), (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(count(R"(attributes.order in ("A-1", "A-2"))"), 10U);
  EXPECT_EQ(count(R"(not attributes.order = "A-1")"), 25U);

  // What it said before does not find it any more, and what two values find comes once.
  say(1, R"({"order":{"keyword":"A-2"}})");
  EXPECT_EQ(starts(R"(attributes.order = "A-1")"), (std::vector<std::int64_t>{25, 19, 13, 7}));
  EXPECT_EQ(starts(R"(attributes.order in ("A-1", "A-2") and started < "1970-01-01T00:00:01.008Z")"),
            (std::vector<std::int64_t>{7, 2, 1}));
  const auto shown = page("attributes.n = 5");
  ASSERT_TRUE(shown);
  auto filled = *shown;
  ASSERT_TRUE(fill_heads(view_, filled));
  EXPECT_EQ(filled.runs(0).attributes(), R"({"order":{"keyword":"A-5"},"n":{"integer":5}})");
}

TEST_F(RunList, KeepsTenantsApart) {
  for (int i = 0; i < 6; ++i) put(i, run::RunStatus::failed, i % 2 == 0 ? "default" : "other");
  EXPECT_EQ(starts(R"(status = "failed")"), (std::vector<std::int64_t>{4, 2, 0}));
  EXPECT_EQ(starts(R"(tenant = "other")"), std::vector<std::int64_t>());
  EXPECT_EQ(count(R"(tenant = "other" or tenant = "default")"), 3U);
  caller_.roles = static_cast<identity::Roles>(identity::Role::admin);
  EXPECT_EQ(count(R"(tenant = "other")"), 3U);
}

TEST_F(RunList, ChoosesDamagedRunsAsStuck) {
  for (int i = 0; i < 3; ++i) put(i, run::RunStatus::running);
  const auto damaged = core::StreamId::named(core::StreamKind::run, "run 1");
  damage_of_ = [&](const core::StreamId& stream) {
    return stream == damaged ? std::optional(base::Error{base::Code::stream_damaged, "x"}) : std::nullopt;
  };
  EXPECT_EQ(starts(R"(status = "stuck" and code = 1109)"), std::vector<std::int64_t>{1});
  EXPECT_EQ(starts(R"(status = "running")"), (std::vector<std::int64_t>{2, 0}));
}

}  // namespace
}  // namespace sandglass::engine::api
