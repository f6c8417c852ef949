// What the sandbox host takes from both sides: frames of whoever connects to its socket, and packets of an
// init that may have been taken over (V1, ADV-B22, B25, B26). Real host, loop and sockets; no sandboxes: the
// launcher hands out the ends of socket pairs. Input: steps, each a byte and what it needs. Whatever is said,
// the host goes on: at the end an engine that connects is welcomed.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/ports.h"
#include "engine/base/socket_path.h"
#include "sandbox-runtime/host/host.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass;
using namespace sandbox_runtime;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;
using frame::v1::HostRequest;

struct StepClock final : engine::base::Clock {
  engine::base::WallMs wall_ms() const override { return 1'000'000 + ms; }
  engine::base::MonotonicNs monotonic_ns() const override { return (1 + ms) * 1'000'000; }
  std::int64_t ms = 0;
};

struct Inline final : engine::base::TaskRunner {
  void run(std::move_only_function<void()> closure) override { closure(); }
};

/// Sandboxes that are three descriptors; their other ends are the fuzzer's.
class Ends final : public provider::Launcher {
 public:
  struct Inside {
    UniqueFd control, barrier, pid;
  };
  std::map<std::string, Inside> inside;

  Ends() {
    for (const auto kind : provider::kAllLimits)
      support_.push_back({kind, provider::Strength::works, "", ""});
  }
  const std::vector<provider::LimitSupport>& support() override { return support_; }
  std::vector<provider::Feature> features() override { return {}; }
  bool has_groups() const override { return true; }
  Result<provider::Launched> create(const provider::SandboxSpec& spec) override {
    if (spec.id.starts_with("bad")) return engine::base::fail(engine::base::Code::provider_failed, "no");
    provider::Launched made{.id = spec.id, .support = support_};
    Inside& other = inside[spec.id];
    pair(made.control, other.control);
    pair(made.barrier, other.barrier);
    pair(made.pidfd, other.pid);
    const int on = 1;
    setsockopt(made.barrier.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    return made;
  }
  Result<std::vector<provider::Launched>> adopt() override { return std::vector<provider::Launched>(); }
  Result<UniqueFd> make_exec(const std::string&, std::uint64_t exec, const provider::ExecLimits&) override {
    if (exec % 7 == 0) return engine::base::fail(engine::base::Code::io_error, "no group");
    return UniqueFd();
  }
  Status limit_exec(const std::string&, std::uint64_t, const provider::ExecLimits&) override { return {}; }
  Status place(const std::string&, std::uint64_t, pid_t) override { return {}; }
  Status admit(const std::string&, std::uint64_t, pid_t) override { return {}; }
  Result<std::vector<provider::LimitHit>> exec_hits(const std::string&, std::uint64_t) override {
    return std::vector<provider::LimitHit>();
  }
  Status kill_exec(const std::string&, std::uint64_t) override { return {}; }
  Result<provider::Usage> exec_usage(const std::string&, std::uint64_t exec) override {
    return provider::Usage{.cpu_ns = exec * 1'000'000'000};
  }
  Status remove_exec(const std::string&, std::uint64_t) override { return {}; }
  Status destroy(const std::string& id) override {
    inside.erase(id);
    return {};
  }
  Result<std::vector<provider::InventoryEntry>> inventory() override {
    return std::vector<provider::InventoryEntry>();
  }
  Result<std::vector<std::string>> sweep() override { return std::vector<std::string>(); }

 private:
  static void pair(UniqueFd& ours, UniqueFd& other) {
    int ends[2];
    SG_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
    ours.reset(ends[0]);
    other.reset(ends[1]);
  }
  std::vector<provider::LimitSupport> support_;
};

std::string temporary_folder() {
  char name[] = "/tmp/sandglass-fuzz-XXXXXX";
  SG_CHECK(mkdtemp(name) != nullptr, "no temporary folder");
  return name;
}

class Rig {
 public:
  explicit Rig(const std::string& folder) : socket_(folder + "/host.sock") {
    SG_CHECK(host_.start().has_value(), "the host does not start");
    connect();
  }

  void connect() {
    engine_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto address = engine::base::SocketPath::make(socket_);
    // refused once the host is shutting down
    (void)::connect(engine_.get(), address->address(), address->size());
    turn();
  }
  void raw(std::string_view bytes) {
    (void)!::send(engine_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    turn();
  }
  void frame(std::string_view payload) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(payload.size() >> shift));
    raw(bytes.append(payload));
  }
  void request(HostRequest request) { frame(request.SerializeAsString()); }
  void packet(std::string_view bytes, bool barrier) {
    if (launcher_.inside.empty() || bytes.empty()) return;
    Ends::Inside& inside = launcher_.inside.begin()->second;
    (void)!::send((barrier ? inside.barrier : inside.control).get(), bytes.data(), bytes.size(),
                  MSG_DONTWAIT | MSG_NOSIGNAL);
    turn();
    // the host may have ended that sandbox
    if (!launcher_.inside.empty()) drain(launcher_.inside.begin()->second.control.get());
  }
  void die() {
    if (launcher_.inside.empty()) return;
    launcher_.inside.begin()->second = {};
    turn();
  }
  void wait(std::int64_t ms) {
    clock_.ms += ms;
    turn();
  }
  /// What the host has sent to the engine since.
  std::string answers() {
    std::string all;
    char buffer[4096];
    for (ssize_t got; (got = recv(engine_.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return all;
  }
  bool shutting_down() const { return clock_.ms >= 20'000; }

 private:
  void turn() {
    for (int i = 0; i < 4; ++i) loop_.turn(0);
  }
  static void drain(int fd) {
    char buffer[1024];
    while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
    }
  }

  std::string socket_;
  StepClock clock_;
  Inline pool_;
  frames::Loop loop_{clock_};
  Ends launcher_;
  host::Host host_{loop_,
                   pool_,
                   launcher_,
                   {.socket_path = socket_,
                    .engine_uid = geteuid(),
                    .record_folder = socket_ + ".d",
                    .grace_ms = 20'000,
                    .max_sandboxes = 4}};
  UniqueFd engine_;
};

HostRequest hello() {
  HostRequest request;
  request.set_call(1);
  request.mutable_hello()->set_version(1);
  return request;
}

HostRequest create(std::uint8_t how) {
  HostRequest request;
  request.set_call(2u + how % 4);
  auto& out = *request.mutable_create();
  out.set_id(how % 8 == 7 ? "bad" : "s" + std::to_string(how % 8));
  out.set_fence(1 + how / 16);
  out.mutable_template_()->set_name("default");
  const provider::Limits limits;
  for (const auto kind : provider::kAllLimits) {
    auto& item = *out.mutable_template_()->add_limits();
    item.set_kind(static_cast<std::uint32_t>(kind));
    item.set_value(limits.of(kind).value);
  }
  return request;
}

HostRequest exec(std::uint8_t how) {
  HostRequest request;
  request.set_call(10u + how % 8);
  auto& out = *request.mutable_exec();
  out.set_id("s" + std::to_string(how / 8 % 8));
  out.set_fence(1'000);
  out.set_key("key" + std::to_string(how % 8));
  out.set_digest(std::string(32, 'd'));
  out.add_argv("/bin/true");
  if (how % 2 != 0) out.set_stdin("input");
  return request;
}

void step(Rig& rig, tests::fuzz::Input& in) {
  switch (in.byte() % 12) {
    case 0:
      return rig.frame(in.piece());
    case 1:
      return rig.packet(in.piece(), false);
    case 2:
      return rig.packet(in.piece(), true);
    case 3:
      return rig.raw(in.piece());
    case 4:
      return rig.wait(in.u16() / 16);
    case 5:
      return rig.connect();
    case 6:
      return rig.die();
    case 7:
      return rig.request(hello());
    case 8:
      rig.request(create(in.byte()));
      return rig.packet(frames::encode(frames::Hello{}), false);
    case 9:
      return rig.request(exec(in.byte()));
    case 10: {
      HostRequest request;  // a whole body without its number
      if (const auto body = in.piece(); !request.ParseFromArray(body.data(), static_cast<int>(body.size())))
        return;
      return rig.request(std::move(request));
    }
    default:
      return rig.wait(1 + in.byte());
  }
}

}  // namespace

FUZZ_TARGET(host_frames) {
  static const std::string folder = temporary_folder();
  static const int gone = std::atexit([] { std::filesystem::remove_all(folder); });
  SG_CHECK(gone == 0, "atexit");
  {
    Rig rig(folder);
    tests::fuzz::Input in(input);
    for (int steps = 0; !in.empty() && steps < 200; ++steps) step(rig, in);
    if (!rig.shutting_down()) {
      rig.connect();
      rig.request(hello());
      SG_CHECK(!rig.answers().empty(), "the host welcomes nobody any more");
    }
  }
  std::filesystem::remove_all(folder + "/host.sock.d");
}
