// The child that is made ready for an exec to come (V5, V9): what it holds, who can use it, when it ends.
#include <fstream>

#include "tests/sandbox-runtime/init/init_harness.h"

namespace sandglass::sandbox_runtime::init {
namespace {

frames::ExecStart ready_shell(InitHarness& init, const std::string& script) {
  auto start = init.shell(script);
  start.leave = frames::Leave::given;
  return start;
}

/// Makes a child ready and answers as which process it waits.
pid_t make_ready(InitHarness& init, std::uint64_t number) {
  init.send(frames::ExecReady{number});
  const pid_t child = init.receive_at_barrier(number);
  init.let_in(number);
  return child;
}

TEST(ReadyChild, TheChildThatWaitedBecomesTheCommand) {
  InitHarness init;
  auto start = ready_shell(init, "echo $$; cat; id -u");
  start.stdin_bytes = 5;
  const std::string number = InitHarness::inside_number(make_ready(init, start.number));
  const std::string uid = init.run(init.shell("id -u")).out;
  EXPECT_EQ(init.run(start, "input").out, number + "\ninput" + uid);
}

TEST(ReadyChild, ItHoldsNothingOfInitsButItsOwnPipesAndTheBarrier) {
  // ADV-A17; a copy of another command's input would keep that from ending
  InitHarness init;
  auto reader = init.shell("cat");
  reader.stdin_bytes = 4;
  init.begin(reader);
  const pid_t child = make_ready(init, 50);
  const std::string folder = "/proc/" + std::to_string(child) + "/fd";
  // its streams, five pipes and the barrier
  EXPECT_TRUE(init.wait_for(
      [&] { return std::distance(std::filesystem::directory_iterator(folder), {}) == 3 + 5 + 1; }));
  init.send(frames::StdinData{reader.number, "some"});
  EXPECT_EQ(init.finish(reader.number).out, "some");
}

TEST(ReadyChild, ACommandOfAnyAllowedSizeFitsThrough) {
  InitHarness init;
  auto start = ready_shell(init, "");
  start.argv = {
      "/bin/sh", "-c", "echo ${#1} ${#2}", "sh", std::string(60'000, 'a'), std::string(60'000, 'b')};
  make_ready(init, start.number);
  EXPECT_EQ(init.run(start).out, "60000 60000\n");
}

TEST(ReadyChild, AnotherNumberIsNotItsCommand) {
  InitHarness init;
  auto start = ready_shell(init, "echo $$");
  const pid_t waiting = make_ready(init, start.number + 7);
  init.begin(start);
  const pid_t own = init.receive_at_barrier(start.number);
  EXPECT_NE(own, waiting);
  const std::string number = InitHarness::inside_number(own);
  init.send(frames::ExecGo{start.number, true});
  EXPECT_EQ(init.finish(start.number).out, number + "\n");
  EXPECT_TRUE(std::filesystem::exists("/proc/" + std::to_string(waiting)));
}

TEST(ReadyChild, WithoutTheChildTheCommandWaitsAtTheBarrier) {
  // whatever has ended it: the host's word was for that one
  InitHarness init;
  auto start = ready_shell(init, "echo ran > ran; echo out");
  const pid_t child = make_ready(init, start.number);
  kill(child, SIGKILL);
  ASSERT_TRUE(init.wait_for([&] { return !std::filesystem::exists("/proc/" + std::to_string(child)); }));
  init.begin(start);
  EXPECT_NE(init.receive_at_barrier(start.number), child);
  EXPECT_FALSE(std::filesystem::exists(init.workspace() + "/ran"));
  init.send(frames::ExecGo{start.number, true});
  EXPECT_EQ(init.finish(start.number).out, "out\n");
}

TEST(ReadyChild, ItEndsWhenAnotherIsWantedWhenItsCommandIsRefusedAndWithItsHost) {
  InitHarness init;
  const auto gone = [](pid_t pid) {
    return [pid] { return !std::filesystem::exists("/proc/" + std::to_string(pid)); };
  };
  const pid_t first = make_ready(init, 50);
  const pid_t second = make_ready(init, 51);
  EXPECT_TRUE(init.wait_for(gone(first)));
  auto bad = ready_shell(init, "");
  bad.number = 51;
  bad.argv.clear();
  EXPECT_TRUE(init.run(bad).refused.has_value());
  EXPECT_TRUE(init.wait_for(gone(second)));
  const pid_t third = make_ready(init, 52);
  init.send(frames::ExecGo{52, false});
  EXPECT_TRUE(init.wait_for(gone(third)));
  const pid_t fourth = make_ready(init, 53);
  init.send(frames::Reset{9});
  EXPECT_TRUE(init.wait_for([&] { return !init.resets.empty(); }));
  EXPECT_TRUE(init.wait_for(gone(fourth)));
  // the next host learns whose group may be there
  ASSERT_EQ(init.known.size(), 1u);
  EXPECT_EQ(init.known[0].number, 53u);
  EXPECT_EQ(init.known[0].phase, frames::ExecPhase::waiting);
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::init
