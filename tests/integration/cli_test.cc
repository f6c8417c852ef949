// The command line as a program: output for people and for programs, exit codes, and reading with and without
// an engine.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/data_folder.h"
#include "engine/base/exit_code.h"
#include "engine/base/unique_fd.h"
#include "tests/support/server/server_process.h"

namespace sandglass {
namespace {

using engine::base::Exit;
using nlohmann::json;
using tests::support::Ended;
using tests::support::ServerProcess;
using tests::support::TempFolder;

constexpr int status_of(Exit exit) {
  return static_cast<int>(exit);
}

class CommandLine : public testing::Test {
 protected:
  Ended sandglass(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), {"--data", data_});
    return tests::support::run_program("sandglass", arguments, environment);
  }
  /// Each line of the output is one JSON value.
  static std::vector<json> lines(const Ended& ended) {
    std::vector<json> values;
    std::istringstream text(ended.output);
    for (std::string line; std::getline(text, line);) values.push_back(json::parse(line));
    return values;
  }
  static std::string started_run(const Ended& ended) {
    return lines(ended).front().at("run_id").get<std::string>();
  }

  TempFolder folder_;
  std::string data_ = folder_.file("data");
};

TEST_F(CommandLine, WithoutAnEngineItSaysHowToStartOne) {
  const Ended ended = sandglass({"list"});
  EXPECT_EQ(ended.status, status_of(Exit::unreachable));
  EXPECT_NE(ended.errors.find("error 1404"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("sandglass --data " + data_ + " serve"), std::string::npos) << ended.errors;
  EXPECT_EQ(sandglass({"frobnicate"}).status, status_of(Exit::usage));
  EXPECT_EQ(sandglass({"show"}).status, status_of(Exit::usage));
  EXPECT_EQ(sandglass({"--help"}).status, 0);
  EXPECT_EQ(sandglass({"audit", "verify"}).status, status_of(Exit::not_found));
}

TEST_F(CommandLine, HelpIsACommandToo) {
  const auto say = [](const std::vector<std::string>& words) {
    return tests::support::run_program("sandglass", words);
  };
  EXPECT_EQ(say({"help"}).output, say({"--help"}).output);
  EXPECT_EQ(say({"help", "token", "create"}).output, say({"token", "create", "--help"}).output);
  const Ended unknown = say({"help", "frobnicate"});
  EXPECT_EQ(unknown.status, status_of(Exit::usage));
  EXPECT_NE(unknown.errors.find("no command \"frobnicate\""), std::string::npos) << unknown.errors;
}

TEST_F(CommandLine, AnOptionWithAWrongValueIsNamed) {
  EXPECT_NE(sandglass({"list", "--limit", "many"}).errors.find("not a whole number: --limit"),
            std::string::npos);
  for (const char* address :
       {"localhost:7233", "http://127.0.0.1:7233", "127.0.0.1", "127.0.0.1:70000", ""}) {
    const Ended ended = sandglass({"--address", address, "list"});
    EXPECT_EQ(ended.status, status_of(Exit::usage)) << address;
    EXPECT_NE(ended.errors.find("127.0.0.1:7233"), std::string::npos) << ended.errors;
  }
  // An unset variable in a script must not lead to the usual folder.
  EXPECT_EQ(sandglass({"--data", "", "list"}).status, status_of(Exit::usage));
}

// Whoever listens at an address gets the token that is sent there.
TEST_F(CommandLine, ATokenOfAFolderThatNobodyNamedGoesToNoAddress) {
  {
    ServerProcess server(data_);  // makes the tokens
    ASSERT_EQ(server.ready(), "ready") << server.log();
  }
  const std::vector<std::string> list = {"--address", "127.0.0.1:1", "list"};  // nobody listens there
  const std::string named = "SANDGLASS_DATA=" + data_;                         // by somebody's profile
  const Ended unnamed = tests::support::run_program("sandglass", list, {named});
  EXPECT_EQ(unnamed.status, status_of(Exit::denied));
  EXPECT_NE(unnamed.errors.find("SANDGLASS_TOKEN"), std::string::npos) << unnamed.errors;
  EXPECT_EQ(sandglass(list).status, status_of(Exit::unreachable));
  const Ended given = tests::support::run_program("sandglass", list, {named, "SANDGLASS_TOKEN=sgt_0"});
  EXPECT_EQ(given.status, status_of(Exit::unreachable));
  EXPECT_NE(given.errors.find("127.0.0.1:1;"), std::string::npos) << given.errors;
}

TEST_F(CommandLine, ARunIsStartedListedShownSteppedThroughAndVerified) {
  std::string run;
  {
    ServerProcess server(data_);
    ASSERT_EQ(server.ready(), "ready") << server.log();
    const Ended started =
        sandglass({"--json", "start", "hello", "--input", R"({"name":"Ann","count":3})", "--wait"});
    ASSERT_EQ(started.status, 0) << started.errors;
    run = started_run(started);
    EXPECT_EQ(lines(started).back().at("summary").at("status"), "completed");

    const auto listed = lines(sandglass({"--json", "list"})).at(0);
    ASSERT_EQ(listed.at("runs").size(), 1U);
    EXPECT_EQ(listed.at("runs")[0].at("run_id"), run);
    EXPECT_EQ(listed.at("runs")[0].at("head"), lines(started).back().at("summary").at("head"));
    const auto shown = lines(sandglass({"--json", "show", run})).at(0);
    EXPECT_EQ(shown.at("steps").size(), 3U);
    EXPECT_EQ(shown.at("steps")[2].at("status"), "done");
    EXPECT_EQ(shown.at("result").at("greetings")[0], "Hello, Ann! (1)");
    EXPECT_NE(sandglass({"show", run}).output.find("hello.greet"), std::string::npos);
    EXPECT_EQ(lines(sandglass({"--json", "audit", "verify"})).at(0).at("good"), true);
    const auto doctor = lines(sandglass({"--json", "doctor"})).at(0);
    EXPECT_EQ(doctor.at("pid"), server.engine_pid());
  }
  // The same, read from the folder: nobody runs now.
  const auto frames = lines(sandglass({"--json", "debug", run, "--all"}));
  ASSERT_GE(frames.size(), 4U);
  EXPECT_EQ(frames.front().at("events")[0].at("name"), "RunStarted");
  EXPECT_EQ(frames.back().at("state").at("status"), "completed");
  EXPECT_EQ(lines(sandglass({"--json", "audit", "verify"})).at(0).at("good"), true);
  EXPECT_GE(lines(sandglass({"--json", "audit", "log"})).size(), frames.size());
}

// FR-118: what comes from outside reaches the terminal escaped, also in a file's name or an error.
TEST_F(CommandLine, NothingFromOutsideReachesTheTerminalUnescaped) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  const Ended refused = sandglass({"start", "hello", "--session", "x\x1b[2Jy"});
  EXPECT_EQ(refused.status, status_of(Exit::refused)) << refused.errors;
  EXPECT_EQ(sandglass({"start", "hello", "--session", std::string(129, 's')}).status,
            status_of(Exit::refused));
  const Ended started = sandglass({"start", "hello", "--wait", "--session", "x\u202Ey\u009B2J", "--input",
                                   R"({"name":"\u001b[31mred"})"});
  ASSERT_EQ(started.status, 0) << started.errors;
  const auto listed = lines(sandglass({"--json", "list"})).at(0);
  const Ended shown = sandglass({"show", listed.at("runs")[0].at("run_id").get<std::string>()});
  for (const Ended* ended : {&started, &shown}) {
    EXPECT_EQ(ended->output.find('\x1b'), std::string::npos) << ended->output;
    EXPECT_EQ(ended->output.find("\u202E"), std::string::npos) << ended->output;
  }
  EXPECT_NE(shown.output.find("x\\u{202e}y\\u{9b}2J"), std::string::npos) << shown.output;
  const Ended bad = sandglass({"start", "no\x1b[2Jpe"});
  EXPECT_EQ(bad.status, status_of(Exit::not_found));
  EXPECT_EQ(bad.errors.find('\x1b'), std::string::npos);
}

TEST_F(CommandLine, TheTokenIsChosenByNameAndTokensAreMadeAndRevoked) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  const Ended denied = sandglass({"--as", "auditor", "start", "hello"});
  EXPECT_EQ(denied.status, status_of(Exit::denied));
  EXPECT_NE(denied.errors.find("error 1301"), std::string::npos) << denied.errors;
  EXPECT_EQ(sandglass({"--as", "nobody", "list"}).status, status_of(Exit::denied));
  EXPECT_EQ(sandglass({"--as", "../../etc/passwd", "list"}).status, status_of(Exit::usage));

  const Ended made = sandglass({"--json", "token", "create", "ann", "--role", "user"});
  ASSERT_EQ(made.status, 0) << made.errors;
  const std::string token = "SANDGLASS_TOKEN=" + lines(made).at(0).at("token").get<std::string>();
  EXPECT_EQ(sandglass({"start", "hello", "--wait"}, {token}).status, 0);
  EXPECT_EQ(sandglass({"token", "list"}, {token}).status, status_of(Exit::denied));
  EXPECT_EQ(sandglass({"token", "create", "ann", "--role", "user"}).status, status_of(Exit::refused));
  EXPECT_EQ(sandglass({"token", "create", "x", "--role", "king"}).status, status_of(Exit::refused));
  EXPECT_EQ(sandglass({"token", "revoke", "ann"}).status, 0);
  EXPECT_EQ(sandglass({"list"}, {token}).status, status_of(Exit::denied));
}

