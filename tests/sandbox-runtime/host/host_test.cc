// Real sandboxes through host and client: field reports K, ADV-B1 to B7, B25, B26, SANDBOX V9, V13.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>

#include "engine/base/hash.h"
#include "engine/base/system_ports.h"
#include "engine/base/unique_fd.h"
#include "tests/support/host/host_rig.h"

namespace sandglass::sandbox_runtime::host {
namespace {

using engine::base::Code;
using namespace std::chrono_literals;
using provider::LimitKind;

bool hit(const provider::ExecResult& result, LimitKind kind) {
  return std::ranges::any_of(result.limits_hit, [&](const auto& item) { return item.kind == kind; });
}

std::string describe(const provider::ExecResult& result) {
  std::string text = "exit " + std::to_string(result.exit_code) + " signal " + std::to_string(result.signal) +
                     " out '" + result.out.substr(0, 500) + "' err '" + result.err.substr(0, 500) + "'";
  for (const auto& item : result.limits_hit) {
    text += " [" + std::string(provider::name_of(item.kind)) + ": " + item.detail + "]";
  }
  return text;
}

TEST(Host, ACommandRunsInASandboxAndTheSandboxEnds) {
  HostRig rig;
  const auto sandbox = rig.make();
  auto request = rig.shell("echo \"$GREETING from $(id -u) in $PWD\"; echo oops >&2; exit 7");
  request.env["GREETING"] = "hello";
  const auto result = rig.exec(sandbox, request);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->exit_code, 7) << describe(*result);
  EXPECT_EQ(result->out, "hello from 1000 in /workspace\n");
  EXPECT_EQ(result->err, "oops\n");
  EXPECT_TRUE(result->limits_hit.empty()) << describe(*result);
  ASSERT_TRUE(rig.destroy(sandbox).has_value());
  EXPECT_TRUE(rig.left_on_machine().empty());
  EXPECT_EQ(rig.exec(sandbox, rig.shell("true")).error().code, Code::sandbox_lost);
  EXPECT_TRUE(rig.destroy(sandbox).has_value()) << "destroying again is no error";
}

TEST(Host, AVariableThatTheTemplateDoesNotAllowIsRefused) {
  HostRig rig;
  const auto sandbox = rig.make();
  auto request = rig.shell("true");
  request.env["LD_PRELOAD"] = "/workspace/evil.so";
  EXPECT_EQ(rig.exec(sandbox, request).error().code, Code::invalid_argument);
}

TEST(Host, NothingOfATimedOutCommandIsLeftWhenTheReplyComes) {
  // FR-136, FR-144, ADV-B5
  HostRig rig;
  const auto sandbox = rig.make();
  auto request = rig.shell("setsid sleep 98761 & sleep 98762 & echo said; while :; do :; done");
  request.limits.wall_ms = 500;
  const auto result = rig.exec(sandbox, request);
  EXPECT_EQ(HostRig::processes_with("9876"), 0u);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->timed_out);
  EXPECT_TRUE(hit(*result, LimitKind::exec_wall)) << describe(*result);
  EXPECT_EQ(result->out, "said\n");
  EXPECT_EQ(rig.exec(sandbox, rig.shell("echo alive"))->out, "alive\n");
}

