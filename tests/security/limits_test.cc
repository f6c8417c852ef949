// Whoever takes too much meets the right limit, and the neighbours do not notice (V9, ADV-A11, A13, B1 to
// B6).
#include <sys/inotify.h>

#include <algorithm>
#include <chrono>

#include "engine/base/unique_fd.h"
#include "tests/security/attack_rig.h"

namespace sandglass::tests {
namespace {

using std::chrono::steady_clock;

/// A second exec that works all the time; its end is asked for by a file.
class Neighbour {
 public:
  Neighbour(HostRig& rig, provider::SandboxRef box, provider::ExecRequest request)
      : rig_(rig), box_(std::move(box)) {
    auto up = std::make_shared<std::promise<void>>();
    auto is_up = up->get_future();
    running_ = rig.begin(box_, std::move(request), [up, told = false](const provider::OutputChunk&) mutable {
      if (!std::exchange(told, true)) up->set_value();
    });
    is_up.wait();
  }
  void expect_undisturbed() {
    ASSERT_TRUE(rig_.exec(box_, rig_.shell("touch stop")).has_value());
    const auto result = running_.get();
    EXPECT_EQ(result ? result->exit_code : -1, 0) << describe(result);
    EXPECT_NE(result->out.find("rounds many"), std::string::npos) << describe(result);
    EXPECT_EQ(hits(result), "") << describe(result);
  }

