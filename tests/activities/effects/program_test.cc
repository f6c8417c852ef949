// The real program sandglass-effect, and the example's receiver as the outside that it acts on.
#include "tests/support/program.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <fstream>
#include <sstream>

#include "activities/effects/remote_executor.h"
#include "engine/base/system_ports.h"
#include "engine/net/codec/network_codec.h"
#include "tests/support/temp_folder.h"

namespace sandglass::activities::effects {
namespace {

using engine::base::UniqueFd;
using engine::core::EffectIntent;
using engine::core::EffectResult;
using engine::core::Outcome;
using tests::support::Program;

/// The receiver, with its options; its first line says where it listens.
class Receiver {
 public:
  Receiver(const std::string& folder, std::vector<std::string> options) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd out(ends[0]);
    UniqueFd in(ends[1]);
    std::string command =
        "exec " + tests::support::source_folder() + "/examples/fix-failing-test/receiver --dir " + folder;
    for (const std::string& option : options) command += " " + option;
    command += " >&" + std::to_string(in.get());
    program_ =
        std::make_unique<Program>(std::vector<std::string>{"/bin/sh", "-c", command}, std::vector{in.get()});
    in.reset();
    std::string line;
    char byte = 0;
    while (::read(out.get(), &byte, 1) == 1 && byte != '\n') line += byte;
    port = static_cast<std::uint16_t>(std::stoul(line.substr(line.rfind(':') + 1)));
  }
  std::uint16_t port = 0;