TEST_F(CommandLine, EndsOfRunsAreExitCodes) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  const Ended failed = sandglass({"start", "hello", "--wait", "--input", R"({"count":0})"});
  EXPECT_EQ(failed.status, status_of(Exit::run_failed));
  EXPECT_NE(failed.output.find("hello takes a count from 1 to 10,000"), std::string::npos) << failed.output;
  const std::string run =
      started_run(sandglass({"--json", "start", "hello", "--input", R"({"count":2,"pause_ms":3600000})"}));
  EXPECT_EQ(sandglass({"cancel", run}).status, 0);
  EXPECT_EQ(sandglass({"watch", run}).status, status_of(Exit::run_cancelled));
  EXPECT_EQ(sandglass({"cancel", run}).status, status_of(Exit::refused));
  EXPECT_EQ(sandglass({"show", "run-" + std::string(32, '0')}).status, status_of(Exit::not_found));
  EXPECT_EQ(sandglass({"show", "nonsense"}).status, status_of(Exit::usage));
  EXPECT_EQ(sandglass({"artifact", "get", run, "none"}).status, status_of(Exit::not_found));
}

// A server that a command starts outlives it, and must not keep anything of its caller's open: not even a
// lock.
TEST_F(CommandLine, AStartedServerHoldsNoDescriptorOfItsCaller) {
  {
    ServerProcess first(data_);  // makes the folder
    ASSERT_EQ(first.ready(), "ready") << first.log();
  }
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);  // inherited by what we run
  engine::base::UniqueFd reading(ends[0]);
  engine::base::UniqueFd writing(ends[1]);
  ASSERT_EQ(sandglass({"start", "hello", "--wait"}).status, 0);
  ASSERT_NE(sandglass({"doctor"}).output.find("process "), std::string::npos) << "no server was started";
  writing.reset();
  pollfd polled{reading.get(), POLLIN, 0};
  ASSERT_EQ(poll(&polled, 1, 5000), 1) << "somebody still holds the other end";
  EXPECT_NE(polled.revents & POLLHUP, 0);
  const auto holder = engine::base::read_whole_file(data_ + "/supervisor.lock", 32);
  ASSERT_TRUE(holder);
  ASSERT_EQ(kill(std::atoi(holder->c_str()), SIGTERM), 0);
  EXPECT_TRUE(engine::base::FileLock::wait(data_ + "/supervisor.lock"));
}

TEST_F(CommandLine, ATaskFileWithAFaultIsNamedBeforeAnythingStarts) {
  std::ofstream(folder_.file("task.yaml")) << "name: x\ngoal: y\nfoo: 1\n";
  const Ended ended = sandglass({"run", folder_.file("task.yaml")});
  EXPECT_EQ(ended.status, status_of(Exit::bad_file)) << ended.errors;
  EXPECT_NE(ended.errors.find("task.yaml:3"), std::string::npos) << ended.errors;
  EXPECT_FALSE(std::filesystem::exists(data_));
  EXPECT_EQ(sandglass({"run", folder_.file("none.yaml")}).status, status_of(Exit::bad_file));
}

}  // namespace
}  // namespace sandglass