TEST(Host, ProcessesThatOutliveTheirCommandAreCountedAndEnded) {
  // FR-138
  HostRig rig;
  const auto sandbox = rig.make();
  const auto begin = std::chrono::steady_clock::now();
  const auto result = rig.exec(sandbox, rig.shell("sleep 87651 & exit 0"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->exit_code, 0);
  if (geteuid() == 0) EXPECT_EQ(result->background, 1u);
  EXPECT_EQ(HostRig::processes_with("87651"), 0u);
}

TEST(Host, LimitsAreNamedFromTheKernelsCounters) {
  // V9, FR-142, ADV-B1, ADV-B2
  if (geteuid() != 0) return;  // without control groups there are no counters
  HostRig rig;
  const auto sandbox = rig.make();
  auto request = rig.shell("");
  request.argv = {"/usr/bin/python3", "-c", "x=[]\nwhile True: x.append(bytearray(1<<20))"};
  auto result = rig.exec(sandbox, request);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(hit(*result, LimitKind::memory)) << describe(*result);
  EXPECT_NE(result->exit_code, 0);
  result =
      rig.exec(sandbox, rig.shell("i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; echo done"));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(hit(*result, LimitKind::pids)) << describe(*result);
  request = rig.shell("while :; do :; done");
  request.limits.cpu_ms = 300;
  result = rig.exec(sandbox, request);
  EXPECT_TRUE(hit(*result, LimitKind::exec_cpu)) << describe(*result);
  EXPECT_GE(result->cpu_ns, 300'000'000u);
  EXPECT_LT(result->cpu_ns, 900'000'000u);
  result = rig.exec(sandbox, rig.shell("dd if=/dev/zero of=full bs=1M; rm full; echo after"));
  EXPECT_EQ(result->out, "after\n") << describe(*result);
  result = rig.exec(sandbox, rig.shell("dd if=/dev/zero of=full bs=1M"));
  EXPECT_TRUE(hit(*result, LimitKind::disk))
      << describe(*result) << rig.exec(sandbox, rig.shell("stat -f /workspace; ls -la"))->out;
}

std::size_t resident_kib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

TEST(Host, AFloodIsCountedCutAndHoldsNobodyUp) {
  // FR-140, ADV-B6
  HostRig rig;
  const auto sandbox = rig.make();
  ASSERT_TRUE(rig.exec(sandbox, rig.shell("true")).has_value());
  const std::size_t before = resident_kib(rig.host_pid());
  auto flood = rig.shell("head -c 300000000 /dev/zero; echo; echo last");
  flood.limits.output_bytes = 1 << 20;
  auto flooding = rig.begin(sandbox, flood);
  EXPECT_EQ(rig.exec(sandbox, rig.shell("echo quick"))->out, "quick\n");
  const auto result = flooding.get();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->out_total, 300000006u);
  EXPECT_EQ(result->out_head.size() + result->out.size(), 1u << 20);
  EXPECT_EQ(result->out_dropped(), 300000006u - (1u << 20));
  EXPECT_TRUE(result->out.ends_with("\nlast\n"));
  EXPECT_TRUE(hit(*result, LimitKind::output));
  EXPECT_LT(resident_kib(rig.host_pid()), before + (32u << 10));
}

TEST(Host, TheSameKeyAttachesAndAnotherCommandIsAConflict) {
  HostRig rig;
  const auto sandbox = rig.make();
  const auto request = rig.shell("echo once >> count; cat count", "the-key");
  EXPECT_EQ(rig.exec(sandbox, request)->out, "once\n");
  EXPECT_EQ(rig.exec(sandbox, request)->out, "once\n");
  EXPECT_EQ(rig.exec(sandbox, rig.shell("cat count"))->out, "once\n");
  EXPECT_EQ(rig.exec(sandbox, rig.shell("echo other", "the-key")).error().code, Code::exec_conflict);
}

TEST(Host, AnOldTokenIsFencedAndANewerOneTakesOver) {
  HostRig rig;
  auto sandbox = rig.make();
  const provider::SandboxRef older{sandbox.id, sandbox.fence - 1}, newer{sandbox.id, sandbox.fence + 1};
  EXPECT_EQ(rig.exec(older, rig.shell("true")).error().code, Code::lease_fenced);
  EXPECT_TRUE(rig.exec(newer, rig.shell("true")).has_value());
  EXPECT_EQ(rig.exec(sandbox, rig.shell("true")).error().code, Code::lease_fenced);
  EXPECT_EQ(rig.destroy(sandbox).error().code, Code::lease_fenced);
  EXPECT_EQ(rig.exec({"unknown", 1}, rig.shell("true")).error().code, Code::sandbox_lost);
  EXPECT_TRUE(rig.destroy(newer).has_value());
}

TEST(Host, CreateIsIdempotentByIdAndRefusesAnotherTemplate) {
  // ADV-E23
  HostRig rig;
  const auto sandbox = rig.make();
  provider::CreateRequest again;
  again.spec.id = sandbox.id;
  again.spec.tmpl = HostRig::small_template();
  again.fence = sandbox.fence;
  again.expires_at_ms = engine::base::SystemClock().monotonic_ns() / 1'000'000 + 60'000;
  EXPECT_TRUE(rig.create(again).has_value());
  again.spec.tmpl.limits.pids.value = 33;
  EXPECT_EQ(rig.create(again).error().code, Code::already_exists);
  EXPECT_EQ(rig.inventory()->size(), 1u);
}

