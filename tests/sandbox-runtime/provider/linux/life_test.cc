// A sandbox from create to verified destroy (V3, V12, S7).
#include <gtest/gtest.h>

#include "tests/support/jail/jail_rig.h"

namespace sandglass::tests {
namespace {

using engine::base::Code;

TEST(SandboxLifeTest, ACommandRunsInsideAsUid1000WithoutAnyPrivilege) {
  JailRig rig;
  Sandbox box = rig.make();
  const CommandResult result =
      box.run("id -u; id -g; pwd; grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status");
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.output,
            "1000\n1000\n/workspace\n"
            "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
            "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n");
}

TEST(SandboxLifeTest, DestroyLeavesNothingAndMayBeRepeated) {
  JailRig rig;
  const MachineState before = rig.machine_state();
  Sandbox box = rig.make();
  EXPECT_TRUE(box.run("echo x > file; sleep 1000 >/dev/null 2>&1 & echo started").ok());
  EXPECT_NE(rig.machine_state(), before);
  for (int i = 0; i < 2; ++i) {
    const auto destroyed = rig.launcher().destroy(box.id());
    ASSERT_TRUE(destroyed.has_value()) << destroyed.error().message;
    EXPECT_EQ(rig.machine_state(), before) << describe(rig.machine_state());
  }
  EXPECT_TRUE(rig.launcher().inventory()->empty());
}

TEST(SandboxLifeTest, FiftySandboxesLeaveNothingBehind) {
  JailRig rig;
  {
    Sandbox warm_up = rig.make();
    ASSERT_TRUE(rig.launcher().destroy(warm_up.id()));
  }
  const MachineState before = rig.machine_state();
  for (int i = 0; i < 50; ++i) {
    Sandbox box = rig.make();
    ASSERT_TRUE(box.run("true").ok());
    const auto destroyed = rig.launcher().destroy(box.id());
    ASSERT_TRUE(destroyed.has_value()) << destroyed.error().message;
  }
  EXPECT_EQ(rig.machine_state(), before) << describe(rig.machine_state());
}

TEST(SandboxLifeTest, TheDoctorMakesASandboxAndHasARemedyForWhatIsNotThere) {  // V18
  JailRig rig;
  const auto features = rig.launcher().features();
  bool made = false;
  for (const auto& feature : features) {
    using sandbox_runtime::provider::Strength;
    EXPECT_FALSE(feature.detail.empty()) << feature.name;
    EXPECT_EQ(feature.remedy.empty(), feature.strength == Strength::works) << feature.name;
    if (feature.name == "sandbox") made = feature.strength == Strength::works;
  }
  EXPECT_TRUE(made);
  EXPECT_TRUE(rig.launcher().inventory()->empty());
}

TEST(SandboxLifeTest, AnIdIsUsedOnce) {
  JailRig rig;
  Sandbox box = rig.make();
  const auto again = rig.launcher().create({box.id(), JailRig::small_template()});
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, Code::already_exists);
  EXPECT_TRUE(box.run("true").ok());
}

}  // namespace
}  // namespace sandglass::tests