 private:
  std::unique_ptr<Program> program_;
};

class EffectProgramTest : public testing::Test {
 protected:
  void start(std::uint16_t port, std::vector<std::string> more = {}, std::vector<int> descriptors = {}) {
    engine::net::codec::pb::NetworkConfig config;
    config.add_resolvers("127.0.0.1");
    auto* internal = config.add_internal();
    internal->set_host("127.0.0.1");
    internal->set_port(port);
    internal->set_range("127.0.0.1/32");
    const UniqueFd config_fd(engine::net::codec::make_config_fd(config).value());
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const UniqueFd theirs(pair[1]);
    std::vector<std::string> command = {tests::support::program_path("sandglass-effect"), "--socket-fd",
                                        std::to_string(theirs.get()), "--config-fd",
                                        std::to_string(config_fd.get())};
    command.insert(command.end(), more.begin(), more.end());
    descriptors.push_back(theirs.get());
    descriptors.push_back(config_fd.get());
    program = std::make_unique<Program>(command, descriptors);
    remote.attach(UniqueFd(pair[0]));
  }
  EffectResult run(const std::string& method, const std::string& url, const std::string& key,
                   const std::string& body) {
    EffectIntent intent{.id = ++last_id,
                        .method = method,
                        .url = url,
                        .headers = {{"Idempotency-Key", key}},
                        .body = body,
                        .permit_ms = 60'000,
                        .attempt_timeout_ms = 10'000};
    remote.submit(std::move(intent));
    std::vector<EffectResult> results;
    remote.poll(results);
    while (results.empty()) {
      pollfd waiting{remote.wake_fd(), POLLIN, 0};
      if (::poll(&waiting, 1, 20'000) <= 0) {
        ADD_FAILURE() << "no answer";
        return {};
      }
      remote.poll(results);
    }
    return results.front();
  }

  tests::support::TempFolder folder;
  engine::base::SystemClock clock;
  RemoteExecutor remote{clock};
  std::unique_ptr<Program> program;
  std::uint64_t last_id = 0;
};

TEST_F(EffectProgramTest, TheReceiverTakesOneEffectAndItsAnswerIsBelievedOrProbed) {
  const Receiver receiver(folder.path() + "/pulls", {"--drop-reply 1"});
  start(receiver.port);
  const std::string base = "http://127.0.0.1:" + std::to_string(receiver.port);
  // Commit, then drop: unknown. The probe finds it; sending again under the same key does nothing new.
  EXPECT_EQ(run("POST", base + "/pulls", "k1", "diff").outcome, Outcome::unknown);
  const EffectResult probe = run("GET", base + "/pulls/by-key/k1", "", "");
  EXPECT_EQ(probe.outcome, Outcome::done) << probe.message;
  EXPECT_EQ(probe.http_status, 200u);
  EXPECT_NE(probe.body.find("\"diff\""), std::string::npos) << probe.body;
  EXPECT_EQ(run("POST", base + "/pulls", "k1", "diff").http_status, 201u);
  EXPECT_EQ(run("POST", base + "/pulls", "k1", "another").http_status, 409u);
  EXPECT_EQ(run("GET", base + "/pulls/by-key/k2", "", "").http_status, 404u);
  const EffectResult count = run("GET", base + "/count", "", "");
  EXPECT_NE(count.body.find("\"effects\": 1"), std::string::npos) << count.body;
  EXPECT_NE(count.body.find("\"POST\": 3"), std::string::npos) << count.body;
}

TEST_F(EffectProgramTest, WhatTheReceiverStoredOutlivesIt) {
  const std::string store = folder.path() + "/pulls";
  {
    const Receiver receiver(store, {"--error-after 1"});
    start(receiver.port);
    const EffectResult answered =
        run("POST", "http://127.0.0.1:" + std::to_string(receiver.port) + "/pulls", "k", "b");
    EXPECT_EQ(answered.outcome, Outcome::done);
    EXPECT_EQ(answered.http_status, 500u);
  }
  const Receiver again(store, {});
  start(again.port);
  const std::string base = "http://127.0.0.1:" + std::to_string(again.port);
  EXPECT_EQ(run("GET", base + "/pulls/by-key/k", "", "").http_status, 200u);
  EXPECT_EQ(run("POST", base + "/pulls", "k", "b").http_status, 201u);
  EXPECT_NE(run("GET", base + "/count", "", "").body.find("\"effects\": 1"), std::string::npos);
}

TEST_F(EffectProgramTest, HoldsTheInheritedLockForItsWholeLifeAndDropsItsUid) {
  // V2: the lock is what tells a new supervisor that the former executor still lives.
  const std::string path = folder.path() + "/lock";
  UniqueFd held(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  const bool root = ::getuid() == 0;
  const std::string uid = std::to_string(root ? 12'345 : ::getuid());
  const std::string gid = std::to_string(root ? 12'345 : ::getgid());
  start(9, {"--uid", uid, "--gid", gid}, {held.get()});
  held.reset();
  // An answer means that it is up.
  EXPECT_EQ(run("POST", "http://127.0.0.1:10/", "k", "").outcome, Outcome::not_done);
  const UniqueFd other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  std::ifstream status("/proc/" + std::to_string(program->pid()) + "/status");
  std::stringstream text;
  text << status.rdbuf();
  EXPECT_NE(text.str().find("Uid:\t" + uid + "\t" + uid + "\t" + uid), std::string::npos);
  EXPECT_NE(text.str().find("NoNewPrivs:\t1"), std::string::npos);
  program->kill();
  EXPECT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(EffectProgramTest, EndsWithTheEngineAndWithItsSupervisor) {
  start(9);
  EXPECT_EQ(run("POST", "http://127.0.0.1:10/", "k", "").outcome, Outcome::not_done);
  remote.attach(UniqueFd());
  EXPECT_EQ(program->wait(), 0);

  // A supervisor of its own that ends at once: the program holds `alive` open until the kernel has ended it.
  int alive[2];
  ASSERT_EQ(::pipe2(alive, O_CLOEXEC), 0);
  UniqueFd reading(alive[0]);
  UniqueFd writing(alive[1]);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const UniqueFd engine(pair[0]);
  const UniqueFd theirs(pair[1]);
  const UniqueFd config(engine::net::codec::make_config_fd({}).value());
  const std::string command = tests::support::program_path("sandglass-effect") + " --socket-fd " +
                              std::to_string(theirs.get()) + " --config-fd " + std::to_string(config.get()) +
                              " & wait";
  {
    const Program supervisor({"/bin/sh", "-c", command}, {theirs.get(), config.get(), writing.get()});
    writing.reset();
    char hello[64];
    EXPECT_GT(::recv(engine.get(), hello, sizeof hello, 0), 0);
  }
  pollfd ended{reading.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10'000), 1);
}

TEST_F(EffectProgramTest, BadUseAndBadConfigurationEndAtOnceWithTheirOwnStatus) {
  Program no_arguments({tests::support::program_path("sandglass-effect")}, {});
  EXPECT_EQ(no_arguments.wait(), 64);
  for (const char* uid : {"-1", "4294967296", "0x7", ""}) {
    Program no_uid({tests::support::program_path("sandglass-effect"), "--socket-fd", "0", "--config-fd", "0",
                    "--uid", uid},
                   {});
    EXPECT_EQ(no_uid.wait(), 64) << uid;
  }
  engine::net::codec::pb::NetworkConfig config;
  config.add_resolvers("not an address");
  const UniqueFd fd(engine::net::codec::make_config_fd(config).value());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Program bad_configuration(
      {"/bin/sh", "-c",
       "exec 2>/dev/null " + tests::support::program_path("sandglass-effect") + " --socket-fd " +
           std::to_string(socket.get()) + " --config-fd " + std::to_string(fd.get())},
      {socket.get(), fd.get()});
  EXPECT_EQ(bad_configuration.wait(), 78);
}

}  // namespace
}  // namespace sandglass::activities::effects
