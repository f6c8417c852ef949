#include "engine/net/rules.h"

#include <gtest/gtest.h>

namespace sandglass::engine::net {
namespace {

RuleSet rules(std::vector<RuleText> texts) {
  auto set = RuleSet::parse(texts);
  EXPECT_TRUE(set) << set.error().message;
  return *set;
}

HostPort at(const char* authority) {
  return *parse_authority(authority, 443);
}

TEST(Rules, NoRulesAllowNothing) {
  // ADV-C5
  EXPECT_EQ(rules({}).match(at("example.com"), "GET"), nullptr);
  EXPECT_EQ(RuleSet().match(at("example.com"), "CONNECT"), nullptr);
}

TEST(Rules, AnExactNameAllowsThatNameOnly) {
  const RuleSet set = rules({{"r1", "Allowed.com.", {}, {}}});
  for (const char* same : {"allowed.com", "ALLOWED.COM", "allowed.com.", "allowed.com:80"}) {
    ASSERT_NE(set.match(at(same), "GET"), nullptr) << same;
    EXPECT_EQ(set.match(at(same), "GET")->id, "r1");
  }
  // ADV-C18
  for (const char* other :
       {"evilallowed.com", "allowed.com.evil.com", "www.allowed.com", "allowed.co", "allowed.com:22"}) {
    EXPECT_EQ(set.match(at(other), "GET"), nullptr) << other;
  }
}

TEST(Rules, AWildcardCountsOnLabelBoundariesAndNotForTheDomainItself) {
  const RuleSet set = rules({{"", "*.allowed.com", {}, {}}});
  EXPECT_NE(set.match(at("a.allowed.com"), "GET"), nullptr);
  EXPECT_NE(set.match(at("a.b.allowed.com"), "GET"), nullptr);
  EXPECT_EQ(set.match(at("a.allowed.com"), "GET")->id, "*.allowed.com");
  for (const char* other :
       {"allowed.com", "evilallowed.com", "a.allowed.com.evil.com", "allowed.com.evil.com"}) {
    EXPECT_EQ(set.match(at(other), "GET"), nullptr) << other;
  }
}

TEST(Rules, PortsAndMethodsAreOnlyThoseListed) {
  const RuleSet set = rules({{"", "a.example", {8080}, {"GET", "HEAD"}}});
  EXPECT_NE(set.match(at("a.example:8080"), "GET"), nullptr);
  EXPECT_EQ(set.match(at("a.example:8080"), "POST"), nullptr);
  EXPECT_EQ(set.match(at("a.example:8080"), "CONNECT"), nullptr);  // a tunnel could carry any method
  EXPECT_EQ(set.match(at("a.example:443"), "GET"), nullptr);
}

TEST(Rules, LiteralsNeedARangeAndARangeAllowsNoNames) {
  const RuleSet names = rules({{"", "*.example.com", {}, {}}});
  EXPECT_EQ(names.match(at("192.0.2.1"), "GET"), nullptr);
  const RuleSet ranges = rules({{"", "192.0.2.0/24", {}, {}}, {"", "[2001:db8::1]", {}, {}}});
  EXPECT_NE(ranges.match(at("192.0.2.77"), "GET"), nullptr);
  EXPECT_NE(ranges.match(at("[2001:db8:0::1]"), "GET"), nullptr);
  EXPECT_EQ(ranges.match(at("192.0.3.1"), "GET"), nullptr);
  EXPECT_EQ(ranges.match(at("a.example"), "GET"), nullptr);
}

TEST(Rules, WhatWouldCoverManyOwnersOrIsMalformedIsRefusedAtLoad) {
  // ADV-C19
  for (const char* host :
       {"*", "*.", "*.com", "*.github.io", "*.co.uk", "*.s3.amazonaws.com", "*.s3.eu-west-1.amazonaws.com",
        "a.*.com", "*a.com", "*.10.0.0.1", "10.0.0.0/33", "10.0.0.1/8", "b\xc3\xbc.example", "",
        "http://a.example", "a.example:443", "**.example.com"}) {
    const RuleText text{"", host, {}, {}};
    const auto set = RuleSet::parse(std::span(&text, 1));
    EXPECT_FALSE(set) << host;
    if (!set) EXPECT_EQ(set.error().code, base::Code::config_invalid);
  }
  const RuleText port{"", "a.example", {0}, {}};
  EXPECT_FALSE(RuleSet::parse(std::span(&port, 1)));
  const RuleText method{"", "a.example", {}, {"get"}};
  EXPECT_FALSE(RuleSet::parse(std::span(&method, 1)));
}

TEST(Rules, WhoeverAsksForLessMayHaveItAndNobodyGetsMore) {  // N2
  const RuleSet set = rules({{"", "api.example.com", {443}, {}},
                             {"", "*.files.example.org", {80, 443}, {"GET", "CONNECT"}},
                             {"", "198.41.0.0/24", {443}, {}}});
  const auto covered = [&](RuleText asked) { return set.covers(asked).value_or(false); };
  EXPECT_TRUE(covered({"", "API.example.com.", {443}, {}}));
  EXPECT_TRUE(covered({"", "api.example.com", {443}, {"CONNECT"}}));
  EXPECT_TRUE(covered({"", "a.files.example.org", {80}, {"GET"}}));
  EXPECT_TRUE(covered({"", "*.files.example.org", {}, {"CONNECT"}}));
  EXPECT_TRUE(covered({"", "*.b.files.example.org", {}, {"GET"}}));
  EXPECT_TRUE(covered({"", "198.41.0.4", {443}, {}}));
  EXPECT_TRUE(covered({"", "198.41.0.128/25", {443}, {}}));
  EXPECT_FALSE(covered({"", "api.example.com", {}, {}})) << "port 80 as well";
  EXPECT_FALSE(covered({"", "api.example.com", {443, 22}, {}}));
  EXPECT_FALSE(covered({"", "*.example.com", {443}, {}}));
  EXPECT_FALSE(covered({"", "*.api.example.com", {443}, {}}));
  EXPECT_FALSE(covered({"", "x.api.example.com", {443}, {}}));
  EXPECT_FALSE(covered({"", "files.example.org", {443}, {"GET"}}));
  EXPECT_FALSE(covered({"", "evilfiles.example.org", {443}, {"GET"}}));
  EXPECT_FALSE(covered({"", "*.example.org", {443}, {"GET"}}));
  EXPECT_FALSE(covered({"", "a.files.example.org", {443}, {}})) << "every method";
  EXPECT_FALSE(covered({"", "a.files.example.org", {443}, {"PUT"}}));
  EXPECT_FALSE(covered({"", "198.41.0.0/23", {443}, {}}));
  EXPECT_FALSE(covered({"", "198.41.1.1", {443}, {}}));
  EXPECT_FALSE(covered({"", "127.0.0.1", {443}, {}}));
  EXPECT_FALSE(covered({"", "api.example.com", {443}, {}, /*raw_tunnel=*/true}));
  EXPECT_FALSE(set.covers(RuleText{"", "*.com", {443}, {}}).has_value());
  EXPECT_FALSE(RuleSet().covers(RuleText{"", "api.example.com", {443}, {}}).value_or(true));
}

}  // namespace
}  // namespace sandglass::engine::net
