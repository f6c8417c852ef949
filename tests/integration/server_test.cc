// A real server process, reached through its public API: durability over SIGKILL, tenancy, bad input.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "engine/base/exit_code.h"
#include "engine/base/hash.h"
#include "tests/support/server/server_process.h"

namespace sandglass {
namespace {

namespace api = sandglass::v1;
using engine::base::Code;
using engine::base::Exit;
using tests::support::Ended;
using tests::support::run_program;
using tests::support::ServerProcess;
using tests::support::TempFolder;

constexpr int status_of(Exit exit) {
  return static_cast<int>(exit);
}

api::StartRunRequest hello(const std::string& request_id, const std::string& input) {
  api::StartRunRequest request;
  request.set_request_id(request_id);
  request.set_workflow("hello");
  request.set_input(input);
  return request;
}

/// Follows to the end; `each` may act in between.
std::vector<api::RunUpdate> follow(engine::client::Client& client, const std::string& run_id,
                                   const std::function<void(const api::RunUpdate&)>& each = {}) {
  std::vector<api::RunUpdate> updates;
  api::FollowRunRequest request;
  request.set_run_id(run_id);
  engine::client::Stop stop;
  const auto status = client.follow_run(
      request,
      [&](const api::RunUpdate& update) {
        updates.push_back(update);
        if (each) each(update);
        return true;
      },
      stop);
  EXPECT_TRUE(status) << status.error().message;
  return updates;
}

/// A process that has ended and that nobody has waited for yet is not alive.
bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) != "Z";
}

class Server : public testing::Test {
 protected:
  TempFolder folder_;
  std::string data_ = folder_.file("data");
};

TEST_F(Server, ARunSurvivesSigkillOfTheEngineAndEveryRecordIsFollowedOnce) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  auto client = server.client();
  const auto run = client->start_run(hello("r1", R"({"name":"Ann","count":20,"pause_ms":20})"));
  ASSERT_TRUE(run) << run.error().message;
  int kills = 0;
  const auto updates = follow(*client, run->run_id(), [&](const api::RunUpdate& update) {
    if ((update.seq() == 8 || update.seq() == 20) && kills < 2) {
      ++kills;
      server.kill_engine();
    }
  });
  EXPECT_EQ(kills, 2);
  for (std::size_t i = 0; i < updates.size(); ++i) EXPECT_EQ(updates[i].seq(), i + 1);
  EXPECT_EQ(updates.back().summary().status(), api::RUN_STATUS_COMPLETED);
  api::GetRunRequest get;
  get.set_run_id(run->run_id());
  const auto detail = client->get_run(get);
  ASSERT_TRUE(detail) << detail.error().message;
  EXPECT_EQ(detail->steps_size(), 20);
  EXPECT_NE(detail->result().find("Hello, Ann! (20)"), std::string::npos);
  EXPECT_EQ(server.stop(), 0);
}

// J19, E7: a repeated start meets the same run, also over a restart; another request under its id is a
// conflict.
TEST_F(Server, ARepeatedStartMeetsTheSameRun) {  // FR-15, FR-16
  std::string first;
  {
    ServerProcess server(data_);
    ASSERT_EQ(server.ready(), "ready") << server.log();
    auto client = server.client();
    first = client->start_run(hello("same", R"({"name":"Ann"})")).value().run_id();
    EXPECT_EQ(client->start_run(hello("same", R"({"name":"Ann"})")).value().run_id(), first);
    const auto other = client->start_run(hello("same", R"({"name":"Bob"})"));
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, Code::request_conflict);
  }
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  EXPECT_EQ(server.client()->start_run(hello("same", R"({"name":"Ann"})")).value().run_id(), first);
}

TEST_F(Server, ListsGoPageByPageNewestFirst) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  auto client = server.client();
  std::set<std::string> started;
  for (int i = 0; i < 25; ++i) {
    started.insert(client->start_run(hello("r" + std::to_string(i), "{}")).value().run_id());
  }
  api::ListRunsRequest request;
  request.set_page_size(10);
  std::set<std::string> listed;
  std::int64_t last_start = std::numeric_limits<std::int64_t>::max();
  int pages = 0;
  do {
    const auto page = client->list_runs(request).value();
    ++pages;
    for (const auto& run : page.runs()) {
      EXPECT_TRUE(listed.insert(run.run_id()).second) << "twice: " << run.run_id();
      EXPECT_LE(run.started_ms(), last_start);
      last_start = run.started_ms();
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, started);
  EXPECT_EQ(pages, 3);
  request.set_page_token("zz");
  EXPECT_EQ(client->list_runs(request).error().code, Code::invalid_argument);
}

