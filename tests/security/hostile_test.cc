// A first process that somebody has taken over: the host stays, bounded, and the sandbox is not used
// (ADV-B22, B25, B26).
#include <filesystem>
#include <fstream>

#include "engine/base/system_ports.h"
#include "tests/security/attack/hostile_modes.h"
#include "tests/security/attack_rig.h"

namespace sandglass::tests {
namespace {

namespace fs = std::filesystem;
using attack::Hostile;

/// A host whose sandboxes all start with the attack program.
class HostileTest : public testing::Test {
 protected:
  HostileTest() {
    if (const char* build = ::getenv("SANDGLASS_BUILD")) build_ = build;
    ::setenv("SANDGLASS_BUILD", programs_.path().c_str(), 1);
    rig_ = std::make_unique<HostRig>();
    build_.empty() ? ::unsetenv("SANDGLASS_BUILD") : ::setenv("SANDGLASS_BUILD", build_.c_str(), 1);
  }

  struct Made {
    provider::SandboxRef sandbox;
    std::future<Result<provider::Created>> created;
  };
  Made begin(Hostile mode) {
    provider::CreateRequest request;
    request.spec.id = "hostile-" + std::to_string(static_cast<std::uint64_t>(mode));
    request.spec.tmpl = HostRig::small_template();
    request.spec.tmpl.limits.open_files.value = attack::kModeBase + static_cast<std::uint64_t>(mode);
    request.spec.tmpl.limits.cpu.value = 100;
    request.fence = 1;
    request.expires_at_ms = engine::base::SystemClock().wall_ms() + 100'000;
    const std::string id = request.spec.id;
    auto promise = std::make_shared<std::promise<Result<provider::Created>>>();
    auto created = promise->get_future();
    rig_->client().create(std::move(request),
                          [promise](Result<provider::Created> made) { promise->set_value(std::move(made)); });
    return {{id, 1}, std::move(created)};
  }

  ProgramFolder programs_{"sandbox-attack"};
  std::string build_;
  std::unique_ptr<HostRig> rig_;
};

TEST_F(HostileTest, AFirstProcessThatIsNobodysFriendEndsItsSandboxAlone) {
  ASSERT_TRUE(rig_->inventory().has_value());  // the host is up
  const std::size_t memory = HostRig::resident_kib(rig_->host_pid());
  const std::size_t descriptors = HostRig::open_descriptors(rig_->host_pid());
  std::vector<Made> all;
  for (std::uint64_t mode = 0; mode < static_cast<std::uint64_t>(Hostile::count); ++mode) {
    all.push_back(begin(static_cast<Hostile>(mode)));
  }
  std::vector<std::pair<std::size_t, std::future<Result<ExecResult>>>> commands;
  for (std::size_t mode = 0; mode < all.size(); ++mode) {
    ASSERT_EQ(all[mode].created.wait_for(std::chrono::seconds(60)), std::future_status::ready) << mode;
    if (!all[mode].created.get()) continue;
    commands.emplace_back(mode, rig_->begin(all[mode].sandbox, rig_->shell("echo never")));
  }
  for (auto& [mode, command] : commands) {
    if (mode == static_cast<std::size_t>(Hostile::gives_descriptors)) continue;  // it only does nothing
    ASSERT_EQ(command.wait_for(std::chrono::seconds(60)), std::future_status::ready) << mode;
    const auto result = command.get();
    // a first process may lie about a command, but only about that
    if (mode != static_cast<std::size_t>(Hostile::lies)) EXPECT_FALSE(result.has_value()) << mode;
    if (result) EXPECT_EQ(result->out, "") << mode;
  }
  EXPECT_LT(HostRig::resident_kib(rig_->host_pid()), memory + (64u << 10));
  EXPECT_LT(HostRig::open_descriptors(rig_->host_pid()), descriptors + 40);
  for (const Made& made : all) EXPECT_TRUE(rig_->destroy(made.sandbox).has_value()) << made.sandbox.id;
  EXPECT_TRUE(rig_->inventory()->empty());
  EXPECT_LT(HostRig::open_descriptors(rig_->host_pid()), descriptors + 10);
}

TEST_F(HostileTest, ATreeWithoutEndTakesLittleOfWhoAskedForIt) {  // ADV-A9, B26
  for (const auto& [mode, code] : {std::pair(Hostile::names_without_end, engine::base::Code::quota_exceeded),
                                   {Hostile::content_without_end, engine::base::Code::frame_malformed}}) {
    Made made = begin(mode);
    ASSERT_TRUE(made.created.get().has_value());
    const std::size_t memory = HostRig::resident_kib(::getpid());
    const auto listed = rig_->list(made.sandbox, "");
    ASSERT_FALSE(listed.has_value());
    EXPECT_EQ(listed.error().code, code) << listed.error().message;
    EXPECT_LT(HostRig::resident_kib(::getpid()), memory + (256u << 10));
    EXPECT_TRUE(rig_->destroy(made.sandbox).has_value());
  }
}

}  // namespace
}  // namespace sandglass::tests
