#include "sandbox-runtime/manager/manager.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/blob/memory/store.h"
#include "engine/codec/tree.h"
#include "sandbox-runtime/manager/answers.h"
#include "tests/support/memory_provider.h"

namespace sandglass::sandbox_runtime::manager {
namespace {

using base::Code;
using core::Outcome;
using tests::MemoryProvider;

struct InlineRunner final : base::TaskRunner {
  void run(std::move_only_function<void()> closure) override { closure(); }
};
struct StillClock final : base::Clock {
  base::WallMs wall_ms() const override { return 5000; }
  base::MonotonicNs monotonic_ns() const override { return 0; }
};

struct Manager : testing::Test {
  Manager() {
    register_sandbox_activities(
        registry, std::make_shared<const ManagerParts>(
                      ManagerParts{memory, blobs, runner, clock, {{"default", provider::Template{}}}}));
    call("sandbox.create", {{"template", "default"}, {"sandbox", "sb-1"}, {"token", 3U}, {"ttl_ms", 1000U}});
  }
  core::ActivityResult call(const std::string& name, Json input, const std::string& key = "k") {
    core::ActivityCall made{.name = name, .path = "p", .key = key, .start_to_close_ms = 60'000};
    if (!input.contains("token")) {
      input["sandbox"] = input.value("sandbox", "sb-1");
      input["fence"] = input.value("fence", 3U);
      input["tenant"] = "t";
    }
    made.input = std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, input.dump()});
    std::optional<core::ActivityResult> answered;
    registry.find(name)->start(std::move(made),
                               [&](core::ActivityResult result) { answered = std::move(result); });
    EXPECT_TRUE(answered) << name;
    return answered.value_or(core::ActivityResult{});
  }
  Json result(const core::ActivityResult& answered) {
    EXPECT_EQ(answered.outcome, Outcome::done) << answered.message;
    return Json::parse(answered.bytes);
  }
  std::string store_tree(const std::map<std::string, std::string>& files) {
    engine::codec::Tree tree;
    for (const auto& [path, content] : files) {
      tree.entries.push_back({.path = path, .size = content.size(), .digest = blobs.put("t", content)->hash});
    }
    return blobs.put("t", engine::codec::encode_tree(tree).value())->hash.hex();
  }

