// Who dies with whom (V1): the keeper, the host, a create that is killed midway.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/provider/linux/keeper_protocol.h"
#include "sandbox-runtime/provider/linux/packet.h"
#include "tests/support/jail/jail_rig.h"

namespace sandglass::tests {
namespace {

using namespace sandbox_runtime::provider;

bool has_ended(const engine::base::UniqueFd& pidfd) {
  pollfd process{pidfd.get(), POLLIN, 0};
  return ::poll(&process, 1, 0) == 1;
}

TEST(KeeperTest, WhenTheKeeperIsKilledNothingOfTheSandboxesIsLeft) {
  JailRig rig;
  const MachineState before = rig.machine_state();
  Sandbox first = rig.make();
  Sandbox second = rig.make();
  ASSERT_TRUE(first.run("setsid sleep 1000 >/dev/null 2>&1 & true").ok());
  ::kill(rig.keeper_pid(), SIGKILL);
  // Processes, mounts, loops and namespaces go by the kernel's own doing; nobody of ours helps.
  EXPECT_TRUE(eventually(
      [&] { return has_ended(first.launched().pidfd) && has_ended(second.launched().pidfd); }, 5000));
  EXPECT_TRUE(eventually(
      [&] {
        const MachineState now = rig.machine_state();
        return now.mounts == before.mounts && now.loops == before.loops && now.processes == before.processes;
      },
      5000))
      << describe(rig.machine_state());
  // The empty group folders go with destroy, by name, through a new keeper.
  for (const std::string& id : {first.id(), second.id()}) {
    const auto destroyed = rig.launcher().destroy(id);
    EXPECT_TRUE(destroyed.has_value()) << destroyed.error().message;
  }
  EXPECT_EQ(rig.machine_state(), before) << describe(rig.machine_state());
  Sandbox third = rig.make();
  EXPECT_TRUE(third.run("true").ok());
}

TEST(KeeperTest, ANewHostAdoptsRunningSandboxesWithTheirExecs) {
  JailRig rig(30'000);
  Template tmpl = JailRig::small_template();
  tmpl.network = true;
  Sandbox box = rig.make(tmpl);
  box.begin("echo before; read -t 20 line < /tmp/fifo; echo after");
  const std::string id = box.id();
  const int keeper = rig.keeper_pid();
  rig.restart_host();
  EXPECT_EQ(rig.keeper_pid(), keeper);
  auto adopted = rig.launcher().adopt();
  ASSERT_TRUE(adopted.has_value()) << adopted.error().message;
  ASSERT_EQ(adopted->size(), 1u);
  EXPECT_EQ((*adopted)[0].id, id);
  EXPECT_TRUE((*adopted)[0].listener.valid());
  Sandbox same(rig.launcher(), std::move((*adopted)[0]));
  const CommandResult result = same.finish();  // of the exec that the former host had started
  EXPECT_NE(result.output.find("before\n"), std::string::npos);
  EXPECT_TRUE(rig.launcher().exec_usage(id, 1).has_value());
  EXPECT_TRUE(rig.launcher().adopt()->empty());
  const auto destroyed = rig.launcher().destroy(id);
  EXPECT_TRUE(destroyed.has_value()) << destroyed.error().message;
}

TEST(KeeperTest, WithoutAHostTheSandboxesEndAfterTheGrace) {
  JailRig rig(200);
  const MachineState before = rig.machine_state();
  Sandbox box = rig.make();
  const int keeper = rig.keeper_pid();
  rig.drop_host();
  EXPECT_TRUE(eventually([&] { return has_ended(box.launched().pidfd); }, 5000));
  int status = -1;
  EXPECT_EQ(::waitpid(keeper, &status, 0), keeper);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(rig.machine_state(), before) << describe(rig.machine_state());  // the keeper alone, no host came
  rig.start_host();
  const auto swept = rig.launcher().sweep();
  ASSERT_TRUE(swept.has_value()) << swept.error().message;
  EXPECT_EQ(*swept, std::vector<std::string>{box.id()});
  EXPECT_TRUE(rig.launcher().inventory()->empty());
}

TEST(KeeperTest, ADeadSandboxIsNotAliveInTheInventoryAndCanBeDestroyed) {
  JailRig rig;
  Sandbox box = rig.make();
  EXPECT_TRUE((*rig.launcher().inventory())[0].alive);
  ::syscall(424 /* pidfd_send_signal */, box.launched().pidfd.get(), SIGKILL, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return !(*rig.launcher().inventory())[0].alive; }, 5000));
  EXPECT_TRUE(rig.launcher().destroy(box.id()));
  EXPECT_TRUE(rig.launcher().inventory()->empty());
}

/// A packet to the keeper that nobody of ours would send.
std::string talk_nonsense(const std::string& socket_path, const void* bytes, std::size_t size,
                          std::vector<int> fds) {
  sandbox_runtime::provider::linux_jail::KeeperReply reply;
  std::vector<engine::base::UniqueFd> received;
  const engine::base::UniqueFd socket = JailRig::connect_to(socket_path);
  if (!linux_jail::send_packet(socket.get(), bytes, size, fds)) return "not sent";
  const ssize_t got = linux_jail::receive_packet(socket.get(), &reply, sizeof reply, received);
  if (got <= 0) return "closed";
  return reply.error == 0 ? "accepted" : "refused";
}

TEST(KeeperTest, MalformedRequestsAreRefusedOrCloseTheConnectionAndDoNoHarm) {
  JailRig rig(30'000);
  Sandbox box = rig.make();
  const std::string path = rig.folder() + "/sandglass-" + rig.folder_id() + "-keeper.sock";
  rig.drop_host();
  linux_jail::KeeperRequest request;
  request.op = linux_jail::KeeperOp::launch;
  std::strcpy(request.id, "other");
  EXPECT_EQ(talk_nonsense(path, &request, sizeof request, {}), "refused");
  EXPECT_EQ(talk_nonsense(path, &request, sizeof request - 1, {}), "closed");
  EXPECT_EQ(talk_nonsense(path, &request, sizeof request, {0}), "closed");  // more descriptors than announced
  request.version = 99;
  EXPECT_EQ(talk_nonsense(path, &request, sizeof request, {}), "closed");
  request.version = linux_jail::kKeeperVersion;
  request.op = static_cast<linux_jail::KeeperOp>(77);
  EXPECT_EQ(talk_nonsense(path, &request, sizeof request, {}), "closed");
  request.op = linux_jail::KeeperOp::launch;
  request.fd_count = 6;
  using linux_jail::FdRole;
  const FdRole roles[] = {FdRole::plan,           FdRole::init,         FdRole::control_inside,
                          FdRole::barrier_inside, FdRole::control_host, FdRole::barrier_host};
  std::copy(std::begin(roles), std::end(roles), request.roles);
  EXPECT_EQ(talk_nonsense(path, &request, sizeof request, {0, 1, 2, 0, 1, 2}),
            "refused");  // the plan is no plan
  rig.start_host();
  auto adopted = rig.launcher().adopt();
  ASSERT_EQ(adopted->size(), 1u);
  EXPECT_EQ((*adopted)[0].id, box.id());
}

TEST(KeeperTest, ACreateKilledAtAnyPointLeavesNothingAfterASweep) {
  JailRig rig(100);
  ASSERT_FALSE(engine::base::crash_points().empty());
  rig.drop_host();
  int tried = 0;
  for (const std::string_view point : engine::base::crash_points()) {
    if (!point.starts_with("launcher.")) continue;
    if (point == "launcher.image_made" && ::geteuid() != 0) continue;  // a plain user's disks are memory
    ++tried;
    const std::string program = build_folder() + "/bin/sandbox-create-once";
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("SANDGLASS_CRASH_AT", std::string(point).c_str(), 1);
      ::execl(program.c_str(), "sandbox-create-once", rig.folder().c_str(), rig.folder_id().c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << point << " was not passed";
    rig.start_host();
    const auto swept = rig.launcher().sweep();
    EXPECT_TRUE(swept.has_value()) << point << ": " << swept.error().message;
    EXPECT_TRUE(rig.launcher().inventory()->empty()) << point;
    for (const auto& entry : std::filesystem::directory_iterator(rig.folder())) {
      EXPECT_NE(entry.path().filename().string().find("half"), 0u) << entry.path();
      EXPECT_EQ(entry.path().string().find("-half"), std::string::npos) << point << ": " << entry.path();
    }
    rig.drop_host();
  }
  EXPECT_GE(tried, 5);
}

TEST(KeeperTest, TheListenerInsideIsReachedFromInsideAndAcceptedOutside) {  // V4
  JailRig rig;
  Template tmpl = JailRig::small_template();
  tmpl.network = true;
  Sandbox box = rig.make(tmpl);
  box.begin(
      "python3 -c 'import socket\ns=socket.create_connection((\"127.0.0.1\",3128)); s.sendall(b\"hello\"); "
      "print(s.recv(9))'");
  pollfd waiting{box.launched().listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 10'000), 1);
  const engine::base::UniqueFd connection(
      ::accept4(box.launched().listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  char bytes[16] = {};
  EXPECT_EQ(::read(connection.get(), bytes, sizeof bytes), 5);
  EXPECT_STREQ(bytes, "hello");
  EXPECT_EQ(::write(connection.get(), "back", 4), 4);
  EXPECT_EQ(box.finish().output, "b'back'\n");
  Sandbox closed = rig.make();
  EXPECT_FALSE(closed.launched().listener.valid());
  EXPECT_FALSE(
      closed.run("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\",3128))' 2>/dev/null")
          .ok());
}

}  // namespace
}  // namespace sandglass::tests
