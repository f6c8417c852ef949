// J28: topic and brokers are checked against real ones, with each setting wrong in turn, from the beginning
// and changed underneath; each finding says what the value is, what it must be, and what sets it.
#include "engine/journal/kafka/cluster/topics.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/brokers.h"

namespace sandglass::engine::journal::kafka::cluster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::support::Admin;
using tests::support::Brokers;
using tests::support::new_topic_name;
using Values = std::map<std::string, std::string>;

constexpr std::int64_t timeout_ms = 30'000;

Settings settings_of(const Brokers& brokers) {
  return {.bootstrap = brokers.bootstrap()};
}

TopicRules rules_for(const std::string& topic) {
  return {.topic = topic, .partitions = 3};
}

/// The settings of a topic that keeps the rules on three brokers, but for one.
Values all_but(const std::string& name, const std::string& value) {
  Values values{{"cleanup.policy", "delete"},
                {"retention.ms", "-1"},
                {"retention.bytes", "-1"},
                {"unclean.leader.election.enable", "false"},
                {"message.timestamp.type", "LogAppendTime"},
                {"min.insync.replicas", "2"}};
  values[name] = value;
  return values;
}

/// The error of a check; a check that passes fails the test.
base::Error error_of(const base::Result<TopicState>& state) {
  EXPECT_FALSE(state.has_value());
  return state ? base::Error{} : state.error();
}

/// The first answer of that kind: brokers apply a changed setting a moment after it was acknowledged.
base::Result<TopicState> check_until(bool good, const Brokers& brokers, const TopicRules& rules) {
  for (int tries = 1;; ++tries) {
    auto state = check_topic(settings_of(brokers), rules, timeout_ms);
    if (state.has_value() == good || tries == 100) return state;
  }
}

TEST(Topics, MadeOnOneBrokerKeepTheRulesAndRestOnItsDisk) {
  Brokers& brokers = Brokers::one();
  const TopicRules rules = rules_for(new_topic_name());
  EXPECT_EQ(error_of(check_topic(settings_of(brokers), rules, timeout_ms)).code, base::Code::topic_missing);
  const auto made = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->one_broker);
  EXPECT_EQ(made->replicas, 1);
  EXPECT_THAT(made->cluster, Not(IsEmpty()));
  EXPECT_THAT(made->silent, IsEmpty());
  // A topic that is there is checked, not made.
  const auto again = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->cluster, made->cluster);
}

TEST(Topics, MadeOnThreeBrokersAreReplicated) {
  Brokers& brokers = Brokers::three();
  const TopicRules rules = rules_for(new_topic_name());
  const auto made = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(made->one_broker);
  EXPECT_EQ(made->replicas, 3);
}

struct Wrong {
  const char* name;
  const char* value;
  const char* must;
};
constexpr Wrong kWrong[] = {{"cleanup.policy", "compact", "delete"},
                            {"cleanup.policy", "compact,delete", "delete"},
                            {"retention.ms", "604800000", "-1"},
                            {"retention.bytes", "1073741824", "-1"},
                            {"unclean.leader.election.enable", "true", "false"},
                            {"message.timestamp.type", "CreateTime", "LogAppendTime"},
                            {"min.insync.replicas", "1", "2"},
                            {"max.message.bytes", "1000000", "1048576"}};

class EachSetting : public testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(Wrong, EachSetting, testing::ValuesIn(kWrong));

/// The finding, and the command that mends it.
auto says(const Wrong& wrong, const std::string& topic) {
  const std::string name = wrong.name;
  return AllOf(
      HasSubstr("topic " + topic + ": " + name + " is \"" + wrong.value + "\" and must be " + wrong.must),
      HasSubstr("--entity-type topics --entity-name " + topic + " --add-config " + name + "=" + wrong.must));
}

