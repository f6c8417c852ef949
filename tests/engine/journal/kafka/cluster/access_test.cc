// Brokers that demand TLS, a login and rights; that are elsewhere, silent or slow: each works, or is one
// clear error that holds no secret.
#include <gmock/gmock.h>

#include <future>
#include <initializer_list>
#include <string>

#include "engine/journal/kafka/cluster/files.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "tests/support/kafka/admin.h"
#include "tests/support/kafka/brokers.h"
#include "tests/support/kafka/keys.h"
#include "tests/support/listener.h"

namespace sandglass::engine::journal::kafka::cluster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::support::Admin;
using tests::support::Brokers;
using tests::support::Keys;
using tests::support::new_topic_name;
using tests::support::SilentListener;

constexpr std::int64_t timeout_ms = 30'000;
constexpr std::int64_t short_ms = 1'500;  // for what cannot succeed

/// One broker with a plain listener for the administrator, one that asks for a certificate, and one for a
/// login over TLS.
struct Guarded {
  Keys keys;
  Brokers brokers{1, settings()};

  std::string settings() const {
    std::string all =
        "listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller},"
        "TLS://localhost:{tls},LOGIN://localhost:{sasl}\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL\n"
        "listener.name.tls.ssl.client.auth=required\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        "listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
        "required "
        "user_engine=\"right-horse\" user_stranger=\"other-horse\";\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "auto.create.topics.enable=true\n"
        "allow.everyone.if.no.acl.found=true\n"
        "super.users=User:ANONYMOUS;User:CN=engine\n";
    for (const char* listener : {"tls", "login"}) {
      const std::string name = std::string("listener.name.") + listener + ".ssl.";
      all += name + "keystore.type=PEM\n" + name + "keystore.location=" + keys.broker() + "\n";
      all += name + "truststore.type=PEM\n" + name + "truststore.location=" + keys.authority() + "\n";
    }
    return all;
  }

  static Guarded& get() {
    static Guarded guarded;
    return guarded;
  }

  Settings with_certificate() const {
    return {.bootstrap = brokers.tls_address(1),
            .client = {{"security.protocol", "ssl"},
                       {"ssl.ca.location", keys.authority()},
                       {"ssl.certificate.location", keys.client()},
                       {"ssl.key.location", keys.client()}}};
  }
  Settings with_login(const std::string& user, const std::string& password) const {
    return {.bootstrap = brokers.sasl_address(1),
            .client = {{"security.protocol", "sasl_ssl"},
                       {"ssl.ca.location", keys.authority()},
                       {"sasl.mechanism", "PLAIN"},
                       {"sasl.username", user},
                       {"sasl.password", password}}};
  }
};

TopicRules rules_for(const std::string& topic) {
  return {.topic = topic, .partitions = 1};
}

base::Error error_of(const base::Result<TopicState>& state) {
  EXPECT_FALSE(state.has_value());
  return state ? base::Error{} : state.error();
}

TEST(Access, WithACertificateReachesBrokersThatAskForOne) {
  const Guarded& guarded = Guarded::get();
  const auto made = make_topic(guarded.with_certificate(), rules_for(new_topic_name()), timeout_ms);
  EXPECT_TRUE(made) << made.error().message;
}

TEST(Access, WithAPrivateKeyByItsTextReachesThemToo) {
  Settings settings = Guarded::get().with_certificate();
  ASSERT_TRUE(take_private_key(settings));
  const auto state = make_topic(settings, rules_for(new_topic_name()), timeout_ms);
  EXPECT_TRUE(state) << state.error().message;
}

TEST(Access, WithALoginReachesBrokersThatAskForOne) {
  const Guarded& guarded = Guarded::get();
  const auto made =
      make_topic(guarded.with_login("engine", "right-horse"), rules_for(new_topic_name()), timeout_ms);
  EXPECT_TRUE(made) << made.error().message;
}

TEST(Access, WithAWrongPasswordIsRefusedAtOnceAndThePasswordIsNotRepeated) {
  const Guarded& guarded = Guarded::get();
  // The time is a day: what the brokers refuse is not waited for.
  const base::Error error =
      error_of(check_topic(guarded.with_login("engine", "wrong-horse"), rules_for("history"), 86'400'000));
  EXPECT_EQ(error.code, base::Code::brokers_refuse_us);
  EXPECT_THAT(error.message, AllOf(HasSubstr("sasl.password"), HasSubstr("Invalid username or password"),
                                   Not(HasSubstr("wrong-horse"))));
}

TEST(Access, ByAnAuthorityThatIsNotOursIsRefused) {
  const Guarded& guarded = Guarded::get();
  const Keys others;
  Settings settings = guarded.with_certificate();
  settings.client["ssl.ca.location"] = others.authority();
  const base::Error unknown = error_of(check_topic(settings, rules_for("history"), 86'400'000));
  EXPECT_EQ(unknown.code, base::Code::brokers_refuse_us);
  EXPECT_THAT(unknown.message, HasSubstr("ssl.ca.location"));
}

TEST(Access, UnderAnotherNameThanTheCertificateHasIsRefused) {
  const Guarded& guarded = Guarded::get();
  Settings settings = guarded.with_certificate();
  settings.bootstrap = "127.0.0.1" + settings.bootstrap.substr(settings.bootstrap.find(':'));
  settings.client["broker.address.family"] = "v4";
  const base::Error error = error_of(check_topic(settings, rules_for("history"), 86'400'000));
  EXPECT_EQ(error.code, base::Code::brokers_refuse_us);
}