 private:
  HostRig& rig_;
  provider::SandboxRef box_;
  std::future<Result<ExecResult>> running_;
};

class LimitsTest : public AttackTest {
 protected:
  Neighbour neighbour(const provider::SandboxRef& box) {
    return {rig(), box, request({"neighbour", "60000"}, {.wall_ms = 60'000})};
  }
};

/// What only root can promise; not registered for others.
class RootLimitsTest : public LimitsTest {};

TEST_F(RootLimitsTest, AMemoryHogOfAnyKindIsEndedAndNobodyElse) {  // ADV-B2, A13
  auto beside = neighbour(box_);
  for (const char* kind : {"plain", "locked", "many", "shm", "memfd", "sysv"}) {
    const auto result = attack({"memory", kind}, {.memory_bytes = 128u << 20, .wall_ms = 30'000});
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(hits(result), "memory") << kind << ": " << describe(result);
    EXPECT_FALSE(result->timed_out) << kind << ": " << describe(result);
    ASSERT_TRUE(shell("rm -f /tmp/fill /dev/shm/fill").has_value());
  }
  // what sits in pipes is bounded for each user before it is for the group; it must only end with the exec
  const auto pipes = attack({"memory", "pipes"}, {.memory_bytes = 128u << 20, .wall_ms = 700});
  EXPECT_TRUE(pipes->timed_out || hits(pipes).find("memory") != std::string::npos) << describe(pipes);
  beside.expect_undisturbed();
}

TEST_F(RootLimitsTest, WhatIsLeftInSocketsIsBoundedForEachSandbox) {  // ADV-A13
  const auto result = attack({"memory", "sockets"}, {.memory_bytes = 128u << 20, .wall_ms = 30'000});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  if (hits(result) == "memory") return;  // a unified group counts them as memory
  EXPECT_EQ(result->exit_code, 0) << describe(result);
  // the kernel gives every socket a little in any case, and the rest of the machine has sockets too; without
  // a limit it was two gigabytes
  EXPECT_LT(std::strtoull(result->out.c_str(), nullptr, 10), 256u) << "MiB: " << describe(result);
}

TEST_F(LimitsTest, WhatTheKernelCountsByUserIsLeftToOthers) {  // ADV-B17
  const auto other = make();
  std::string said;
  std::promise<void> taken;
  auto holding = rig().begin(box_, request({"counters"}, {.wall_ms = 60'000}),
                             [&, told = false](const provider::OutputChunk& chunk) mutable {
                               said += chunk.bytes;
                               if (told || !said.ends_with("done\n")) return;
                               told = true;
                               taken.set_value();
                             });
  taken.get_future().wait();
  EXPECT_TRUE(said.starts_with("inotify some\ntimers some\n")) << said;
  const auto look = rig().exec(other, request({"counters", "look"}));
  EXPECT_EQ(look->exit_code, 0) << describe(look);
  const engine::base::UniqueFd of_the_machine(::inotify_init1(IN_CLOEXEC));
  EXPECT_TRUE(of_the_machine.valid()) << "this user on the machine has none left";
  ASSERT_TRUE(rig().destroy(box_).has_value());
  EXPECT_EQ(holding.get().error().code, engine::base::Code::sandbox_lost);
}

TEST_F(RootLimitsTest, AForkBombMeetsThePidsLimitAndIsEndedByDefault) {  // ADV-B1, V9 on_limit
  auto beside = neighbour(box_);
  const auto result = attack({"forks", "bomb"}, {.pids = 30, .wall_ms = 30'000});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(hits(result), "pids") << describe(result);
  EXPECT_FALSE(result->timed_out) << describe(result);
  EXPECT_EQ(result->signal, 9);
  EXPECT_NE(describe(result).find("ended for that"), std::string::npos) << describe(result);
  beside.expect_undisturbed();
}

TEST_F(LimitsTest, RefusedForksAreErrorsOfTheCommand) {  // FR-142
  const auto result = attack({"forks", "few"}, {.pids = 20, .wall_ms = 20'000});
  EXPECT_NE(result->out.find("refused some"), std::string::npos) << describe(result);
  const auto bomb = attack({"forks", "bomb"}, {.pids = 20, .wall_ms = 1'000});
  EXPECT_TRUE(bomb->timed_out || is_root()) << describe(bomb);
  EXPECT_EQ(shell("echo usable")->out, "usable\n");
}

TEST_F(RootLimitsTest, AFewRefusedForksAreReportedAndATemplateMayChoose) {  // FR-142, V9 on_limit
  EXPECT_EQ(hits(attack({"forks", "few"}, {.pids = 20, .wall_ms = 20'000})), "pids");
  auto tmpl = HostRig::small_template();
  tmpl.limits.pids.on_limit = provider::OnLimit::kill;
  const auto strict = make(tmpl);
  auto result = rig().exec(strict, rig().shell("for i in $(seq 70); do (sleep 30) & done; sleep 30"));
  EXPECT_EQ(hits(result), "pids") << describe(result);
  tmpl.limits.pids.on_limit = provider::OnLimit::report;
  const auto patient = make(tmpl);
  result = rig().exec(patient, request({"forks", "bomb"}, {.pids = 20, .wall_ms = 1'000}));
  EXPECT_TRUE(result->timed_out) << describe(result);
  EXPECT_EQ(hits(result), "exec_wall pids") << describe(result);
}

TEST_F(LimitsTest, ADiskFillerMeetsItsOwnDiskOnly) {  // ADV-A11
  const auto other = make();
  auto beside = neighbour(other);
  auto result = attack({"disk"});
  EXPECT_EQ(result->out, "ENOSPC\n") << describe(result);
  EXPECT_EQ(hits(result), "disk") << describe(result);
  ASSERT_TRUE(shell("rm fill").has_value());
  EXPECT_EQ(hits(shell("true")), "")
      << "what an earlier command had filled and given back is no hit of this one";
  result = attack({"disk", "remove"});
  EXPECT_EQ(result->out, "ENOSPC\n") << describe(result);
  EXPECT_EQ(hits(result), "disk") << "it was full while the command ran: " << describe(result);
  beside.expect_undisturbed();
}

TEST_F(LimitsTest, AnInodeBombMeetsItsOwnDiskOnly) {
  const auto other = make();
  auto beside = neighbour(other);
  const auto result = attack({"inodes"});
  EXPECT_EQ(result->out, "ENOSPC\n") << describe(result);
  EXPECT_EQ(hits(result), "inodes") << describe(result);
  beside.expect_undisturbed();
}

TEST_F(LimitsTest, ATemplateMayEndWhoFillsTheDiskOrPrintsTooMuch) {  // V9 on_limit
  auto tmpl = HostRig::small_template();
  tmpl.limits.disk.on_limit = provider::OnLimit::kill;
  tmpl.limits.output.on_limit = provider::OnLimit::kill;
  const auto strict = make(tmpl);
  auto result = rig().exec(strict, rig().shell("head -c 100M /dev/zero > fill; sleep 60"));
  EXPECT_EQ(hits(result), "disk") << describe(result);
  EXPECT_EQ(result->signal, 9) << describe(result);
  ASSERT_TRUE(rig().exec(strict, rig().shell("rm fill")).has_value());
  result =
      rig().exec(strict, request({"flood", "100000000000"}, {.wall_ms = 60'000, .output_bytes = 1 << 20}));
  EXPECT_EQ(hits(result), "output") << describe(result);
  EXPECT_FALSE(result->timed_out);
}

TEST_F(LimitsTest, AFloodIsCutAndCountedByTheByte) {  // ADV-B6, FR-140
  auto beside = neighbour(box_);
  const std::size_t before = HostRig::resident_kib(rig().host_pid());
  const std::uint64_t size = is_long() ? 10'000'000'000 : 200'000'000;
  const auto result = attack({"flood", std::to_string(size)}, {.wall_ms = 300'000, .output_bytes = 1 << 20});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(hits(result), "output");
  EXPECT_EQ(result->out_total, size + 20);
  EXPECT_TRUE(result->out.ends_with("the-end"));
  EXPECT_LT(HostRig::resident_kib(rig().host_pid()), before + (32u << 10));
  beside.expect_undisturbed();
}

TEST_F(RootLimitsTest, AQuotaHoldsHoweverManyProcessorsACommandTakes) {  // ADV-B3
  auto tmpl = HostRig::small_template();
  tmpl.limits.cpu.value = 300;  // of one processor
  const auto slow = make(tmpl);
  const auto result = rig().exec(slow, request({"spin", "8"}, {.wall_ms = 2'000}));
  EXPECT_EQ(hits(result), "exec_wall") << describe(result);
  const std::uint64_t wall_ns = result->duration_ms * 1'000'000;
  EXPECT_GT(result->cpu_ns, wall_ns / 20);
  EXPECT_LT(result->cpu_ns, wall_ns * 45 / 100) << "of " << wall_ns;
}

TEST_F(LimitsTest, EndlessSleepAndEndlessWorkEndInTime) {  // ADV-B3, B5
  auto beside = neighbour(box_);
  auto request = rig().shell("sleep 100000");
  request.limits.wall_ms = 300;
  const auto sleep = rig().exec(box_, request);
  EXPECT_TRUE(sleep->timed_out);
  EXPECT_EQ(hits(sleep), "exec_wall");
  const auto spin = attack({"spin", "1000"}, {.pids = 30, .wall_ms = 30'000, .cpu_ms = 300});
  if (is_root()) {
    EXPECT_EQ(hits(spin), "exec_cpu pids") << describe(spin);
    EXPECT_LT(spin->cpu_ns, 1'500'000'000u);
  }
  const auto one = attack({"spin"}, {.wall_ms = 30'000, .cpu_ms = 1'000});
  EXPECT_EQ(hits(one), "exec_cpu") << describe(one);
  EXPECT_TRUE(one->timed_out) << describe(one);
  beside.expect_undisturbed();
}

}  // namespace
}  // namespace sandglass::tests