  MemoryProvider memory{[](MemoryProvider::Files& files, const provider::ExecRequest& request) {
    provider::ExecResult done{.exit_code = 0, .out = "ran " + request.argv[0] + " in " + request.cwd + "\n"};
    if (request.argv[0] == "loud") done.out = std::string(100'000, 'x') + "end";
    if (request.argv[0] == "zeros") done.out = done.err = std::string(100'000, '\0');
    if (request.argv[0] == "edit") files["project/a.txt"].content = "one\nTWO\n";
    if (request.argv[0] == "fail") done.exit_code = 7;
    return done;
  }};
  engine::blob::MemoryBlobStore blobs;
  InlineRunner runner;
  StillClock clock;
  core::ActivityRegistry registry;
};

TEST_F(Manager, CreatesRenewsAndDestroysForThePool) {
  EXPECT_EQ(memory.sandboxes.at("sb-1").fence, 3U);
  EXPECT_EQ(memory.sandboxes.at("sb-1").expires_ms, 1000);
  EXPECT_EQ(call("sandbox.renew", {{"sandbox", "sb-1"}, {"token", 3U}, {"ttl_ms", 2000U}}).outcome,
            Outcome::done);
  EXPECT_EQ(memory.sandboxes.at("sb-1").expires_ms, 2000);
  EXPECT_EQ(call("sandbox.destroy", {{"sandbox", "sb-1"}, {"token", 3U}}).outcome, Outcome::done);
  EXPECT_EQ(call("sandbox.destroy", {{"sandbox", "sb-1"}, {"token", 3U}}).outcome, Outcome::done)
      << "again is fine";
  EXPECT_EQ(call("sandbox.renew", {{"sandbox", "sb-1"}, {"token", 3U}}).code, Code::sandbox_lost);
}

TEST_F(Manager, ACreationThatCannotHaveHappenedIsNotDoneAndAnyOtherIsUnknown) {
  EXPECT_EQ(call("sandbox.create", {{"template", "none"}, {"sandbox", "x"}, {"token", 1U}}).outcome,
            Outcome::not_done);
  memory.create_error = {Code::limit_unenforceable, "memory: no cgroup"};
  EXPECT_EQ(call("sandbox.create", {{"template", "default"}, {"sandbox", "x"}, {"token", 1U}}).outcome,
            Outcome::not_done);
  memory.create_error = {Code::host_unreachable, "?"};
  const auto unknown = call("sandbox.create", {{"template", "default"}, {"sandbox", "x"}, {"token", 1U}});
  EXPECT_EQ(unknown.outcome, Outcome::unknown);
  EXPECT_FALSE(unknown.retryable);
}

TEST_F(Manager, ASandboxGoesOnlyWhereTheOperatorLetsTasksGo) {  // N2, ADV-C5
  const Json asked = {{{"host", "registry.example.com"}, {"ports", {443}}, {"methods", Json::array()}}};
  EXPECT_EQ(call("sandbox.network", {{"allow", asked}}).code, Code::policy_denied) << "nothing is permitted";
  core::ActivityRegistry permitting;
  std::vector<std::string> checked;
  register_sandbox_activities(
      permitting, std::make_shared<const ManagerParts>(ManagerParts{
                      memory, blobs, runner, clock, {}, [&](const provider::AllowedDestination& one) {
                        checked.push_back(one.host);
                        return one.host == "registry.example.com"
                                   ? base::Status()
                                   : base::Status(base::fail(Code::policy_denied, "not that one"));
                      }}));
  std::swap(registry, permitting);
  EXPECT_EQ(result(call("sandbox.network", {{"allow", asked}}))["destinations"], 1);
  ASSERT_EQ(memory.sandboxes.at("sb-1").allow.size(), 1U);
  EXPECT_EQ(memory.sandboxes.at("sb-1").allow[0].ports, std::vector<std::uint32_t>{443});
  Json more = asked;
  more.push_back({{"host", "other.example.com"}});
  EXPECT_EQ(call("sandbox.network", {{"allow", more}}).code, Code::policy_denied);
  EXPECT_EQ(memory.sandboxes.at("sb-1").allow.size(), 1U) << "all or nothing";
  EXPECT_EQ(checked.back(), "other.example.com");
  for (const Json& bad : {Json("x"), Json({{"host", 1}}), Json::array({"x"}), Json::array({{{"port", 1}}}),
                          Json::array({{{"host", "a.b"}, {"ports", {-1}}}}),
                          Json::array({{{"host", "a.b"}, {"ports", {70000}}}}),
                          Json::array({{{"host", "a.b"}, {"ports", "80"}}}),
                          Json::array({{{"host", "a.b"}, {"methods", {1}}}})}) {
    EXPECT_EQ(call("sandbox.network", {{"allow", bad}}).code, Code::arguments_invalid) << bad.dump();
  }
  EXPECT_EQ(call("sandbox.network", Json::object()).code, Code::arguments_invalid);
}

TEST_F(Manager, ACommandsResultHasItsExitCodeAndAnExitCodeIsNoFailureOfTheStep) {
  const Json ok = result(call("sandbox.exec", {{"argv", {"ls"}}, {"cwd", "project"}}));
  EXPECT_EQ(ok["exit_code"], 0);
  EXPECT_EQ(ok["out"], "ran ls in project\n");
  EXPECT_EQ(result(call("sandbox.exec", {{"argv", {"fail"}}}, "k2"))["exit_code"], 7);
  EXPECT_EQ(call("sandbox.exec", {{"argv", "ls"}}).code, Code::arguments_invalid);
  EXPECT_EQ(call("sandbox.exec", {{"argv", {"ls"}}, {"cwd", 5}}).code, Code::arguments_invalid);
}

TEST_F(Manager, LongOutputIsShownByHeadAndTailAndKeptWholeAsABlob) {
  const Json loud = result(call("sandbox.exec", {{"argv", {"loud"}}}));
  const std::string out = loud["out"];
  EXPECT_LT(out.size(), 40'000U);
  EXPECT_TRUE(out.ends_with("end"));
  EXPECT_NE(out.find("bytes left out"), std::string::npos);
  EXPECT_TRUE(loud["truncated"]);
  const auto log = blobs.get("t", {*base::Hash256::from_hex(loud["log"].get<std::string>())});
  EXPECT_EQ(log->size(), 100'003U);
}

TEST_F(Manager, NoBytesOfASandboxMakeAResultTooLargeForARecord) {  // FR-140, ADV-B6, ADV-F17
  constexpr std::size_t kMostInRecord = 240 * 1024;
  const auto zeros = call("sandbox.exec", {{"argv", {"zeros"}}});
  EXPECT_LT(zeros.bytes.size(), kMostInRecord);
  EXPECT_TRUE(result(zeros)["truncated"]);
  EXPECT_EQ(result(zeros)["out_total"], 100'000U);

  auto& files = memory.sandboxes["sb-1"].files;
  files["control"].content = std::string(60'000, '\x01');
  const auto got = call("sandbox.get_file", {{"path", "control"}});
  EXPECT_LT(got.bytes.size(), kMostInRecord);
  EXPECT_FALSE(result(got).contains("content"));

  for (int i = 0; i < 1500; ++i) files["many/" + std::string(200, '\x02') + std::to_string(i)].content = "x";
  const auto listed = call("sandbox.list", {{"path", "many"}});
  EXPECT_LT(listed.bytes.size(), kMostInRecord);
  EXPECT_EQ(result(listed)["count"], 1500);
  const auto diff = call("sandbox.diff", {{"path", "many"}, {"tree", store_tree({})}});
  EXPECT_LT(diff.bytes.size(), kMostInRecord);
  EXPECT_EQ(result(diff)["changed"], 1500);
}

TEST_F(Manager, ALostOrFencedSandboxIsNeverTriedAgain) {  // J16, ADV-E3
  for (const Json& input : {Json{{"sandbox", "sb-9"}}, Json{{"fence", 2U}}}) {
    Json exec = input;
    exec["argv"] = {"ls"};
    const auto answered = call("sandbox.exec", exec);
    EXPECT_EQ(answered.code, Code::sandbox_lost);
    EXPECT_FALSE(answered.retryable);
    EXPECT_EQ(answered.side, core::FailureSide::platform);
  }
}

TEST_F(Manager, ATreeGoesInAndItsChangesComeOutAsADiff) {
  const std::string tree = store_tree({{"a.txt", "one\ntwo\n"}, {"sub/b.txt", "b\n"}, {"gone.txt", "x\n"}});
  EXPECT_EQ(result(call("sandbox.put", {{"tree", tree}, {"to", "project"}}))["bytes"], 12);
  EXPECT_EQ(result(call("sandbox.diff", {{"path", "project"}, {"tree", tree}}))["changed"], 0);
  call("sandbox.exec", {{"argv", {"edit"}}});
  memory.sandboxes["sb-1"].files.erase("project/gone.txt");
  call("sandbox.put_file", {{"path", "project/new.txt"}, {"content", "n\n"}});
  memory.sandboxes["sb-1"].files["project/image"].content = std::string("\0\1", 2);
  const Json diff = result(call("sandbox.diff", {{"path", "project"}, {"tree", tree}}));
  EXPECT_EQ(diff["changed"], 4);
  EXPECT_EQ(diff["binary"], Json({"image"}));
  const std::string text = diff["diff"];
  EXPECT_NE(text.find("-two\n+TWO\n"), std::string::npos) << text;
  EXPECT_NE(text.find("deleted file mode"), std::string::npos);
  EXPECT_NE(text.find("+++ b/new.txt"), std::string::npos);
  EXPECT_EQ(diff["public_digest"], base::sha256(text).hex());
  EXPECT_EQ(*blobs.get("t", {*base::Hash256::from_hex(diff["blob"].get<std::string>())}), text);
}

TEST_F(Manager, AFileWhoseNameIsNoTextIsRefusedByADiffWithoutEndingIt) {  // V13, FR-150
  memory.sandboxes["sb-1"].files["p/bad\xff"].content = "x";
  memory.sandboxes["sb-1"].files["p/good"].content = "x\n";
  const Json diff = result(call("sandbox.diff", {{"path", "p"}, {"tree", store_tree({})}}));
  EXPECT_EQ(diff["changed"], 1);
  EXPECT_EQ(diff["refused"].size(), 1U);
}

TEST_F(Manager, AFileComesOutAsABlobAndAsTextWhereItIsText) {
  call("sandbox.put_file", {{"path", "notes/a.md"}, {"content", "hello"}});
  const Json file = result(call("sandbox.get_file", {{"path", "notes/a.md"}}));
  EXPECT_EQ(file["content"], "hello");
  EXPECT_EQ(file["blob"], base::sha256("hello").hex());
  EXPECT_EQ(call("sandbox.get_file", {{"path", "none"}}).code, Code::not_found);
  EXPECT_EQ(result(call("sandbox.list", {{"path", "notes"}}))["files"], Json({"a.md"}));
}

TEST_F(Manager, BytesThatAreNoTextStayValidJson) {
  EXPECT_EQ(as_text("a\xff\xc3\xa4\xc3"), "a\xEF\xBF\xBDä\xEF\xBF\xBD");
  EXPECT_EQ(head_and_tail("abc", 3, 10), "abc");
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::manager