TEST(Host, ARunningCommandCanBeKilled) {
  HostRig rig;
  const auto sandbox = rig.make();
  std::promise<void> up;
  auto running = rig.begin(sandbox, rig.shell("echo up; sleep 76541", "long"),
                           [&](const provider::OutputChunk&) { up.set_value(); });
  up.get_future().wait();
  ASSERT_TRUE(rig.kill_exec(sandbox, "long").has_value());
  const auto result = running.get();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->cancelled);
  EXPECT_EQ(result->out, "up\n");
  EXPECT_EQ(HostRig::processes_with("76541"), 0u);
}

TEST(Host, ADestructionEndsWhatIsUnderWayAndASecondOneIsFine) {
  // ADV-E27
  HostRig rig;
  const auto sandbox = rig.make();
  std::promise<void> up;
  auto running = rig.begin(sandbox, rig.shell("echo up; sleep 76542", "long"),
                           [&](const provider::OutputChunk&) { up.set_value(); });
  up.get_future().wait();
  auto tree = std::make_shared<MemoryTree>();
  for (int i = 0; i < 200; ++i) tree->file("f" + std::to_string(i), std::string(50'000, 'x'));
  auto putting = std::async(std::launch::async, [&] { return rig.put(sandbox, "in", tree).has_value(); });
  auto second = std::async(std::launch::async, [&] { return rig.destroy(sandbox).has_value(); });
  EXPECT_TRUE(rig.destroy(sandbox).has_value());
  EXPECT_TRUE(second.get());
  const auto result = running.get();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::sandbox_lost) << result.error().message;
  putting.get();  // it may have been done before
  EXPECT_EQ(HostRig::processes_with("76542"), 0u);
  EXPECT_TRUE(rig.destroy(sandbox).has_value());
  EXPECT_EQ(rig.inventory()->size(), 0u);
  EXPECT_EQ(rig.left_on_machine(), std::vector<std::string>{});
}

TEST(Host, TwoThousandBinaryFilesGoBothWaysIdentical) {
  // V13
  HostRig rig;
  const auto sandbox = rig.make();
  std::mt19937_64 random(3);
  auto tree = std::make_shared<MemoryTree>();
  for (int folder = 0; folder < 40; ++folder) {
    const std::string path = "d" + std::to_string(folder);
    tree->folder(path);
    for (int i = 0; i < 50; ++i) {
      std::string content(random() % 8'000, '\0');
      for (auto& byte : content) byte = static_cast<char>(random());
      tree->file(path + "/f" + std::to_string(i), std::move(content), i % 7 == 0);
    }
    tree->link(path + "/link", "/usr/bin/env");
  }
  const auto put = rig.put(sandbox, "tree", tree);
  ASSERT_TRUE(put.has_value()) << put.error().message;
  auto back = std::make_shared<MemoryTree>();
  const auto got = rig.get(sandbox, "tree", back);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(back->items.size(), tree->items.size());
  for (const auto& [path, item] : tree->items) {
    ASSERT_TRUE(back->items.contains(path)) << path;
    EXPECT_TRUE(back->items[path].entry == item.entry) << path;
    EXPECT_TRUE(back->items[path].content == item.content) << path;
  }
  EXPECT_TRUE(put->manifest == got->manifest);
  const auto listed = rig.list(sandbox, "tree");
  ASSERT_TRUE(listed.has_value()) << listed.error().message;
  EXPECT_TRUE(*listed == put->manifest);
  // changed inside, seen by digest
  ASSERT_EQ(rig.exec(sandbox, rig.shell("echo changed >> tree/d0/f0"))->exit_code, 0);
  EXPECT_FALSE(*rig.list(sandbox, "tree") == put->manifest);
}

TEST(Host, PathsThatLeaveAreRefusedByName) {
  // ADV-A1, ADV-A2
  HostRig rig;
  const auto sandbox = rig.make();
  ASSERT_EQ(rig.exec(sandbox, rig.shell("ln -s / out; ln -s /etc/passwd notes"))->exit_code, 0);
  auto tree = std::make_shared<MemoryTree>();
  tree->file("x", "evil");
  for (const char* path : {"../up", "out", "out/tmp", "/proc/1", "/etc", "a/../../b"}) {
    EXPECT_EQ(rig.put(sandbox, path, tree).error().code, Code::path_refused) << path;
  }
  auto sink = std::make_shared<MemoryTree>();
  EXPECT_EQ(rig.get(sandbox, "notes", sink).error().code, Code::path_refused);
  EXPECT_EQ(rig.get(sandbox, "out/etc/passwd", sink).error().code, Code::path_refused);
  EXPECT_TRUE(sink->items.empty());
}

TEST(Host, ANameThatIsNoTextBreaksNoConnection) {
  // FR-150, ADV-A1: the connection carries everybody's calls.
  HostRig rig;
  const auto sandbox = rig.make();
  ASSERT_EQ(rig.exec(sandbox, rig.shell("mkdir d; printf x > \"$(printf 'd/bad\\377name')\""))->exit_code, 0);
  auto sink = std::make_shared<MemoryTree>();
  const auto got = rig.get(sandbox, "d/bad\xffname", sink);
  if (!got) EXPECT_EQ(got.error().code, Code::path_refused) << got.error().message;
  EXPECT_EQ(rig.get(sandbox, "none\xff", sink).error().code, Code::path_refused);
  EXPECT_TRUE(rig.list(sandbox, "d").has_value());
}

TEST(Host, ASandboxWhoseFirstProcessIsKilledIsReportedLost) {
  // FR-145, ADV-B25
  if (geteuid() != 0) return;  // rootless, the groups by which the test finds the process are missing
  HostRig rig;
  const auto other = rig.make();
  const auto sandbox = rig.make();
  std::promise<void> up;
  auto running = rig.begin(sandbox, rig.shell("echo up; sleep 1000"),
                           [&](const provider::OutputChunk&) { up.set_value(); });
  up.get_future().wait();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_GT(rig.init_pid(), 0);
  ASSERT_EQ(kill(rig.init_pid(), SIGKILL), 0);
  EXPECT_EQ(running.get().error().code, Code::sandbox_lost);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_EQ(rig.exec(sandbox, rig.shell("true")).error().code, Code::sandbox_lost);
  EXPECT_EQ(rig.exec(other, rig.shell("echo fine"))->out, "fine\n");
}

TEST(Host, AnExecGoesOnAcrossTheDeathOfTheHost) {
  // V1, S11, FR-147
  HostRig rig;
  const auto sandbox = rig.make();
  std::promise<void> up;
  std::string seen;
  auto running = rig.begin(sandbox,
                           rig.shell("i=0; while [ $i -lt 3000 ]; do echo line-$i; i=$((i+1)); [ $((i%1000)) "
                                     "= 0 ] && sleep 0.5; done"),
                           [&, told = false](const provider::OutputChunk& chunk) mutable {
                             EXPECT_EQ(chunk.offset, seen.size());
                             seen += chunk.bytes;
                             if (!std::exchange(told, true)) up.set_value();
                           });
  up.get_future().wait();
  rig.kill_host();
  rig.start_host();
  const auto result = running.get();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  std::string expected;
  for (int i = 0; i < 3000; ++i) expected += "line-" + std::to_string(i) + "\n";
  EXPECT_TRUE(seen == expected);
  EXPECT_TRUE(result->out == expected);
  EXPECT_EQ(rig.inventory()->size(), 1u);
  EXPECT_EQ(rig.exec(sandbox, rig.shell("echo same"))->out, "same\n");
}

TEST(Host, ASecondHostWaitsForTheFirstAndTakesNothingFromIt) {
  // ADV-E26
  HostRig rig;
  const auto sandbox = rig.make();
  const pid_t first = rig.host_pid();
  rig.start_host();  // host_pid() is the second's from here on
  const std::string waiting = " " + std::to_string(rig.host_pid()) + " ";
  ASSERT_TRUE(HostRig::eventually([&] {
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
      if (line.find("-> FLOCK") != std::string::npos && line.find(waiting) != std::string::npos) return true;
    }
    return false;
  })) << "the second host does not wait";
  EXPECT_EQ(rig.exec(sandbox, rig.shell("echo same"))->out, "same\n");
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  const auto after = rig.exec(sandbox, rig.shell("echo adopted"));
  ASSERT_TRUE(after.has_value()) << after.error().message;
  EXPECT_EQ(after->out, "adopted\n");
}

TEST(Host, ATimeLimitHoldsAcrossTheDeathOfTheHost) {
  HostRig rig;
  const auto sandbox = rig.make();
  std::promise<void> up;
  auto request = rig.shell("echo up; sleep 65431");
  request.limits.wall_ms = 1'500;
  auto running = rig.begin(sandbox, request, [&](const provider::OutputChunk&) { up.set_value(); });
  up.get_future().wait();
  rig.kill_host();
  rig.start_host();
  const auto result = running.get();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->timed_out);
  EXPECT_EQ(HostRig::processes_with("65431"), 0u);
}

