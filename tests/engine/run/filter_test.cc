// The filter language: what it chooses, and what is wrong with what it does not take.
#include "engine/run/view/filter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/run/view/attributes.h"

namespace sandglass::engine::run::view {
namespace {

constexpr std::int64_t kNov1 = 1'793'491'200'000;  // 2026-11-01T00:00:00Z
const core::StreamId kRun = core::StreamId::named(core::StreamKind::run, "r");

RunRow row() {
  return {.status = RunStatus::failed,
          .phase = Phase::done,
          .workflow = "agent",
          .version = "1",
          .tenant = "default",
          .user = "ann \"the\" \\ one",
          .session = "s1",
          .started_ms = kNov1 + 500,
          .closed_ms = kNov1 + 90'000,
          .code = base::Code::step_failed,
          .questions = 2};
}

bool chooses(const std::string& text, const RunRow& run = row()) {
  const auto filter = Filter::parse(text);
  EXPECT_TRUE(filter) << text << ": " << (filter ? "" : filter.error().message);
  return filter && filter->chooses(kRun, run);
}

TEST(Filter, ComparesEveryFieldWithItsOwnKindOfValue) {
  for (const char* text : {"",
                           "  ",
                           R"(status = "failed")",
                           R"(status != "stuck")",
                           R"(status in ("stuck","failed"))",
                           R"(workflow = "agent")",
                           R"(workflow starts_with "ag")",
                           R"(workflow < "b" and workflow >= "agent")",
                           R"(version = "1")",
                           R"(tenant = "default")",
                           R"(session = "s1")",
                           R"(user = "ann \"the\" \\ one")",
                           R"(id starts_with "run-")",
                           R"(started = "2026-11-01T00:00:00.5Z")",
                           R"(started > "2026-11-01")",
                           R"(started >= "2026-11-01T01:00:00+01:00")",
                           R"(started < "2026-10-31T23:00:01-01:00")",
                           R"(closed > "2026-11-01T00:01Z" and closed <= "2026-11-01T00:01:30Z")",
                           "code = 1211",
                           "code in (1, 1211)",
                           "questions > 1",
                           "questions >= -3",
                           "cancel_asked = false",
                           "cancel_asked != true"}) {
    EXPECT_TRUE(chooses(text)) << text;
  }
  for (const char* text : {R"(status = "stuck")", R"(status in ("running"))",
                           R"(workflow starts_with "agents")", R"(started > "2026-11-01T00:00:00.500Z")",
                           R"(started < "2026-11-01")", "code = 1", "questions < 2", "cancel_asked = true"}) {
    EXPECT_FALSE(chooses(text)) << text;
  }
}

TEST(Filter, AndBindsMoreThanOrAndNotMoreThanBoth) {
  EXPECT_TRUE(chooses(R"(status = "failed" or status = "stuck" and workflow = "none")"));
  EXPECT_FALSE(chooses(R"((status = "failed" or status = "stuck") and workflow = "none")"));
  EXPECT_TRUE(chooses(R"(not status = "stuck" and workflow = "agent")"));
  EXPECT_FALSE(chooses(R"(not (status = "failed" and workflow = "agent"))"));
  EXPECT_TRUE(chooses(R"(not not status = "failed")"));
}

TEST(Filter, OfAnOpenRunsEndChoosesNothing) {
  RunRow open = row();
  open.closed_ms = 0;
  EXPECT_FALSE(chooses(R"(closed > "1970-01-01")", open));
  EXPECT_FALSE(chooses(R"(closed != "1970-01-01")", open));
  EXPECT_TRUE(chooses(R"(not closed > "1970-01-01")", open));
}

TEST(Filter, SaysWithinWhichTimeItsRunsWereStarted) {
  const auto within = [](const char* text) { return Filter::parse(text)->started_within(); };
  EXPECT_EQ(within(R"(started >= "2026-11-01" and status = "failed")").first_ms, kNov1);
  EXPECT_EQ(within(R"(started > "2026-11-01" and (started < "2026-11-02"))").first_ms, kNov1 + 1);
  EXPECT_EQ(within(R"(started > "2026-11-01" and (started < "2026-11-02"))").last_ms, kNov1 + 86'400'000);
  EXPECT_EQ(within(R"(started <= "2026-11-01")").last_ms, kNov1 + 1);
  EXPECT_EQ(within(R"(started = "2026-11-01")").first_ms, kNov1);
  for (const char* open : {R"(started > "2026-11-01" or status = "failed")", R"(not started > "2026-11-01")",
                           R"(started != "2026-11-01")", R"(closed > "2026-11-01")", ""}) {
    EXPECT_EQ(within(open).first_ms, 0) << open;
    EXPECT_EQ(within(open).last_ms, StartedWithin().last_ms) << open;
  }
}

TEST(Filter, ThatIsWrongNamesTheColumnAndWhatShouldBeThere) {
  struct Wrong {
    const char* text;
    int column;
    const char* words;
  };
  for (const Wrong& wrong : {
           Wrong{R"(state = "failed")", 1, "no field \"state\"; there are id, status"},
           Wrong{R"(status = failed)", 10, "double quotes"},
           Wrong{R"(status = "faild")", 10, "there are running"},
           Wrong{R"(status "failed")", 8, "starts_with or in"},
           Wrong{R"(status < "failed")", 8, "="},
           Wrong{R"(status = "failed" workflow = "x")", 19, "and"},
           Wrong{R"(status = "failed)", 10, "no end"},
           Wrong{R"(user = "äöü" and)", 17, "a field is missing"},
           Wrong{R"(user = "äöü" und)", 14, "\"and\" or \"or\""},
           Wrong{R"(started > "yesterday")", 11, "2026-11-01"},
           Wrong{R"(started > "2026-02-30")", 11, "2026-11-01"},
           Wrong{R"(started > "2026-11-01T24:00:00Z")", 11, "2026-11-01"},
           Wrong{R"(started > "2026-11-01T00:01")", 11, "2026-11-01"},
           Wrong{"started > 12", 11, "2026-11-01"},
           Wrong{R"(code = "1211")", 8, "whole number"},
           Wrong{"code = 12x", 8, "whole number"},
           Wrong{"code = 99999999999999999999", 8, "whole number"},
           Wrong{"code starts_with 1", 6, "no text"},
           Wrong{"cancel_asked > true", 14, "neither"},
           Wrong{"cancel_asked = 1", 16, "true or false"},
           Wrong{R"(status in "failed")", 11, "list"},
           Wrong{R"(status in ("failed")", 20, "missing in the list"},
           Wrong{R"((status = "failed")", 19, "\")\" is missing"},
           Wrong{R"(user = "a\n")", 11, "\\"},
           Wrong{"not", 4, "a field is missing"},
       }) {
    const auto filter = Filter::parse(wrong.text);
    ASSERT_FALSE(filter) << wrong.text;
    EXPECT_EQ(filter.error().code, base::Code::invalid_argument);
    const std::string& message = filter.error().message;
    EXPECT_TRUE(message.starts_with("filter, column " + std::to_string(wrong.column) + ": "))
        << wrong.text << " → " << message;
    EXPECT_NE(message.find(wrong.words), std::string::npos) << wrong.text << " → " << message;
  }
}

bool chooses_with(const std::string& text, const Attributes& attributes) {
  const auto filter = Filter::parse(text);
  EXPECT_TRUE(filter) << text << ": " << (filter ? "" : filter.error().message);
  return filter && filter->chooses(kRun, row(), [&]() -> const Attributes& { return attributes; });
}

TEST(Filter, ReadsAnAttributesValueAsItsKindSays) {
  const Attributes attributes = {{"order", "A-17"},
                                 {"amount", std::int64_t{12}},
                                 {"share", 0.5},
                                 {"due", AttributeTime{kNov1}},
                                 {"paid", true}};
  for (const char* text :
       {R"(attributes.order = "A-17")", R"(attributes.order starts_with "A-")",
        R"(attributes.order in ("x", "A-17"))", R"(attributes.order != "B")", "attributes.amount = 12",
        "attributes.amount = 12.0", "attributes.amount > 11.5", "attributes.share < 1",
        "attributes.share = 5e-1", R"(attributes.due = "2026-11-01T01:00:00+01:00")",
        R"(attributes.due < "2026-11-02")", "attributes.paid = true", "attributes.paid != false",
        R"(not attributes.nothing = "x" and attributes.order = "A-17")"}) {
    EXPECT_TRUE(chooses_with(text, attributes)) << text;
  }
  for (const char* text :
       {R"(attributes.order = "a-17")", R"(attributes.nothing = "x")", R"(attributes.nothing != "x")",
        R"(attributes.amount = "12")", R"(attributes.due = "soon")", "attributes.paid = 1",
        "attributes.order = 17", R"(attributes.amount starts_with "1")"}) {
    EXPECT_FALSE(chooses_with(text, attributes)) << text;
  }
  for (const char* wrong : {"attributes.a-b = 1", "attributes. = 1", "attributes.x starts_with 1",
                            "attributes.x = y", "attributes.x = 1e999", "attributes.x = 1.2.3"}) {
    EXPECT_FALSE(Filter::parse(wrong)) << wrong;
  }
}

TEST(Filter, NamesTheMatchesOfWhatItChooses) {
  const auto matches = [](const char* text) { return Filter::parse(text)->matches(); };
  const auto of = [](std::vector<std::uint32_t> all) {
    std::ranges::sort(all);
    return all;
  };
  EXPECT_EQ(matches(R"(attributes.order = "A-17" and status = "failed")"), of({match_of("order", "A-17")}));
  EXPECT_EQ(matches(R"(attributes.order in ("a", "b"))"),
            of({match_of("order", "a"), match_of("order", "b")}));
  EXPECT_EQ(matches("attributes.n = 3"), of({match_of("n", std::int64_t{3}), match_of("n", 3.0)}));
  EXPECT_EQ(matches("attributes.n = 3.0"), of({match_of("n", std::int64_t{3}), match_of("n", 3.0)}));
  EXPECT_EQ(matches(R"(attributes.due = "2026-11-01")"),
            of({match_of("due", "2026-11-01"), match_of("due", AttributeTime{kNov1})}));
  for (const char* open :
       {R"(attributes.order = "a" or status = "failed")", R"(not attributes.order = "a")",
        R"(attributes.order != "a")", R"(attributes.order > "a")", "status = \"failed\"", ""}) {
    EXPECT_FALSE(matches(open)) << open;
  }
}

// A match row stands where its value, then its start, put it, and tells both.
TEST(Matches, AreInTheOrderOfTheirRunsStarts) {
  const auto one = match_of("order", "A-17");
  EXPECT_NE(one, match_of("order", "A-18"));
  EXPECT_NE(match_of("n", std::int64_t{1}), match_of("n", true)) << "of another kind";
  EXPECT_EQ(match_of("n", 0.0), match_of("n", -0.0));
  std::string last;
  for (const std::int64_t started :
       {std::int64_t{0}, std::int64_t{1}, kNov1, kNov1 + 1, std::int64_t{1} << 41}) {
    const std::string key = match_key(3, one, started, kRun);
    EXPECT_LT(last, key);
    last = key;
    const auto parsed = tables::parse_index_key(key);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(started_of(*parsed), started);
    EXPECT_EQ(parsed->stream, kRun.bytes());
    const auto range = match_rows(3, one, started, started + 1);
    EXPECT_TRUE(range.first <= key && key < range.last);
    const auto all = match_rows(3, one, 0, StartedWithin().last_ms);
    EXPECT_TRUE(all.first <= key && key < all.last);
    EXPECT_FALSE(all.first <= match_key(3, one + 1, started, kRun) &&
                 match_key(3, one + 1, started, kRun) < all.last);
    EXPECT_EQ(started_of_run_row(tables::parse_index_key(run_row_key(3, started, kRun))->sort), started);
  }
}

TEST(Filter, IsBounded) {
  EXPECT_FALSE(Filter::parse(std::string(kLongestFilter + 1, ' ')));
  EXPECT_FALSE(Filter::parse(std::string(2000, '(') + "code = 1" + std::string(2000, ')')));
  std::string nots;
  for (int i = 0; i < 900; ++i) nots += "not ";
  EXPECT_FALSE(Filter::parse(nots + "code = 1"));
  std::string list = "code in (1";
  for (int i = 0; i < 300; ++i) list += ",1";
  EXPECT_FALSE(Filter::parse(list + ")"));
}

}  // namespace
}  // namespace sandglass::engine::run::view