// X3: the token is looked at before anything else, and decides what can be seen.
TEST_F(Server, TokensDecideWhoMayDoWhat) {  // ADV-E30
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  EXPECT_EQ(server.client_with("", 0)->status().error().code, Code::unauthenticated);
  EXPECT_EQ(server.client_with("sgt_" + std::string(64, '0'), 0)->status().error().code,
            Code::unauthenticated);
  EXPECT_EQ(server.client("auditor")->start_run(hello("a", "{}")).error().code, Code::permission_denied);
  EXPECT_EQ(server.client("approver")->start_run(hello("a", "{}")).error().code, Code::permission_denied);
  auto client = server.client();
  const auto run = client->start_run(hello("a", "{}")).value().run_id();

  const std::string token = "sgt_" + std::string(64, 'a');
  api::CreateTokenRequest create;
  create.set_request_id("t1");
  create.set_name("stranger");
  create.set_tenant("other");
  create.add_roles("operator");
  create.set_token_hash(std::string(engine::base::sha256(token).view()));
  ASSERT_TRUE(client->create_token(create));
  auto stranger = server.client_with(token, 0);
  api::GetRunRequest get;
  get.set_run_id(run);
  EXPECT_EQ(stranger->get_run(get).error().code, Code::not_found);
  EXPECT_EQ(stranger->list_runs({}).value().runs_size(), 0);
  api::CancelRunRequest cancel;
  cancel.set_request_id("c1");
  cancel.set_run_id(run);
  EXPECT_EQ(stranger->cancel_run(cancel).error().code, Code::not_found);

  api::RevokeTokenRequest revoke;
  revoke.set_request_id("t2");
  revoke.set_name("stranger");
  ASSERT_TRUE(client->revoke_token(revoke));
  EXPECT_EQ(stranger->status().error().code, Code::unauthenticated);
  EXPECT_GE(client->status().value().refused_calls(), 5U);
}

TEST_F(Server, SignalsToAnEndedRunAreErrorsAndUnknownWorkflowsAreNamed) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  auto client = server.client();
  const auto run = client->start_run(hello("a", "{}")).value().run_id();
  follow(*client, run);
  api::SignalRunRequest signal;
  signal.set_request_id("s1");
  signal.set_run_id(run);
  signal.set_name("go");
  EXPECT_EQ(client->signal_run(signal).error().code, Code::run_closed);
  auto start = hello("b", "{}");
  start.set_workflow("nope");
  EXPECT_EQ(client->start_run(start).error().code, Code::workflow_unknown);
  EXPECT_EQ(client->start_run(hello("c", "{\"a\":1,\"a\":2}")).error().code, Code::payload_invalid);
  EXPECT_EQ(client->start_run(hello("", "{}")).error().code, Code::invalid_argument);
}

TEST_F(Server, ACancelledRunEndsAsCancelled) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  auto client = server.client();
  const auto run = client->start_run(hello("a", R"({"count":2,"pause_ms":3600000})")).value().run_id();
  const auto updates = follow(*client, run, [&](const api::RunUpdate& update) {
    if (update.seq() != 1) return;
    api::CancelRunRequest cancel;
    cancel.set_request_id("c");
    cancel.set_run_id(run);
    ASSERT_TRUE(client->cancel_run(cancel));
  });
  EXPECT_EQ(updates.back().summary().status(), api::RUN_STATUS_CANCELLED);
}

