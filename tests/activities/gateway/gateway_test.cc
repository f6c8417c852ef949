#include "activities/gateway/gateway.h"

#include <gtest/gtest.h>

namespace sandglass::activities::gateway {
namespace {

using base::Code;

const policy::Policy kPolicy{.targets = {"http://here.example"}};

TEST(Gateway, ACommandBecomesAStepAndARequestAnOperation) {
  const Gateway gateway = Gateway::with_built_ins();
  const auto exec = gateway.prepare("exec", {{"argv", {"ls"}}}, kPolicy, 5'000);
  ASSERT_TRUE(exec);
  EXPECT_FALSE(exec->operation);
  EXPECT_EQ(exec->activity, "sandbox.exec");
  EXPECT_EQ(exec->decision.verdict, policy::Verdict::allow);
  EXPECT_GT(exec->step_options.start_to_close_ms, 5'000);
  const auto post =
      gateway.prepare("http_request", {{"method", "POST"}, {"url", "http://here.example/x"}}, kPolicy, 5'000);
  ASSERT_TRUE(post);
  EXPECT_TRUE(post->operation);
  EXPECT_EQ(post->decision.verdict, policy::Verdict::ask);
  EXPECT_EQ(post->operation_options.recovery, engine::run::Recovery::ask);
  EXPECT_EQ(post->operation_options.attempt_timeout_ms, 5'000);
  EXPECT_EQ(post->operation_options.permit_ms, 5'000);
  const auto deletion =
      gateway.prepare("http_request", {{"method", "DELETE"}, {"url", "http://here.example/x"}}, kPolicy);
  EXPECT_EQ(deletion->decision.verdict, policy::Verdict::deny) << "level 3 needs a grant";
}

TEST(Gateway, WhatIsNotExecutedSaysSo) {  // FR-126
  const Gateway gateway = Gateway::with_built_ins();
  EXPECT_EQ(gateway.prepare("rm", {}, kPolicy).error().code, Code::tool_unknown);
  const Json bad[] = {Json::array(),
                      Json::object(),
                      {{"argv", "ls"}},
                      {{"argv", Json::array()}},
                      {{"argv", {1}}},
                      {{"argv", {"ls"}}, {"sandbox", "sb-1"}},
                      {{"argv", {"ls"}}, {"env", {{"A B", "x"}}}}};
  for (const Json& arguments : bad) {
    const auto refused = gateway.prepare("exec", arguments, kPolicy);
    ASSERT_FALSE(refused) << arguments;
    EXPECT_EQ(refused.error().code, Code::arguments_invalid) << arguments;
    EXPECT_TRUE(refused.error().message.starts_with("not executed: invalid input for exec")) << arguments;
  }
}

TEST(Gateway, ANameIsGivenOnceAndASchemaIsCheckedWhenItComes) {  // ADV-G14, FR-124
  Gateway gateway = Gateway::with_built_ins();
  EXPECT_EQ(gateway.add({.name = "exec", .schema = "true"}).error().code, Code::already_exists);
  EXPECT_EQ(gateway.add({.name = "x", .schema = R"({"$ref":"http://a/b"})"}).error().code,
            Code::schema_invalid);
  const std::string schema = R"({ "$defs":{"a":{"type":"string"}}, "x-unknown": 1, "$ref":"#/$defs/a" })";
  ASSERT_TRUE(gateway.add({.name = "x", .schema = schema}));
  EXPECT_EQ(gateway.schemas().at("x"), schema) << "byte for byte";
}

TEST(Gateway, AToolsDigestChangesWithEveryCharacterOfIt) {  // ADV-G13, FR-132
  const auto digest = [](std::string description, std::string schema) {
    Gateway gateway;
    EXPECT_TRUE(gateway.add(
        {.name = "t", .description = std::move(description), .schema = std::move(schema), .activity = "a"}));
    return gateway.prepare("t", Json::object(), {})->tool_digest;
  };
  EXPECT_EQ(digest("a", "true"), digest("a", "true"));
  EXPECT_NE(digest("a", "true"), digest("b", "true"));
  EXPECT_NE(digest("a", "true"), digest("a", "{}"));
}

}  // namespace
}  // namespace sandglass::activities::gateway
