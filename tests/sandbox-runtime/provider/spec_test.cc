// Specifications and support, without a machine (V10); the launch plan's checks (V1).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "sandbox-runtime/provider/environment.h"
#include "sandbox-runtime/provider/linux/plan.h"
#include "sandbox-runtime/provider/linux/sandbox_record.h"
#include "sandbox-runtime/provider/linux/seccomp_filter.h"
#include "sandbox-runtime/provider/linux/uid_ranges.h"
#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::tests {
namespace {

using engine::base::Code;
using namespace sandbox_runtime::provider;
using namespace sandbox_runtime::provider::linux_jail;

TEST(SandboxSpecTest, LimitsOutOfBoundsAndBadNamesAreRefused) {
  EXPECT_TRUE(check_spec({"a-1", {}}));
  for (const char* id : {"", "A", "a/b", "..", "a b", "0123456789012345678901234567890123456789x"}) {
    EXPECT_FALSE(check_spec({id, {}})) << id;
  }
  for (const LimitKind kind : kAllLimits) {
    for (const std::uint64_t value : {std::uint64_t{0}, ~std::uint64_t{0}}) {
      SandboxSpec spec{"a", {}};
      spec.tmpl.limits.of(kind).value = value;
      const auto checked = check_spec(spec);
      ASSERT_FALSE(checked.has_value()) << name_of(kind);
      EXPECT_NE(checked.error().message.find(name_of(kind)), std::string::npos);
    }
    EXPECT_EQ(limit_of_name(name_of(kind)), kind);
  }
}

TEST(SandboxSpecTest, AMissingRequiredLimitIsNamedWithItsRemedyAndABestEffortOneIsNot) {
  std::vector<LimitSupport> support;
  for (const LimitKind kind : kAllLimits) support.push_back({kind, Strength::works, "", ""});
  EXPECT_TRUE(check_support({}, support));
  support[0] = {LimitKind::memory, Strength::missing, "no control group", "run the server as root"};
  Limits limits;
  const auto refused = check_support(limits, support);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::limit_unenforceable);
  EXPECT_NE(refused.error().message.find("memory: no control group (run the server as root)"),
            std::string::npos);
  limits.memory.need = Need::best_effort;
  EXPECT_TRUE(check_support(limits, support));
}

TEST(SandboxSpecTest, WhatALimitDoesCanBeChosenWhereThereIsAChoice) {  // V9
  for (const LimitKind kind : kAllLimits) {
    const bool choice = kind == LimitKind::pids || kind == LimitKind::disk || kind == LimitKind::inodes ||
                        kind == LimitKind::output;
    for (const OnLimit wanted : {OnLimit::report, OnLimit::kill}) {
      SandboxSpec spec{"box", {}};
      spec.tmpl.limits.of(kind).on_limit = wanted;
      EXPECT_EQ(check_spec(spec).has_value(), choice) << name_of(kind);
    }
  }
}

TEST(SandboxSpecTest, TheLoadersVariablesCannotBeAllowed) {
  SandboxSpec spec{"a", {}};
  spec.tmpl.env_allow = {"LD_PRELOAD"};
  EXPECT_FALSE(check_spec(spec));
  spec.tmpl.env_allow = {"CI"};
  EXPECT_TRUE(check_spec(spec));
  EXPECT_TRUE(may_set_variable(spec.tmpl, "CI"));
  EXPECT_FALSE(may_set_variable(spec.tmpl, "PATH"));
  EXPECT_FALSE(runtime_environment(spec.tmpl).contains("HTTP_PROXY"));
  spec.tmpl.network = true;
  EXPECT_EQ(runtime_environment(spec.tmpl).at("https_proxy"), "http://127.0.0.1:3128");
}

std::string plan_bytes(int fd) {
  std::string bytes(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  return bytes;
}

std::optional<PlanView> view_of(const std::string& bytes) {
  return PlanView::check({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

TEST(LaunchPlanTest, WhatIsSealedIsRead) {
  const auto fd =
      seal_plan({.uid_base = 7}, build_filter(), std::vector<BaseEntry>{{EntryKind::link, 1, "a/b", "c"}});
  ASSERT_TRUE(fd.has_value());
  const MappedPlan mapped(fd->get());
  ASSERT_TRUE(mapped.view().has_value());
  EXPECT_EQ(mapped.view()->header().uid_base, 7u);
  ASSERT_EQ(mapped.view()->entries().size(), 1u);
  EXPECT_STREQ(mapped.view()->path(mapped.view()->entries()[0]), "a/b");
  EXPECT_EQ(mapped.view()->content(mapped.view()->entries()[0]), "c");
}

TEST(LaunchPlanTest, AnUnsealedOneIsRefused) {
  const auto sealed = seal_plan({}, build_filter(), {});
  const std::string bytes = plan_bytes(sealed->get());
  const int open = ::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::write(open, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_FALSE(MappedPlan(open).view().has_value());
  ::close(open);
}

TEST(LaunchPlanTest, EveryDamagedHeaderIsRefusedOrStaysInside) {
  const auto fd = seal_plan({}, build_filter(), std::vector<BaseEntry>{{EntryKind::file, 1, "a", "b"}});
  const std::string good = plan_bytes(fd->get());
  ASSERT_TRUE(view_of(good).has_value());
  EXPECT_FALSE(view_of(good.substr(0, good.size() - 1)).has_value());
  EXPECT_FALSE(view_of(good + "x").has_value());
  for (std::size_t word = 0; word < sizeof(PlanHeader) / 4; ++word) {
    for (const std::uint32_t value : {0u, 1u, 0x7fffffffu, 0xfffffff8u, 0xffffffffu}) {
      std::string bad = good;
      std::memcpy(bad.data() + word * 4, &value, 4);
      const auto view = view_of(bad);
      if (!view) continue;
      // Accepted: then everything that it points to must lie inside (the sanitizers watch).
      for (const PlanEntry& entry : view->entries()) EXPECT_LE(std::strlen(view->path(entry)), bad.size());
      EXPECT_LE(view->filter().size_bytes(), bad.size());
    }
  }
}

TEST(UidRangesTest, NoRangeIsGivenTwiceAndAReturnedOneComesBack) {
  UidRanges ranges(5);
  const auto first = ranges.take();
  const auto second = ranges.take();
  ASSERT_TRUE(first && second);
  EXPECT_GE(*first, kFirstUid);
  EXPECT_EQ(*first % kUidRange, 0u);
  EXPECT_NE(*first, *second);
  UidRanges adopted(5);
  adopted.mark(*first);
  EXPECT_NE(adopted.take(), first);
}

TEST(SandboxRecordTest, ARecordComesBackAndAnUnknownFormatDoesNot) {
  const std::string path = testing::TempDir() + "/sandbox-record-" + std::to_string(::getpid());
  const SandboxRecord record{65536, 1, 2, 3, 1, 4, 5};
  ASSERT_TRUE(write_record(path, record));
  EXPECT_EQ(read_record(path), record);
  const int fd = ::open(path.c_str(), O_WRONLY | O_TRUNC);
  ASSERT_EQ(::write(fd, "format 2\n", 9), 9);
  ::close(fd);
  EXPECT_FALSE(read_record(path).has_value());
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace sandglass::tests