TEST(Host, AnEngineThatComesBackFindsItsExecByKey) {
  HostRig rig;
  const auto sandbox = rig.make();
  std::promise<void> up;
  const auto request = rig.shell("echo first; sleep 0.3; echo second", "kept");
  auto running = rig.begin(sandbox, request, [&, told = false](const provider::OutputChunk&) mutable {
    if (!std::exchange(told, true)) up.set_value();
  });
  up.get_future().wait();
  rig.disconnect();
  EXPECT_EQ(running.get().error().code, Code::cancelled);
  rig.connect();
  const auto result = rig.exec(sandbox, request);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->out, "first\nsecond\n");
}

TEST(Host, WhereverTheHostDiesNothingIsLostOrLeft) {
  // V1, FR-147: the successor finds what there is, the client asks again, and the destructor looks for
  // remains
  for (const char* point : {"host.recorded", "host.launched", "host.exec_readied", "host.exec_placed",
                            "host.exec_started", "host.exec_done", "host.lease_ended"}) {
    // rootless, no child is made ready
    if (geteuid() != 0 && std::string_view(point) == "host.exec_readied") continue;
    HostRig rig;
    rig.kill_host();
    rig.crash_at(point);
    rig.start_host();
    auto caller = std::async(std::launch::async, [&] {
      const auto sandbox = rig.make();
      const auto result = rig.exec(sandbox, rig.shell("echo ran >> count; cat count"));
      ASSERT_TRUE(result.has_value()) << point << ": " << result.error().message;
      EXPECT_EQ(result->out, "ran\n") << point;
      EXPECT_TRUE(rig.destroy(sandbox).has_value()) << point;
    });
    // Not the other way round: a host dies with the thread that starts it, so that one stays to the end.
    EXPECT_NE(rig.wait_host(), 0) << point;
    rig.crash_at("");
    rig.start_host();
    caller.get();
    EXPECT_TRUE(rig.inventory()->empty()) << point;
    EXPECT_TRUE(rig.left_on_machine().empty()) << point;
  }
}

