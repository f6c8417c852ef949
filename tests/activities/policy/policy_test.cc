#include "activities/policy/policy.h"

#include <gtest/gtest.h>

namespace sandglass::activities::policy {
namespace {

const Policy kPolicy{.targets = {"https://API.example.com/", "http://127.0.0.1:8099"}};

Verdict verdict(const Policy& policy, int level, std::string target = {}) {
  return decide(policy, {.tool = "t", .declared_level = level, .target = std::move(target)}).verdict;
}

TEST(Policy, WhatStaysInsideIsAllowed) {
  EXPECT_EQ(verdict(kPolicy, 0), Verdict::allow);
  EXPECT_EQ(verdict(kPolicy, 1), Verdict::allow);
}

TEST(Policy, LevelTwoNeedsAListedTargetAndIsAskedForUnlessTheTaskAllowsIt) {
  EXPECT_EQ(verdict(kPolicy, 2, "https://api.example.com"), Verdict::ask);
  EXPECT_EQ(verdict(kPolicy, 2, "https://api.example.com.evil.org"), Verdict::deny);
  EXPECT_EQ(verdict(kPolicy, 2, "http://api.example.com"), Verdict::deny)
      << "another scheme is another origin";
  Policy allow = kPolicy;
  allow.ask_at_level_2 = false;
  EXPECT_EQ(verdict(allow, 2, "http://127.0.0.1:8099"), Verdict::allow);
  EXPECT_EQ(verdict(allow, 2, "http://127.0.0.1:8098"), Verdict::deny);
}

TEST(Policy, LevelThreeNeedsAGrantAndIsAlwaysAskedFor) {
  Policy policy = kPolicy;
  policy.ask_at_level_2 = false;
  EXPECT_EQ(verdict(policy, 3, "https://api.example.com"), Verdict::deny);
  policy.tools["t"].grant = true;
  EXPECT_EQ(verdict(policy, 3, "https://api.example.com"), Verdict::ask);
}

TEST(Policy, ATaskRaisesALevelAndNeverLowersIt) {
  Policy policy = kPolicy;
  policy.tools["t"] = {.level = 3, .grant = true};
  EXPECT_EQ(decide(policy, {.tool = "t", .declared_level = 1}).level, 3);
  policy.tools["t"] = {.level = 0};
  EXPECT_EQ(decide(policy, {.tool = "t", .declared_level = 2, .target = "https://api.example.com"}).level, 2);
}

TEST(Policy, AnOriginIsTakenFromTheUrlAsItWillBeDialled) {
  EXPECT_EQ(origin_of("HTTP://Example.COM:80/x?y").value(), "http://example.com");
  EXPECT_EQ(origin_of("https://[::1]:8443/").value(), "https://[::1]:8443");
  EXPECT_EQ(origin_of("https://good.org\\@evil.org/").value(), "https://good.org");
  for (const char* bad : {"ftp://x/", "//x", "http://", "http://a@b/", "http://x:0/", "http://x:99999/",
                          "http://x:1y/", "http://x y/", "http://x\n/", "http://%65vil.org/"}) {
    EXPECT_FALSE(origin_of(bad)) << bad;
  }
}

}  // namespace
}  // namespace sandglass::activities::policy