TEST_P(EachSetting, IsFoundWhenTheTopicIsThereAlready) {
  Brokers& brokers = Brokers::three();
  Admin admin(brokers.bootstrap());
  const TopicRules rules = rules_for(new_topic_name());
  ASSERT_THAT(admin.create_topic(rules.topic, 3, 3, all_but(GetParam().name, GetParam().value)), IsEmpty());
  const base::Error error = error_of(make_topic(settings_of(brokers), rules, timeout_ms));
  EXPECT_EQ(error.code, base::Code::topic_unsafe);
  EXPECT_THAT(error.message, says(GetParam(), rules.topic));
}

TEST_P(EachSetting, IsFoundWhenItIsChangedUnderneathAndMendedByWhatTheMessageSays) {
  Brokers& brokers = Brokers::three();
  Admin admin(brokers.bootstrap());
  const TopicRules rules = rules_for(new_topic_name());
  const auto made = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_THAT(admin.set_topic(rules.topic, all_but(GetParam().name, GetParam().value)), IsEmpty());
  const base::Error error = error_of(check_until(false, brokers, rules));
  EXPECT_EQ(error.code, base::Code::topic_unsafe);
  EXPECT_THAT(error.message, says(GetParam(), rules.topic));
  ASSERT_THAT(admin.set_topic(rules.topic, all_but(GetParam().name, GetParam().must)), IsEmpty());
  const auto mended = check_until(true, brokers, rules);
  EXPECT_TRUE(mended) << mended.error().message;
}

TEST(Topics, WithSeveralWrongSettingsNameThemAllAndOneCommand) {
  Brokers& brokers = Brokers::three();
  Admin admin(brokers.bootstrap());
  const TopicRules rules = rules_for(new_topic_name());
  ASSERT_THAT(admin.create_topic(rules.topic, 3, 3, {}), IsEmpty());
  const base::Error error = error_of(check_topic(settings_of(brokers), rules, timeout_ms));
  EXPECT_EQ(error.code, base::Code::topic_unsafe);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("retention.ms is \"604800000\""),
                    HasSubstr("--add-config retention.ms=-1,message.timestamp.type=LogAppendTime")));
}

TEST(Topics, OfOneBrokerMustBeFlushedByTopicAndBroker) {
  Brokers& brokers = Brokers::one();
  Admin admin(brokers.bootstrap());
  const TopicRules rules = rules_for(new_topic_name());
  const auto made = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(made) << made.error().message;
  Values values = all_but("min.insync.replicas", "1");
  values["flush.messages"] = "1000";
  ASSERT_THAT(admin.set_topic(rules.topic, values), IsEmpty());
  EXPECT_THAT(error_of(check_until(false, brokers, rules)).message,
              HasSubstr("flush.messages is \"1000\" and must be 1"));
  values["flush.messages"] = "1";
  ASSERT_THAT(admin.set_topic(rules.topic, values), IsEmpty());
  ASSERT_TRUE(check_until(true, brokers, rules));
  ASSERT_THAT(admin.set_broker("1", {{"log.flush.interval.messages", "500"}}), IsEmpty());
  EXPECT_THAT(
      error_of(check_until(false, brokers, rules)).message,
      AllOf(HasSubstr("broker 1: log.flush.interval.messages is \"500\" and must be 1"),
            HasSubstr("--entity-type brokers --entity-default --add-config log.flush.interval.messages=1")));
  ASSERT_THAT(admin.set_broker("1", {}), IsEmpty());
  const auto mended = check_until(true, brokers, rules);
  EXPECT_TRUE(mended) << mended.error().message;
}

TEST(Topics, OnABrokerThatDoesNotVerifyTransactionsAreUnsafe) {
  Brokers& brokers = Brokers::three();
  Admin admin(brokers.bootstrap());
  const TopicRules rules = rules_for(new_topic_name());
  const auto made = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_THAT(admin.set_broker("2", {{"transaction.partition.verification.enable", "false"}}), IsEmpty());
  const base::Error error = error_of(check_until(false, brokers, rules));
  EXPECT_EQ(error.code, base::Code::topic_unsafe);
  EXPECT_THAT(error.message,
              HasSubstr("broker 2: transaction.partition.verification.enable is \"false\" and must be true"));
  ASSERT_THAT(admin.set_broker("2", {}), IsEmpty());
  EXPECT_TRUE(check_until(true, brokers, rules));
}

