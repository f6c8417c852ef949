#include <gtest/gtest.h>

#include "engine/base/unique_fd.h"
#include "engine/net/codec/network_codec.h"

namespace sandglass::engine::net::codec {
namespace {

TEST(NetworkCodec, ConfigurationTravelsInADescriptorAndIsChecked) {
  pb::NetworkConfig config;
  config.add_resolvers("127.0.0.1:5353");
  auto* internal = config.add_internal();
  internal->set_host("Receiver.internal.");
  internal->set_port(8080);
  internal->set_range("127.0.0.1/32");
  auto* host = config.add_hosts();
  host->set_name("receiver.internal");
  host->add_addresses("127.0.0.1");
  const base::UniqueFd fd(make_config_fd(config).value());
  const auto read = read_config(fd.get());
  ASSERT_TRUE(read);
  const auto settings = to_settings(*read);
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->resolvers[0].text(), "127.0.0.1:5353");
  EXPECT_EQ(settings->internal[0].target.text(), "receiver.internal:8080");
  EXPECT_EQ(settings->hosts.at("receiver.internal").size(), 1u);
}

TEST(NetworkCodec, AWrongEntryIsNamed) {
  const auto error_of = [](auto change) {
    pb::NetworkConfig config;
    change(config);
    const auto settings = to_settings(config);
    return settings ? std::string("accepted") : settings.error().message;
  };
  EXPECT_NE(
      error_of([](auto& c) { c.add_resolvers("dns.example"); }).find("network.resolvers \"dns.example\""),
      std::string::npos);
  EXPECT_NE(error_of([](auto& c) { c.add_internal()->set_host("a b"); }).find("network.internal"),
            std::string::npos);
  EXPECT_NE(error_of([](auto& c) {
              auto* entry = c.add_internal();
              entry->set_host("127.0.0.1");
              entry->set_port(80);
              entry->set_range("127.0.0.1/8");
            }).find("range"),
            std::string::npos);
  EXPECT_NE(error_of([](auto& c) { c.add_hosts()->set_name("x"); }).find("no address"), std::string::npos);
}

TEST(NetworkCodec, VerdictsComeBackAsTheyWere) {
  const Verdict verdict{.sandbox = "s1",
                        .token = 7,
                        .run = "r",
                        .host = "a.example",
                        .port = 443,
                        .method = "CONNECT",
                        .allowed = true,
                        .rule = "x",
                        .internal = true,
                        .address = "127.0.0.1",
                        .reason = "because",
                        .time_ms = 5,
                        .opaque = true,
                        .code = base::Code::connect_failed};
  EXPECT_EQ(from_frame(to_frame(verdict)).json(), verdict.json());
}

}  // namespace
}  // namespace sandglass::engine::net::codec
