// Running commands: output, children, time-outs (field reports K), through host and init.
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "tests/security/attack_rig.h"

namespace sandglass::tests {
namespace {

using engine::base::Code;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class ExecTest : public AttackTest {
 protected:
  /// Seconds to sleep that no other run of this test sleeps.
  static std::string number(int which) {
    return "9800" + std::to_string(which) + "." + std::to_string(::getpid());
  }
  /// Begins a command and returns when it has said something.
  std::future<Result<ExecResult>> begin(const provider::ExecRequest& wanted) {
    auto up = std::make_shared<std::promise<void>>();
    auto is_up = up->get_future();
    auto running = rig().begin(box_, wanted, [up, told = false](const provider::OutputChunk&) mutable {
      if (!std::exchange(told, true)) up->set_value();
    });
    is_up.wait();
    return running;
  }
};

class RootExecTest : public ExecTest {};

TEST_F(ExecTest, AtATimeoutEveryProcessOfTheExecIsGoneBeforeTheReply) {  // FR-136, FR-144, ADV-B5
  const std::string others = number(1);
  const std::string ours = number(2);
  auto other = begin(rig().shell("echo up; sleep " + others));  // it must not be taken along
  auto request = rig().shell("echo said; N=" + ours +
                             "; (while :; do :; done) & setsid sh -c \"setsid sleep $N & sleep $N\" & "
                             "(setsid sh -c \"trap : TERM HUP INT; sleep $N; sleep $N\" &) ; sleep $N");
  request.limits.wall_ms = 500;
  const auto result = rig().exec(box_, request);
  EXPECT_EQ(HostRig::processes_with(ours), 0u);
  EXPECT_TRUE(result->timed_out) << describe(result);
  EXPECT_EQ(hits(result), "exec_wall");
  EXPECT_EQ(result->out, "said\n");
  EXPECT_EQ(other.wait_for(0s), std::future_status::timeout) << "the other exec was ended too";
  EXPECT_EQ(HostRig::processes_with(others), 2u) << "sh and sleep";
  ASSERT_TRUE(rig().destroy(box_).has_value());
  EXPECT_EQ(other.get().error().code, Code::sandbox_lost);
  EXPECT_EQ(HostRig::processes_with(others), 0u);
}

TEST_F(ExecTest, TheReplyWaitsForTheCommandAndNotForWhoHoldsItsOutput) {  // FR-138, ADV-B7
  const std::string sleep = "sleep " + number(3);
  const auto result = shell(sleep + " & (setsid " + sleep + " &) ; echo done; exit 3");
  EXPECT_EQ(result->exit_code, 3) << describe(result);
  EXPECT_EQ(result->out, "done\n");
  if (is_root()) EXPECT_EQ(result->background, 2u);
  EXPECT_EQ(HostRig::processes_with(number(3)), 0u);
}

TEST_F(ExecTest, BothStreamsAreDrainedAllTheTimeAndInputMayBeIgnored) {  // FR-139
  auto wanted = request({"both", "3000000"});
  wanted.stdin_bytes = std::string(1 << 20, 'i');
  const auto result = rig().exec(box_, wanted);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->exit_code, 0) << hits(result);
  EXPECT_EQ(result->out, std::string(3'000'000, 'b') + std::string(10'000, 'x'));
  EXPECT_EQ(result->err, result->out);
}

TEST_F(ExecTest, OutputIsKeptByTheByte) {  // FR-141
  const auto result = attack({"split"});
  std::string expected(
      "\xe2\x89\xa4|\xff|a\0b|\xf0\x9f\x98\x80|\xff\xfe"
      "A\0",
      19);
  for (const std::size_t border : {std::size_t{4096}, std::size_t{65536}}) {
    expected += std::string(border - 2, '.') + "\xf0\x9f\x98\x80";
  }
  EXPECT_TRUE(result->out == expected) << result->out.size();
}

TEST_F(ExecTest, HeadAndTailOfLongOutputAreKeptWithTheExactGap) {  // FR-140, V9
  auto wanted = rig().shell("seq 1 400000");
  wanted.limits.output_bytes = 100'000;
  const auto result = rig().exec(box_, wanted);
  std::string all;
  for (int i = 1; i <= 400'000; ++i) all += std::to_string(i) + "\n";
  EXPECT_EQ(result->out_total, all.size());
  EXPECT_TRUE(result->truncated());
  EXPECT_TRUE(all.starts_with(result->out_head)) << result->out_head.size();
  EXPECT_TRUE(all.ends_with(result->out)) << result->out.size();
  EXPECT_GE(result->out_head.size(), 16'000u);
  EXPECT_GE(result->out.size(), 50'000u);
  EXPECT_EQ(result->out_dropped(), all.size() - result->out_head.size() - result->out.size());
  const auto short_one = shell("echo short");
  EXPECT_FALSE(short_one->truncated());
  EXPECT_EQ(short_one->out_head, "");
  EXPECT_EQ(short_one->out_dropped(), 0u);
}

TEST_F(ExecTest, WhoAsksAgainAfterTheEndGetsHeadAndTailToo) {  // FR-140, FR-146, S11
  auto wanted = rig().shell("seq 1 400000", "again");
  wanted.limits.output_bytes = 100'000;
  const auto first = rig().exec(box_, wanted);
  rig().disconnect();
  rig().connect();
  const auto second = rig().exec(box_, wanted);
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ(second->out_head, first->out_head);
  EXPECT_EQ(second->out_total, first->out_total);
  EXPECT_EQ(second->out, first->out);
}

TEST_F(ExecTest, OrphansAreReapedByTheFirstProcess) {  // FR-142, FR-143
  const auto result = attack({"zombies", is_long() ? "5000" : "1000"}, {.wall_ms = 60'000});
  EXPECT_EQ(result->exit_code, 0) << describe(result);
  EXPECT_EQ(result->out, "refused 0\n");
}

TEST_F(RootExecTest, ASandboxWhoseFirstProcessDiesOrStopsIsLostAndNobodyHangs) {  // FR-145, ADV-B25
  HostRig own;  // its only sandbox is the one whose first process is found
  for (const int signal : {SIGKILL, SIGSTOP}) {
    if (signal == SIGSTOP && !is_long()) continue;  // silence is noticed after twelve seconds
    const auto box = own.make();
    std::promise<void> up;
    auto running = own.begin(box, own.shell("echo up; sleep 1000"),
                             [&](const provider::OutputChunk&) { up.set_value(); });
    up.get_future().wait();
    ASSERT_EQ(::kill(own.init_pid(), signal), 0);
    ASSERT_EQ(running.wait_for(40s), std::future_status::ready);
    EXPECT_EQ(running.get().error().code, Code::sandbox_lost);
    EXPECT_EQ(own.exec(box, own.shell("true")).error().code, Code::sandbox_lost) << "it is not used again";
  }
}

TEST_F(ExecTest, AReaderThatComesBackTenTimesMissesNothing) {  // FR-146
  const auto wanted = rig().shell("i=0; while [ $i -lt 60000 ]; do echo $i; i=$((i+1)); done", "numbers");
  std::string expected;
  for (int i = 0; i < 60'000; ++i) expected += std::to_string(i) + "\n";
  for (int i = 0; i < 10; ++i) {
    auto running = begin(wanted);
    rig().disconnect();
    (void)running.get();
    rig().connect();
  }
  const auto result = rig().exec(box_, wanted);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->out == expected) << result->out.size();
}

}  // namespace
}  // namespace sandglass::tests
