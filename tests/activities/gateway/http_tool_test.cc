#include "activities/gateway/http_tool.h"

#include <gtest/gtest.h>

#include "activities/gateway/schema.h"

namespace sandglass::activities::gateway {
namespace {

using base::Code;
using core::Outcome;

core::ActivityResult outcome(std::uint32_t status) {
  return HttpTool().outcome({.outcome = Outcome::done, .http_status = status});
}

TEST(HttpTool, AnAnswerIsDoneNotDoneOrUnknown) {  // FR-3, FR-4
  for (const std::uint32_t status : {200U, 201U, 204U})
    EXPECT_EQ(outcome(status).outcome, Outcome::done) << status;
  for (const std::uint32_t status : {400U, 401U, 404U, 409U, 422U, 501U}) {
    EXPECT_EQ(outcome(status).outcome, Outcome::not_done) << status;
    EXPECT_EQ(outcome(status).code, Code::effect_refused) << status;
    EXPECT_FALSE(outcome(status).retryable) << status;
  }
  for (const std::uint32_t status : {302U, 303U, 408U, 500U, 502U, 503U, 504U}) {
    EXPECT_EQ(outcome(status).outcome, Outcome::unknown) << status;
  }
  EXPECT_TRUE(outcome(429).retryable);
}

TEST(HttpTool, TheExecutorsWordCountsWhereNoAnswerCame) {
  const HttpTool tool;
  const auto refused =
      tool.outcome({.outcome = Outcome::not_done, .code = Code::connect_failed, .message = "refused"});
  EXPECT_EQ(refused.outcome, Outcome::not_done);
  EXPECT_TRUE(refused.retryable);
  for (const Code code : {Code::address_refused, Code::name_refused, Code::policy_denied}) {
    const auto forbidden = tool.outcome({.outcome = Outcome::not_done, .code = code});
    EXPECT_FALSE(forbidden.retryable) << "what the network's rules refuse is refused again";
    EXPECT_EQ(forbidden.side, core::FailureSide::user);
  }
  EXPECT_EQ(tool.outcome({.outcome = Outcome::unknown, .code = Code::executor_lost}).outcome,
            Outcome::unknown);
}

TEST(HttpTool, OnlyAClearAnswerSettlesAProbe) {
  const HttpTool tool;
  EXPECT_EQ(tool.probe_outcome({.http_status = 200}).outcome, Outcome::done);
  EXPECT_EQ(tool.probe_outcome({.http_status = 404}).code, Code::effect_not_done);
  for (const std::uint32_t status : {0U, 301U, 401U, 403U, 500U}) {
    EXPECT_NE(tool.probe_outcome({.http_status = status}).outcome, Outcome::done) << status;
    EXPECT_NE(tool.probe_outcome({.http_status = status}).code, Code::effect_not_done) << status;
  }
}

TEST(HttpTool, TheRequestCannotBeFramedAnotherWayOrCarryASecret) {
  const char* bad[] = {
      R"({"method":"POST","url":"http://a/","headers":{"Host":"b"}})",
      R"({"method":"POST","url":"http://a/","headers":{"content-LENGTH":"1"}})",
      R"({"method":"POST","url":"http://a/","headers":{"idempotency-key":"1"}})",
      R"({"method":"POST","url":"http://a/","headers":{"Authorization":"x"}})",
      R"({"method":"POST","url":"http://a/","headers":{"A":"1","a":"2"}})",
      R"({"method":"POST","url":"http://u:p@a/"})",
  };
  for (const char* arguments : bad)
    EXPECT_EQ(check_request(arguments).error().code, Code::arguments_invalid) << arguments;
  const auto schema = Schema::compile(HttpTool::schema());
  ASSERT_TRUE(schema) << schema.error().message;
  const char* refused[] = {R"({"method":"POST","url":"http://a/","headers":{"x":"a\r\nb"}})",
                           R"({"method":"POST","url":"http://a/ b"})",
                           R"({"method":"TRACE","url":"http://a/"})",
                           R"({"method":"POST","url":"file:///etc/passwd"})",
                           R"({"method":"POST","url":"http://a/","network":{}})",
                           R"({"method":"POST","url":"http://a/","recovery":"probe"})",
                           R"({"method":"POST","url":"http://a/","probe":{"url":"http://a/no-key"}})"};
  for (const char* arguments : refused) EXPECT_FALSE(schema->check(arguments)) << arguments;
  EXPECT_TRUE(schema->check(R"({"method":"POST","url":"http://a/","probe":{"url":"http://a/{key}"}})"));
}

TEST(HttpTool, LevelAndRecoveryFollowFromTheArguments) {
  using engine::run::Recovery;
  EXPECT_EQ(HttpTool::level(R"({"method":"POST"})"), 2);
  EXPECT_EQ(HttpTool::level(R"({"method":"DELETE"})"), 3);
  EXPECT_EQ(HttpTool::recovery(R"({"method":"POST"})"), Recovery::ask);
  EXPECT_EQ(HttpTool::recovery(R"({"method":"GET"})"), Recovery::resend);
  EXPECT_EQ(HttpTool::recovery(R"({"method":"POST","probe":{}})"), Recovery::probe);
  EXPECT_EQ(HttpTool::recovery(R"({"method":"POST","probe":{},"recovery":"ask"})"), Recovery::ask);
}

TEST(HttpTool, AnAnswersBodyIsKeptAsTextOrAsBase64AndCut) {
  const auto binary = HttpTool().outcome({.http_status = 200, .body = std::string("\xff\x00\x01", 3)});
  EXPECT_NE(binary.bytes.find(R"("body_base64":"/wAB")"), std::string::npos) << binary.bytes;
  const auto large = HttpTool().outcome({.http_status = 200, .body = std::string(1 << 20, 'x')});
  EXPECT_LT(large.bytes.size(), 200U * 1024);
  EXPECT_NE(large.bytes.find(R"("truncated":true)"), std::string::npos);
  const auto zeros = HttpTool().outcome({.http_status = 200, .body = std::string(1 << 20, '\0')});  // FR-140
  EXPECT_LT(zeros.bytes.size(), 200U * 1024);
}

}  // namespace
}  // namespace sandglass::activities::gateway
