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

}  // namespace
}  // namespace sandglass::engine::net