TEST(Topics, WithFewerReplicasThanThreeAreUnsafe) {
  Brokers& brokers = Brokers::three();
  Admin admin(brokers.bootstrap());
  for (const int replicas : {1, 2}) {
    const TopicRules rules = rules_for(new_topic_name());
    Values values = all_but("min.insync.replicas", std::to_string(replicas));
    ASSERT_THAT(admin.create_topic(rules.topic, 3, replicas, values), IsEmpty());
    const base::Error error = error_of(make_topic(settings_of(brokers), rules, timeout_ms));
    EXPECT_EQ(error.code, base::Code::topic_unsafe);
    EXPECT_THAT(error.message,
                HasSubstr("with " + std::to_string(replicas) + " replicas on 3 brokers; it needs 3"));
  }
}

TEST(Topics, OfAnotherJournalHaveAnotherNumberOfPartitionsOrAreElsewhere) {
  Brokers& brokers = Brokers::one();
  Admin admin(brokers.bootstrap());
  TopicRules rules = rules_for(new_topic_name());
  const auto made = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(made) << made.error().message;
  rules.cluster = made->cluster;
  EXPECT_TRUE(check_topic(settings_of(brokers), rules, timeout_ms));
  ASSERT_THAT(admin.add_partitions(rules.topic, 5), IsEmpty());
  const base::Error grown = error_of(check_until(false, brokers, rules));
  EXPECT_EQ(grown.code, base::Code::topic_foreign);
  EXPECT_THAT(grown.message, HasSubstr("has 5 partitions and the journal 3"));

  // A topic of that name on another cluster: nothing is made there.
  Brokers& others = Brokers::three();
  const base::Error elsewhere = error_of(make_topic(settings_of(others), rules, timeout_ms));
  EXPECT_EQ(elsewhere.code, base::Code::topic_foreign);
  EXPECT_THAT(elsewhere.message, HasSubstr("this journal is on cluster " + made->cluster));
  EXPECT_EQ(Admin(others.bootstrap()).leader(rules.topic), -1);
}

TEST(Topics, AreCheckedWhileABrokerIsStoppedOrDead) {
  Brokers& brokers = Brokers::three();
  const TopicRules rules = rules_for(new_topic_name());
  const auto made = make_topic(settings_of(brokers), rules, timeout_ms);
  ASSERT_TRUE(made) << made.error().message;
  for (int number = 1; number <= 3; ++number) {
    brokers.pause(number);
    const auto checked = check_topic(settings_of(brokers), rules, timeout_ms);
    EXPECT_TRUE(checked) << "without broker " << number << ": " << checked.error().message;
    brokers.resume(number);
  }
  brokers.kill(2);
  const auto checked = check_topic(settings_of(brokers), rules, timeout_ms);
  EXPECT_TRUE(checked) << checked.error().message;
  brokers.heal();
}

TEST(Topics, OnTwoBrokersAreNotMade) {
  Brokers& brokers = Brokers::three();
  brokers.terminate(3);
  const TopicRules rules = rules_for(new_topic_name());
  const base::Error error = error_of(make_topic(settings_of(brokers), rules, timeout_ms));
  EXPECT_EQ(error.code, base::Code::topic_unsafe);
  EXPECT_THAT(error.message, HasSubstr("2 brokers are up"));
  brokers.heal();
}

TEST(Topics, OnBrokersBeforeFourAreRefused) {
  const Brokers old(1, "", "3.9.1");
  const base::Error error =
      error_of(make_topic({.bootstrap = old.bootstrap()}, rules_for("history"), timeout_ms));
  EXPECT_EQ(error.code, base::Code::brokers_too_old);
  EXPECT_THAT(error.message, HasSubstr("broker 1 is older than 4.0 (it speaks 3.9"));
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka::cluster