TEST(Access, WithoutACertificateThatIsAskedForIsAnError) {
  const Guarded& guarded = Guarded::get();
  Settings settings = guarded.with_certificate();
  settings.client.erase("ssl.certificate.location");
  settings.client.erase("ssl.key.location");
  const base::Error error = error_of(check_topic(settings, rules_for("history"), short_ms));
  EXPECT_THAT(error.message, HasSubstr("certificate"));
}

TEST(Access, WithoutRightsOnTheTopicOrTheClusterNamesThem) {
  Guarded& guarded = Guarded::get();
  Admin admin(guarded.brokers.bootstrap());
  const TopicRules rules = rules_for(new_topic_name());
  ASSERT_TRUE(make_topic(guarded.with_certificate(), rules, timeout_ms));
  const Settings stranger = guarded.with_login("stranger", "other-horse");
  ASSERT_TRUE(check_topic(stranger, rules, timeout_ms));

  ASSERT_THAT(admin.own_topic(rules.topic, "User:somebody"), IsEmpty());
  const base::Error topic = error_of(check_topic(stranger, rules, timeout_ms));
  EXPECT_EQ(topic.code, base::Code::brokers_forbid);
  EXPECT_THAT(topic.message,
              AllOf(HasSubstr(rules.topic), HasSubstr("Describe, DescribeConfigs, Read and Write")));

  const TopicRules open = rules_for(new_topic_name());
  ASSERT_TRUE(make_topic(stranger, open, timeout_ms));
  ASSERT_THAT(admin.own_cluster("User:somebody"), IsEmpty());
  const base::Error brokers = error_of(check_topic(stranger, open, timeout_ms));
  EXPECT_EQ(brokers.code, base::Code::brokers_forbid);
  EXPECT_THAT(brokers.message, HasSubstr("DescribeConfigs on the cluster"));
}

TEST(Access, AskingForATopicDoesNotMakeItWhereBrokersMakeTopics) {
  const Guarded& guarded = Guarded::get();
  const TopicRules rules = rules_for(new_topic_name());
  for (int again = 0; again < 2; ++again) {
    const base::Error error = error_of(check_topic(guarded.with_certificate(), rules, timeout_ms));
    EXPECT_EQ(error.code, base::Code::topic_missing);
  }
}

TEST(Access, ToTheWrongPlaceSaysWhatIsThere) {
  Guarded& guarded = Guarded::get();
  const SilentListener silent;
  const std::string nobody = "127.0.0.1:1";
  for (const auto& [settings, words] : std::initializer_list<std::pair<Settings, std::string>>{
           {{.bootstrap = nobody}, "Connection refused"},
           {{.bootstrap = "kafka.invalid:9092"}, "cannot be resolved"},
           {{.bootstrap = silent.address()}, "no broker answers"},
           // Plain words to a port with TLS, and TLS to a plain one.
           {{.bootstrap = guarded.brokers.tls_address(1)}, "security.protocol"},
           {{.bootstrap = guarded.brokers.bootstrap(), .client = {{"security.protocol", "ssl"}}},
            "encrypted"}}) {
    const base::Error error = error_of(check_topic(settings, rules_for("history"), short_ms));
    EXPECT_TRUE(error.code == base::Code::brokers_unreachable || error.code == base::Code::brokers_refuse_us)
        << error.message;
    EXPECT_THAT(error.message, HasSubstr(words)) << settings.bootstrap;
  }
}

TEST(Access, ToBrokersThatAnswerLateWaitsForThem) {
  Guarded& guarded = Guarded::get();
  const TopicRules rules = rules_for(new_topic_name());
  guarded.brokers.pause(1);
  auto made = std::async(std::launch::async,
                         [&] { return make_topic(guarded.with_certificate(), rules, 86'400'000); });
  // Longer than one attempt takes.
  EXPECT_EQ(made.wait_for(std::chrono::seconds(6)), std::future_status::timeout);
  guarded.brokers.resume(1);
  const auto state = made.get();
  EXPECT_TRUE(state) << state.error().message;
}

TEST(Access, TakesOnlySettingsThatTheJournalDoesNotRestOn) {
  for (const char* name : {"acks", "enable.idempotence", "transactional.id", "bootstrap.servers", "linger.ms",
                           "enable.ssl.certificate.verification", "no.such.setting"}) {
    const auto conf = client_conf({.bootstrap = "127.0.0.1:1", .client = {{name, "1"}}});
    ASSERT_FALSE(conf) << name;
    EXPECT_EQ(conf.error().code, base::Code::config_invalid);
    EXPECT_THAT(conf.error().message, HasSubstr(name));
  }
  const auto value = client_conf({.bootstrap = "127.0.0.1:1", .client = {{"security.protocol", "shout"}}});
  ASSERT_FALSE(value);
  EXPECT_THAT(value.error().message, HasSubstr("security.protocol"));
  const auto secret = client_conf({.bootstrap = "127.0.0.1:1", .client = {{"ssl.key.pem", "my-secret"}}});
  if (!secret) EXPECT_THAT(secret.error().message, Not(HasSubstr("my-secret")));
  EXPECT_FALSE(client_conf({}));
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka::cluster
