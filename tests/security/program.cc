// The program's beginning: as root it plants canaries and, with SANDGLASS_TEST_UID, lets a child without
// rights run the tests.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/security/attack_rig.h"
#include "tests/support/plain_user.h"

namespace sandglass::tests {
namespace {

namespace fs = std::filesystem;
using sandbox_runtime::provider::LimitHit;

constexpr const char* kCanaryPlaces[] = {
    "/",        "/etc", "/etc/ssl", "/etc/profile.d", "/var",     "/var/lib", "/var/log",
    "/var/tmp", "/run", "/root",    "/home",          "/srv",     "/mnt",     "/media",
    "/opt",     "/tmp", "/dev/shm", "/usr/local/etc", "/usr/etc", "/usr/src", "/boot"};

std::string word;
std::unique_ptr<HostRig> host;

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path programs() {
  const char* build = ::getenv("SANDGLASS_BUILD");
  return fs::path(build != nullptr ? build : fs::read_symlink("/proc/self/exe").parent_path().parent_path()) /
         "bin";
}

/// Readable by all, in name and content. Where nobody may write there is nothing to plant.
std::vector<fs::path> plant() {
  std::vector<fs::path> planted;
  for (const char* place : kCanaryPlaces) {
    std::error_code ignored;
    const fs::path file = fs::path(place) / word;
    if (!fs::is_directory(place, ignored) || fs::is_symlink(place)) continue;
    std::ofstream(file) << word << "\n";
    fs::permissions(file, fs::perms(0644), ignored);
    if (fs::exists(file, ignored)) planted.push_back(file);
  }
  return planted;
}

class OneHost final : public testing::Environment {
 public:
  void TearDown() override { host.reset(); }
};

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // not skipped but not there: their subjects are what only root can promise
  if (!is_root() && testing::GTEST_FLAG(filter) == "*") testing::GTEST_FLAG(filter) = "-Root*";
  testing::AddGlobalTestEnvironment(new OneHost);
  return RUN_ALL_TESTS();
}

/// In a child, so that what was planted goes also when a test aborts.
template <class Prepare>
int run_in_child(int argc, char** argv, Prepare prepare) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    prepare();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of uid would take it away
    ::exit(run_tests(argc, argv));
  }
  int status = 1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run_as(unsigned uid, int argc, char** argv) {
  const support::PlainPrograms copies(
      uid, {"sandglass-host", "sandglass-keeper", "sandglass-init", "sandbox-attack"});
  return run_in_child(argc, argv, [&] {
    ::setenv("SANDGLASS_BUILD", copies.path().c_str(), 1);
    support::become_plain(uid);
  });
}

}  // namespace

const std::string& canary() {
  return word;
}

std::string describe(const Result<ExecResult>& result) {
  if (!result) return result.error().message;
  std::string text =
      "exit " + std::to_string(result->exit_code) + " signal " + std::to_string(result->signal);
  for (const LimitHit& hit : result->limits_hit) {
    text += " [" + std::string(provider::name_of(hit.kind)) + " " + std::to_string(hit.count) + ": " +
            hit.detail + "]";
  }
  return text + " out '" + result->out.substr(0, 2000) + "' err '" + result->err.substr(0, 2000) + "'";
}

std::string hits(const Result<ExecResult>& result) {
  if (!result) return result.error().message;
  std::set<std::string> names;
  for (const LimitHit& hit : result->limits_hit) names.emplace(provider::name_of(hit.kind));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

ProgramFolder::ProgramFolder(const std::string& init) {
  path_ = "/tmp/sandglass-programs-XXXXXX";
  ::mkdtemp(path_.data());
  fs::create_directory(path_ + "/bin");
  for (const char* program : {"sandglass-host", "sandglass-keeper"}) {
    fs::copy_file(programs() / program, fs::path(path_) / "bin" / program);
  }
  if (!init.empty()) fs::copy_file(programs() / init, fs::path(path_) / "bin/sandglass-init");
}

ProgramFolder::~ProgramFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

HostRig& AttackTest::rig() {
  if (host == nullptr) host = std::make_unique<HostRig>();
  return *host;
}

provider::SandboxRef AttackTest::make(provider::Template tmpl) {
  static const std::string program = read_all(programs() / "sandbox-attack");
  auto sandbox = rig().make(std::move(tmpl));
  auto tree = std::make_shared<MemoryTree>();
  tree->file("attack", program, true);
  const auto put = rig().put(sandbox, "", tree);
  EXPECT_TRUE(put.has_value()) << put.error().message;
  return sandbox;
}

provider::ExecRequest AttackTest::request(const std::vector<std::string>& attack,
                                          provider::ExecLimits limits) {
  auto request = rig().shell("");
  request.argv = {"/workspace/attack"};
  request.argv.insert(request.argv.end(), attack.begin(), attack.end());
  request.limits = limits;
  return request;
}

void AttackTest::expect_held(const std::vector<std::string>& attack) {
  const auto result = rig().exec(box_, request(attack, {.wall_ms = 60'000}));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->exit_code, 0) << describe(result);
  const auto after = shell("echo usable");
  EXPECT_EQ(after ? after->out : after.error().message, "usable\n");
}

}  // namespace sandglass::tests

int main(int argc, char** argv) {
  namespace tests = sandglass::tests;
  tests::word = "sandglass-canary-" + std::to_string(::getpid());
  ::setenv("SANDGLASS_CANARY", tests::word.c_str(), 1);  // the host's environment is nobody's (D13)
  const auto planted = tests::plant();
  const char* uid = ::getenv("SANDGLASS_TEST_UID");
  const bool drop = uid != nullptr && ::geteuid() == 0;
  const int status = drop ? tests::run_as(static_cast<unsigned>(std::atoi(uid)), argc, argv)
                          : tests::run_in_child(argc, argv, [] {});
  for (const auto& file : planted) std::filesystem::remove(file);
  return ::geteuid() == 0 && planted.size() < 15 ? 1 : status;
}