TEST(Host, WithoutAnEngineEverythingEndsAfterTheGrace) {
  // V1
  HostRig rig(2'000);  // longer than a busy machine keeps the client from coming
  rig.make();
  rig.disconnect();
  EXPECT_EQ(rig.wait_host(), 0);
  EXPECT_TRUE(HostRig::eventually([&] { return rig.left_on_machine().empty(); }));
}

TEST(Host, ALeaseThatRunsOutEndsTheSandboxUnlessItIsRenewed) {
  HostRig rig;
  rig.make();  // the first one waits for what the machine can do to be found out
  const auto kept = rig.make(HostRig::small_template(), 2'000);
  std::promise<Status> renewed;
  rig.client().renew(kept, engine::base::SystemClock().monotonic_ns() / 1'000'000 + 60'000,
                     [&](Status status) { renewed.set_value(std::move(status)); });
  ASSERT_TRUE(renewed.get_future().get().has_value());
  const auto lost = rig.make(HostRig::small_template(), 2'000);
  EXPECT_EQ(rig.exec(lost, rig.shell("sleep 100")).error().code, Code::sandbox_lost);
  EXPECT_EQ(rig.exec(kept, rig.shell("echo kept"))->out, "kept\n");
}

TEST(Host, GarbageOnTheSocketEndsThatConnectionOnly) {
  // ADV-B26
  HostRig rig;
  const auto sandbox = rig.make();
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    const engine::base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, rig.socket().c_str());
    ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    std::string bytes(1 + random() % 300, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? random() : 0);
    (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  EXPECT_EQ(rig.exec(sandbox, rig.shell("echo fine"))->out, "fine\n");
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::host
