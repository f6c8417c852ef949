#include "engine/net/address.h"

#include <gtest/gtest.h>

#include "engine/base/system_ports.h"
#include "engine/net/gate.h"
#include "engine/net/special_ranges.h"

namespace sandglass::engine::net {
namespace {

TEST(SpecialRanges, OneAddressOfEverySpecialRangeIsRefused) {
  // FR-161, ADV-C10, C11: both ends of each range where that matters.
  for (const char* text : {"0.0.0.0",
                           "0.255.255.255",
                           "10.0.0.1",
                           "10.255.255.255",
                           "100.64.0.1",
                           "100.127.255.255",
                           "100.100.100.200",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "169.254.170.2",
                           "169.254.0.1",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.0.0.192",
                           "192.0.0.170",
                           "192.0.2.1",
                           "192.31.196.1",
                           "192.52.193.1",
                           "192.88.99.1",
                           "192.168.0.1",
                           "192.175.48.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.1",
                           "224.0.0.1",
                           "239.255.255.255",
                           "240.0.0.1",
                           "255.255.255.255",
                           "168.63.129.16",
                           "::",
                           "::1",
                           "::2",
                           "::7f00:1",
                           "::ffff:127.0.0.1",
                           "::ffff:8.8.8.8",
                           "::ffff:0:8.8.8.8",
                           "64:ff9b::7f00:1",
                           "64:ff9b::808:808",
                           "64:ff9b:1::1",
                           "100::1",
                           "100:0:0:1::1",
                           "2001::1",
                           "2001:0:808:808::1",
                           "2001:1::1",
                           "2001:2::1",
                           "2001:3::1",
                           "2001:4:112::1",
                           "2001:10::1",
                           "2001:20::1",
                           "2001:30::1",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "2002:808:808::1",
                           "2620:4f:8000::1",
                           "3fff::1",
                           "5f00::1",
                           "fc00::1",
                           "fd00::1",
                           "fd00:ec2::254",
                           "fe80::1",
                           "fec0::1",
                           "ff02::1",
                           "4000::1",
                           "8000::1",
                           "e000::1",
                           "1000::1"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_NE(special_range_of(*address), nullptr) << text;
  }
}

TEST(SpecialRanges, PublicAddressesNextToThemAreNot) {
  for (const char* text :
       {"1.1.1.1",        "8.8.8.8",         "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",    "126.255.255.255", "128.0.0.0",       "169.253.255.255", "169.255.0.0",
        "172.15.255.255", "172.32.0.0",      "192.0.1.0",       "192.167.255.255", "192.169.0.0",
        "198.17.255.255", "198.20.0.0",      "223.255.255.255", "2606:4700::1111", "2001:200::1",
        "2a00:1450::1",   "2003::1",         "3ffe::1"}) {
    EXPECT_EQ(special_range_of(*parse_address(text)), nullptr) << text;
  }
}

TEST(Gate, TheMachinesOwnAddressesAreRefused) {
  // ADV-C11: also public ones.
  base::SystemClock clock;
  NetworkSettings settings;
  settings.own_addresses = {*parse_address("8.8.4.4")};
  const Gate gate(std::move(settings), clock);
  const RuleText rule{"", "a.example.com", {}, {}};
  const RuleSet rules = *RuleSet::parse(std::span(&rule, 1));
  const auto name = gate.decide(rules, *parse_authority("a.example.com:443", 0), "CONNECT");
  ASSERT_TRUE(name.verdict.allowed);
  const auto decision = gate.check(name, {*parse_address("8.8.4.4"), *parse_address("8.8.8.8")});
  ASSERT_EQ(decision.allowed.size(), 1u);
  EXPECT_EQ(decision.allowed[0].text(), "8.8.8.8");
  EXPECT_EQ(decision.refused_rule, "own-address");
}

TEST(Gate, ANameServerIsNobodysTarget) {  // V16, FR-164
  base::SystemClock clock;
  NetworkSettings settings;
  settings.internal.push_back({*parse_authority("dns.internal:5353", 0), *parse_range("127.0.0.1/32")});
  const Gate gate(std::move(settings), clock);
  const RuleText texts[] = {{"", "dns.internal", {5353}, {}}, {"", "9.9.9.9", {53, 443, 853, 5353}, {}}};
  const RuleSet rules = *RuleSet::parse(texts);
  const std::vector<Endpoint> resolvers = {*parse_endpoint("127.0.0.1:5353", 53),
                                           *parse_endpoint("9.9.9.9", 53)};
  const auto rule_at = [&](const char* authority, const char* address) {
    const auto name = gate.decide(rules, *parse_authority(authority, 0), "CONNECT");
    EXPECT_TRUE(name.verdict.allowed) << authority;
    const auto decision = gate.check(name, {*parse_address(address)}, resolvers);
    return decision.allowed.empty() ? decision.refused_rule : "allowed";
  };
  EXPECT_EQ(rule_at("dns.internal:5353", "127.0.0.1"), "resolver");
  EXPECT_EQ(rule_at("9.9.9.9:53", "9.9.9.9"), "resolver");
  EXPECT_EQ(rule_at("9.9.9.9:853", "9.9.9.9"), "resolver");
  EXPECT_EQ(rule_at("9.9.9.9:443", "9.9.9.9"), "allowed");
}

TEST(Gate, AnInternalTargetIsThatNamePortAndRangeOnly) {
  base::SystemClock clock;
  NetworkSettings settings;
  settings.internal.push_back({*parse_authority("mirror.internal:8080", 0), *parse_range("10.1.2.0/24")});
  const Gate gate(std::move(settings), clock);
  const RuleText texts[] = {{"", "mirror.internal", {80, 8080}, {}}, {"", "other.internal", {8080}, {}}};
  const RuleSet rules = *RuleSet::parse(texts);
  const std::vector<Address> addresses = {*parse_address("10.1.2.3"), *parse_address("10.1.3.3"),
                                          *parse_address("127.0.0.1")};
  const auto allowed = [&](const char* authority) {
    const auto name = gate.decide(rules, *parse_authority(authority, 0), "GET");
    EXPECT_TRUE(name.verdict.allowed) << authority;
    return gate.check(name, addresses).allowed;
  };
  ASSERT_EQ(allowed("MIRROR.internal.:8080").size(), 1u);
  EXPECT_EQ(allowed("mirror.internal:8080")[0].text(), "10.1.2.3");
  EXPECT_TRUE(allowed("mirror.internal:80").empty());
  EXPECT_TRUE(allowed("other.internal:8080").empty());
  // The exception lifts the refusal of the address; it is no allow rule for a sandbox.
  EXPECT_FALSE(gate.decide(RuleSet(), *parse_authority("mirror.internal:8080", 0), "GET").verdict.allowed);
  EXPECT_TRUE(gate.decide_effect(RuleSet(), false, *parse_authority("mirror.internal:8080", 0), "POST")
                  .verdict.allowed);
}

TEST(Gate, AnEffectReachesPublicNamesAtTheUsualPortsAndNoLiteral) {
  base::SystemClock clock;
  const Gate gate(NetworkSettings{}, clock);
  const auto allowed = [&](const char* authority, bool public_targets) {
    return gate.decide_effect(RuleSet(), public_targets, *parse_authority(authority, 0), "POST")
        .verdict.allowed;
  };
  EXPECT_TRUE(allowed("api.example.com:443", true));
  EXPECT_FALSE(allowed("api.example.com:443", false));
  EXPECT_FALSE(allowed("api.example.com:22", true));
  EXPECT_FALSE(allowed("127.0.0.1:80", true));
  EXPECT_FALSE(allowed("8.8.8.8:443", true));
}

TEST(Ranges, AreReadStrictly) {
  for (const char* text : {"10.0.0.0/8", "127.0.0.1/32", "127.0.0.1", "::/0", "2001:db8::/32"})
    EXPECT_TRUE(parse_range(text)) << text;
  for (const char* text : {"10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1", "10.0.0.1/8", "10.0.0.0/33", "10/8",
                           "::1/129", "a/8", "/8", ""}) {
    EXPECT_FALSE(parse_range(text)) << text;
  }
}

}  // namespace
}  // namespace sandglass::engine::net
