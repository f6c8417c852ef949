// Sandboxes without root: this whole program drops to an unused uid before its first test. Escapes are the
// common ones.
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tests/support/jail/escape_cases.h"
#include "tests/support/plain_user.h"

namespace sandglass::tests {
namespace {

using namespace sandbox_runtime::provider;

constexpr unsigned kPlainUid = 54321;  // nobody's

/// Copies the programs to where the plain uid can read them, then becomes it.
class BecomePlain final : public testing::Environment {
 public:
  void SetUp() override {
    if (::geteuid() != 0) return;
    programs_ = std::make_unique<support::PlainPrograms>(
        kPlainUid, std::initializer_list<const char*>{"sandglass-keeper", "sandbox-shell-init"});
    ::setenv("SANDGLASS_BUILD", programs_->path().c_str(), 1);
    support::become_plain(kPlainUid);
  }
  void TearDown() override { programs_.reset(); }

 private:
  std::unique_ptr<support::PlainPrograms> programs_;
};
const auto* const kPlain = testing::AddGlobalTestEnvironment(new BecomePlain);

TEST(RootlessTest, CommandsRunAsUid1000WithoutPrivilegeAndDestroyLeavesNothing) {
  JailRig rig;
  const MachineState before = rig.machine_state();
  Sandbox box = rig.make();
  EXPECT_EQ(box.run("id -u; grep CapEff /proc/self/status; grep -c . /proc/self/uid_map").output,
            "1000\nCapEff:\t0000000000000000\n1\n");
  EXPECT_TRUE(box.run("echo x > /workspace/x; sleep 1000 >/dev/null 2>&1 &").ok());
  ASSERT_TRUE(rig.launcher().destroy(box.id()));
  EXPECT_EQ(rig.machine_state(), before) << describe(rig.machine_state());
}

TEST(RootlessTest, RequiredMemoryIsRefusedWithNameAndRemedyAndBestEffortIsRecorded) {  // V10
  JailRig rig;
  Template strict = JailRig::small_template();
  strict.limits.memory.need = Need::required;
  const auto refused = rig.launcher().create({"strict", strict});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, engine::base::Code::limit_unenforceable);
  EXPECT_NE(refused.error().message.find("memory"), std::string::npos);
  EXPECT_NE(refused.error().message.find("as root"), std::string::npos);
  Sandbox box = rig.make();
  const auto& support = box.launched().support;
  const auto memory = std::ranges::find(support, LimitKind::memory, &LimitSupport::kind);
  ASSERT_NE(memory, support.end());
  EXPECT_EQ(memory->strength, Strength::missing);
}

TEST(RootlessTest, AForkBombMeetsEagain) {  // ADV-B1
  JailRig rig;
  Template tmpl = JailRig::small_template();
  tmpl.limits.pids.value = 20;
  Sandbox box = rig.make(tmpl);
  const CommandResult result = box.run(
      "python3 -c '\nimport os,time,signal\nn=[]\ntry:\n  while len(n)<100:\n    p=os.fork()\n"
      "    if p==0: time.sleep(1000)\n    n.append(p)\nexcept BlockingIOError: pass\n"
      "for p in n: os.kill(p,9); os.waitpid(p,0)\nprint(len(n)<20)'");
  EXPECT_EQ(result.output, "True\n");
  Sandbox other = rig.make(tmpl);  // the number counts inside each sandbox alone
  EXPECT_EQ(other.run("echo fine").output, "fine\n");
}

TEST(RootlessTest, TheWorkspaceIsBoundedInBytesAndFiles) {  // ADV-A11
  JailRig rig;
  Sandbox box = rig.make();
  box.begin("dd if=/dev/zero of=/workspace/fill bs=64k 2>&1 | grep -c 'No space left'");
  EXPECT_EQ(box.finish().output, "1\n");
  const auto full = rig.launcher().exec_usage(box.id(), box.last_exec()).value();
  EXPECT_TRUE(
      std::ranges::any_of(full.limits_hit, [](const auto& hit) { return hit.kind == LimitKind::disk; }));
  Sandbox many = rig.make();
  EXPECT_EQ(
      many.run("for i in $(seq 3000); do : > /workspace/$i || break; done 2>&1 | grep -c 'No space left'; "
               "test $(ls /workspace | wc -l) -le 2000 && echo bounded")
          .output,
      "1\nbounded\n");
}

TEST(RootlessTest, InitCannotBeReadThoughItSharesTheUid) {  // V3, ADV-B9
  JailRig rig;
  Sandbox box = rig.make();
  for (const char* command :
       {"head -c1 /proc/1/environ", "head -c1 /proc/1/maps", "ls /proc/1/fd", "ls /proc/1/root/",
        "readlink /proc/1/exe", "python3 -c 'open(\"/proc/1/mem\",\"r+b\")'"}) {
    EXPECT_FALSE(box.run(command).ok()) << command;
  }
  EXPECT_EQ(box.run("kill -9 1; sleep 0; echo still").output, "still\n");
}

TEST(RootlessTest, WhenTheKeeperIsKilledNothingIsLeft) {  // V1
  JailRig rig;
  Sandbox box = rig.make();
  pollfd ended{box.launched().pidfd.get(), POLLIN, 0};
  ::kill(rig.keeper_pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return ::poll(&ended, 1, 0) == 1; }, 5000));
  EXPECT_TRUE(rig.launcher().destroy(box.id()));
  EXPECT_TRUE(rig.launcher().inventory()->empty());
}

}  // namespace
}  // namespace sandglass::tests