TEST_F(Server, AnUploadedTreeIsNamedByItsContentAlone) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  for (const char* name : {"one", "two"}) {
    std::filesystem::create_directories(folder_.file(name) + "/src/empty");
    std::ofstream(folder_.file(name) + "/src/main.c") << "int main() { return 0; }\n";
    std::ofstream(folder_.file(name) + "/big") << std::string(600'000, 'x');
    std::filesystem::create_symlink("src/main.c", folder_.file(name) + "/link");
  }
  auto client = server.client();
  const auto one = client->upload_tree(folder_.file("one")).value();
  EXPECT_EQ(one.files(), 2U);
  EXPECT_EQ(one.bytes(), 600'025U);
  EXPECT_EQ(client->upload_tree(folder_.file("two")).value().digest(), one.digest());
  std::ofstream(folder_.file("two") + "/src/main.c") << "int main() { return 1; }\n";
  EXPECT_NE(client->upload_tree(folder_.file("two")).value().digest(), one.digest());
  ASSERT_EQ(mkfifo((folder_.file("two") + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(client->upload_tree(folder_.file("two")).error().code, Code::file_unreadable);
  EXPECT_EQ(client->upload_tree(folder_.file("none")).error().code, Code::file_unreadable);
}

TEST_F(Server, ASecondServerOnTheFolderIsRefusedAndNamesTheFirst) {
  ServerProcess server(data_);
  ASSERT_EQ(server.ready(), "ready") << server.log();
  const Ended second = run_program("sandglassd", {"--data", data_});
  EXPECT_EQ(second.status, status_of(Exit::folder));
  EXPECT_NE(second.errors.find("error 1106"), std::string::npos) << second.errors;
  EXPECT_NE(second.errors.find("process " + std::to_string(server.pid())), std::string::npos)
      << second.errors;
  // With whatever uid the folder has by now.
  struct stat about{};
  ASSERT_EQ(stat(data_.c_str(), &about), 0);
  const std::string uid = std::to_string(about.st_uid);
  const Ended engine = run_program("sandglass-engine", {"--data", data_, "--uid", uid, "--gid", uid});
  EXPECT_EQ(engine.status, status_of(Exit::folder)) << engine.errors;
}

TEST_F(Server, AnUnknownConfigurationKeyIsNamedWithFileAndLine) {
  std::ofstream(folder_.file("c.yaml")) << "limits:\n  sandboxs: 3\n";
  const Ended ended = run_program("sandglassd", {"--data", data_, "--config", folder_.file("c.yaml")});
  EXPECT_EQ(ended.status, status_of(Exit::bad_file));
  EXPECT_NE(ended.errors.find("c.yaml:2: unknown key 'limits.sandboxs'"), std::string::npos) << ended.errors;
  const Ended missing = run_program("sandglassd", {"--data", data_, "--config", folder_.file("none.yaml")});
  EXPECT_EQ(missing.status, status_of(Exit::bad_file)) << missing.errors;
}

TEST_F(Server, ABusyPortEndsTheServerWithItsReason) {
  const engine::base::UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  ASSERT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  ServerProcess server(
      data_, {.arguments = {"--set", "listen.tcp=127.0.0.1:" + std::to_string(ntohs(address.sin_port))}});
  EXPECT_TRUE(server.ready().starts_with("error 1403 ")) << server.ready();
  EXPECT_EQ(server.wait(), status_of(Exit::address_in_use)) << server.log();
}

TEST_F(Server, AFolderOfAnotherVersionIsRefusedUnchanged) {
  std::filesystem::create_directory(data_);
  std::ofstream(data_ + "/format") << "sandglass-data 99\n";
  const Ended ended = run_program("sandglassd", {"--data", data_});
  EXPECT_EQ(ended.status, status_of(Exit::folder));
  EXPECT_NE(ended.errors.find("error 1107"), std::string::npos) << ended.errors;
  EXPECT_FALSE(std::filesystem::exists(data_ + "/journal"));
}

TEST_F(Server, AFolderThatCannotBeMadeAndAFullDiskAreFaultsOfTheMachine) {
  const Ended nowhere = run_program("sandglassd", {"--data", "/proc/sandglass-test"});
  EXPECT_EQ(nowhere.status, status_of(Exit::machine)) << nowhere.errors;
  std::filesystem::create_directory(data_);
  const Ended full =
      run_program("/usr/bin/unshare", {"--map-root-user", "--mount", "sh", "-c",
                                       "mount -t tmpfs -o size=16k none \"$1\" && exec \"$2\" --data \"$1\"",
                                       "sh", data_, tests::support::program_path("sandglassd")});
  EXPECT_EQ(full.status, status_of(Exit::machine)) << full.errors;
  EXPECT_NE(full.errors.find("error 1008"), std::string::npos) << full.errors;
}

TEST_F(Server, AServerThatMayExitWhenIdleDoesSoAfterItsLastRun) {
  ServerProcess server(data_, {.arguments = {"--exit-when-idle", "--set", "engine.idle_exit_ms=100"}});
  ASSERT_EQ(server.ready(), "ready") << server.log();
  {
    auto client = server.client();
    follow(*client, client->start_run(hello("a", R"({"count":3,"pause_ms":100})")).value().run_id());
  }
  EXPECT_EQ(server.wait(), 0) << server.log();
}

// V1, V2: children end with their supervisor, and the next one starts at once.
TEST_F(Server, SigkillOfTheSupervisorEndsItsChildrenAndTheNextOneGoesOn) {
  std::string run;
  pid_t engine = 0;
  {
    ServerProcess server(data_);
    ASSERT_EQ(server.ready(), "ready") << server.log();
    run = server.client()->start_run(hello("a", R"({"count":2,"pause_ms":300})")).value().run_id();
    engine = server.engine_pid();
    ASSERT_EQ(kill(server.pid(), SIGKILL), 0);
    EXPECT_EQ(server.wait(), -1);
  }
  ServerProcess next(data_);
  ASSERT_EQ(next.ready(), "ready") << next.log();
  EXPECT_NE(next.engine_pid(), engine);
  EXPECT_FALSE(is_alive(engine)) << "the former engine still lives";
  EXPECT_EQ(follow(*next.client(), run).back().summary().status(), api::RUN_STATUS_COMPLETED);
}

// A kill anywhere in the first start leaves something that the next start completes.
TEST_F(Server, TokensOfTheFirstStartAreCompleteAlsoIfItIsKilledBetweenFileAndRecord) {
  ServerProcess server(data_, {.environment = {"SANDGLASS_CRASH_AT=first_start.token_file_written"}});
  ASSERT_EQ(server.ready(), "ready") << server.log();
  for (const char* name : {"operator", "approver", "auditor"}) {
    EXPECT_TRUE(server.client(name)->status()) << name;
  }
}

}  // namespace
}  // namespace sandglass
