// Limits hold, end what they must end and nothing else, and are told from the kernel's counters (V9, V11,
// S3). What a plain user has of them: tests/sandbox-runtime/rootless.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>

#include "tests/support/jail/jail_rig.h"
#include "tests/support/needs_root.h"

namespace sandglass::tests {
namespace {

using namespace sandbox_runtime::provider;

bool hit(const Usage& usage, LimitKind kind) {
  return std::ranges::any_of(usage.limits_hit, [kind](const LimitHit& each) { return each.kind == kind; });
}

class LimitsTest : public testing::Test {
 protected:
  Usage usage_of_last() { return rig_.launcher().exec_usage(box_.id(), box_.last_exec()).value(); }

  JailRig rig_;
  Sandbox box_ = rig_.make();
};

TEST_F(LimitsTest, AMemoryHogIsEndedAndOnlyItsExec) {  // ADV-B2
  SANDGLASS_NEEDS_ROOT("a command's memory is limited by a control group");
  box_.begin("python3 -c 'b=bytearray(1<<30)'; echo status $?", {.memory_bytes = 64u << 20});
  pollfd told{box_.memory_event().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 10'000), 1);
  const CommandResult result = box_.finish();
  const Usage usage = usage_of_last();
  EXPECT_NE(result.output.find("status 137"), std::string::npos) << result.output;
  EXPECT_TRUE(hit(usage, LimitKind::memory));
  EXPECT_LE(usage.memory_peak_bytes, 64u << 20);
  EXPECT_EQ(box_.run("echo fine").output, "fine\n");
}

TEST_F(LimitsTest, FilesInTmpAndShmCountAsMemory) {  // ADV-A13
  const CommandResult result =
      box_.run("head -c 40M /dev/zero > /dev/shm/a; head -c 100M /dev/zero > /tmp/b; true",
               {.memory_bytes = 64u << 20});
  EXPECT_EQ(box_.run("echo fine").output, "fine\n") << result.output;
}

TEST_F(LimitsTest, AForkBombMeetsEagainAndDiesAtOnce) {  // ADV-B1
  SANDGLASS_NEEDS_ROOT("a command's processes are counted by a control group");
  box_.begin(
      "python3 -c '\nimport os,time\nn=0\ntry:\n  while True:\n    if os.fork()==0: time.sleep(1000)\n    "
      "n+=1\n"
      "except BlockingIOError:\n  print(\"EAGAIN after\",n,flush=True)\n  try: os.fork()\n"
      "  except BlockingIOError: time.sleep(1000)'",
      {.pids = 20});
  // when it meets it again it has told of the first time
  ASSERT_TRUE(eventually(
      [&] {
        const auto hits = usage_of_last().limits_hit;
        return std::ranges::any_of(
            hits, [](const LimitHit& each) { return each.kind == LimitKind::pids && each.count >= 2; });
      },
      10'000));
  EXPECT_LE(usage_of_last().pids, 20u);
  ASSERT_TRUE(rig_.launcher().kill_exec(box_.id(), box_.last_exec()));
  // the dead count until their parent has taken note
  EXPECT_TRUE(eventually([&] { return usage_of_last().pids == 0; }, 10'000));
  EXPECT_NE(box_.finish().output.find("EAGAIN after"), std::string::npos);
  EXPECT_EQ(box_.run("echo fine").output, "fine\n");
}

TEST_F(LimitsTest, ADiskFillerMeetsEnospcAndTheHostGetsTheSpaceBack) {  // ADV-A11
  const auto free_bytes = [&] {
    struct statvfs about{};
    ::statvfs(rig_.folder().c_str(), &about);
    return static_cast<std::int64_t>(about.f_bavail * about.f_frsize);
  };
  box_.begin("dd if=/dev/urandom of=/workspace/fill bs=1M 2>&1 | grep -c 'No space left'; sync; true");
  EXPECT_EQ(box_.finish().output, "1\n");
  const Usage usage = usage_of_last();
  EXPECT_TRUE(hit(usage, LimitKind::disk)) << usage.disk_bytes;
  EXPECT_GE(usage.disk_bytes, 24u << 20);
  EXPECT_EQ(box_.run("echo fine").output, "fine\n");
  // Others write to the same disk, so the difference is taken over the destroy alone.
  const std::int64_t filled = free_bytes();
  EXPECT_TRUE(rig_.launcher().destroy(box_.id()));
  if (::geteuid() != 0) return;  // it was in memory
  EXPECT_TRUE(eventually([&] { return free_bytes() - filled > 20 << 20; }, 5000)) << free_bytes() - filled;
}

TEST_F(LimitsTest, AnInodeBombMeetsEnospc) {
  box_.begin(
      "python3 -c '\nimport errno\ntry:\n  for i in range(10**6): open(f\"/workspace/{i}\",\"w\").close()\n"
      "except OSError as e: print(errno.errorcode[e.errno],i<4000)'");
  EXPECT_EQ(box_.finish().output, "ENOSPC True\n");
  EXPECT_TRUE(hit(usage_of_last(), LimitKind::inodes));
}

TEST_F(LimitsTest, OneExecCannotTakeThePidsOfInit) {
  SANDGLASS_NEEDS_ROOT("a command's processes are counted by a control group");
  box_.begin("for i in $(seq 200); do sleep 1000 & done; wait", {});
  ASSERT_TRUE(eventually([&] { return hit(usage_of_last(), LimitKind::pids); }, 10'000));
  EXPECT_LE(usage_of_last().pids, 60u);
  ASSERT_TRUE(rig_.launcher().kill_exec(box_.id(), box_.last_exec()));
  box_.finish();
  EXPECT_EQ(box_.run("echo fine").output, "fine\n");
}

TEST_F(LimitsTest, ProcessorTimeIsCountedAndTheQuotaHolds) {  // ADV-B3
  SANDGLASS_NEEDS_ROOT("processor time is counted and limited by a control group");
  Template half = JailRig::small_template();
  half.limits.cpu.value = 200;  // a fifth of one processor
  Sandbox slow = rig_.make(half);
  const auto start = std::chrono::steady_clock::now();
  slow.begin("python3 -c '\nimport time\nwhile time.process_time()<0.4: pass'");
  slow.finish();
  const auto wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto usage = rig_.launcher().exec_usage(slow.id(), slow.last_exec()).value();
  EXPECT_GE(usage.cpu_ns, 400'000'000u);
  EXPECT_LT(static_cast<double>(usage.cpu_ns) / 1e9, 0.2 * wall + 0.15);
}

TEST_F(LimitsTest, TheSizeThatProgramsSeeIsTheTemplates) {  // V7
  Template tmpl = JailRig::small_template();
  tmpl.limits.cpu.value = 1000;
  Sandbox one = rig_.make(tmpl);
  EXPECT_EQ(one.run("nproc").output, "1\n");
  EXPECT_EQ(one.run("grep -c ^processor /proc/cpuinfo").output, "1\n");
  EXPECT_EQ(one.run("grep MemTotal /proc/meminfo | tr -dc 0-9").output, "262144");
  EXPECT_EQ(one.run("ulimit -n").output, "1024\n");
}

TEST_F(LimitsTest, APlaceIsOnlyForProcessesOfTheSandbox) {  // V5
  SANDGLASS_NEEDS_ROOT("a place is a control group");
  ASSERT_TRUE(rig_.launcher().make_exec(box_.id(), 77, {}));
  const auto placed = rig_.launcher().place(box_.id(), 77, ::getpid());
  ASSERT_FALSE(placed.has_value());
  EXPECT_EQ(placed.error().code, engine::base::Code::sandbox_lost);
}

TEST_F(LimitsTest, ADiskThatTheHostCannotPromiseIsRefused) {  // V11
  SANDGLASS_NEEDS_ROOT("a plain user's sandboxes have no disk of the machine's");
  Template huge = JailRig::small_template();
  huge.limits.disk.value = 1ULL << 42;
  const auto made = rig_.launcher().create({"huge", huge});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, engine::base::Code::disk_full);
  EXPECT_EQ(rig_.launcher().inventory()->size(), 1u);
}

}  // namespace
}  // namespace sandglass::tests
