#include "tests/support/host/host_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/base/data_folder.h"
#include "engine/base/system_ports.h"
#include "engine/base/unique_fd.h"
#include "engine/net/codec/network_codec.h"

namespace sandglass::sandbox_runtime::host {

namespace fs = std::filesystem;
using engine::base::Code;

namespace {

std::string programs() {
  const char* build = getenv("SANDGLASS_BUILD");
  if (build != nullptr) return std::string(build) + "/bin";
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin";
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Waits for an answer; a test must not hang for ever.
template <class T>
Result<T> wait(std::future<Result<T>> answer, std::chrono::seconds limit = std::chrono::seconds(60)) {
  if (answer.wait_for(limit) != std::future_status::ready) {
    ADD_FAILURE() << "no answer came";
    abort();
  }
  return answer.get();
}

template <class T>
std::pair<provider::Answer<T>, std::future<Result<T>>> promise() {
  auto shared = std::make_shared<std::promise<Result<T>>>();
  return {[shared](Result<T> result) { shared->set_value(std::move(result)); }, shared->get_future()};
}

}  // namespace

void MemoryTree::file(const std::string& path, std::string content, bool executable) {
  const provider::TreeEntry entry{provider::EntryType::file, path, executable, content.size(), {}};
  items[path] = {entry, std::move(content)};
}

void MemoryTree::folder(const std::string& path) {
  items[path] = {{provider::EntryType::folder, path, false, 0, {}}, {}};
}

void MemoryTree::link(const std::string& path, const std::string& target) {
  items[path] = {{provider::EntryType::symlink, path, false, 0, target}, {}};
}

Result<std::optional<provider::TreeEntry>> MemoryTree::next() {
  at_ = started_ ? std::next(at_) : items.begin();
  started_ = true;
  read_ = 0;
  if (at_ == items.end()) return std::nullopt;
  return at_->second.entry;
}

Result<std::size_t> MemoryTree::read(std::span<char> out) {
  const std::string& content = at_->second.content;
  const std::size_t size = std::min(out.size(), content.size() - read_);
  content.copy(out.data(), size, read_);
  read_ += size;
  return size;
}

Status MemoryTree::begin(const provider::TreeEntry& entry) {
  writing_ = &items[entry.path];
  writing_->entry = entry;
  return {};
}

Status MemoryTree::data(std::string_view bytes) {
  writing_->content.append(bytes);
  return {};
}

HostRig::HostRig(std::int64_t grace_ms) : grace_ms_(grace_ms) {
  char name[] = "/tmp/sandglass-host-test-XXXXXX";
  data_ = std::string(mkdtemp(name)) + "/data";
  engine::base::SystemRandom random;
  auto folder = engine::base::DataFolder::open(data_, random);
  EXPECT_TRUE(folder.has_value());
  id_ = folder->id().substr(0, 12);
  start_host();
  connect();
}

HostRig::~HostRig() {
  client_.reset();
  if (host_ > 0) {
    kill(host_, SIGTERM);
    EXPECT_EQ(wait_host(), 0);
  }
  if (egress_ > 0) kill_egress();
  EXPECT_TRUE(eventually([&] { return left_on_machine().empty(); })) << left_on_machine().front();
  std::error_code ignored;
  fs::remove_all(fs::path(data_).parent_path(), ignored);
}

void HostRig::start_host() {
  const std::string program = programs() + "/sandglass-host";
  const std::string grace = std::to_string(grace_ms_);
  const std::string log = fs::path(data_).parent_path() / "host.log";
  host_ = fork();
  if (host_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (getenv("SANDGLASS_TEST_LOG") == nullptr) dup2(out, 2);
    if (!crash_at_.empty()) setenv("SANDGLASS_CRASH_AT", crash_at_.c_str(), 1);
    execl(program.c_str(), program.c_str(), "--data", data_.c_str(), "--grace-ms", grace.c_str(), nullptr);
    _exit(127);
  }
}

void HostRig::start_egress(const std::string& config) {
  const std::string program = programs() + "/sandglass-egress";
  const std::string socket = data_ + "/host/egress.sock";
  const engine::base::UniqueFd memory(memfd_create("network-config", 0));
  ASSERT_EQ(write(memory.get(), config.data(), config.size()), static_cast<ssize_t>(config.size()));
  lseek(memory.get(), 0, SEEK_SET);
  const std::string number = std::to_string(memory.get());
  egress_ = fork();
  if (egress_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!crash_at_.empty()) setenv("SANDGLASS_CRASH_AT", crash_at_.c_str(), 1);
    execl(program.c_str(), program.c_str(), "--socket", socket.c_str(), "--config-fd", number.c_str(),
          nullptr);
    _exit(127);
  }
  ASSERT_TRUE(eventually([&] { return fs::exists(socket); }));
}

bool HostRig::egress_was_killed() {
  int status = 0;
  const bool ended = eventually([&] { return waitpid(egress_, &status, WNOHANG) == egress_; }, 60'000);
  if (ended) egress_ = -1;
  return ended && WIFSIGNALED(status);
}

void HostRig::kill_egress() {
  kill(egress_, SIGKILL);
  waitpid(egress_, nullptr, 0);
  egress_ = -1;
}

void HostRig::kill_host() {
  kill(host_, SIGKILL);
  waitpid(host_, nullptr, 0);
  host_ = -1;
}

int HostRig::wait_host() {
  int status = -1;
  const bool ended = eventually([&] { return waitpid(host_, &status, WNOHANG) == host_; }, 30'000);
  EXPECT_TRUE(ended) << "the host does not end";
  if (!ended) kill_host();
  host_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

void HostRig::connect() {
  client::HostEvents events;
  events.network_verdict = [this](const std::string& bytes) {
    frame::v1::NetworkVerdict verdict;
    if (!verdict.ParseFromString(bytes)) return;
    const std::lock_guard lock(mutex_);
    verdicts_.push_back(engine::net::codec::from_frame(verdict).json());
  };
  client_ = std::make_unique<client::HostClient>(client::HostClientOptions{socket()}, std::move(events));
}

provider::Template HostRig::small_template() {
  provider::Template tmpl;
  tmpl.name = "small";
  tmpl.limits.memory.value = 256ull << 20;
  tmpl.limits.pids.value = 64;
  tmpl.limits.disk.value = 32ull << 20;
  tmpl.limits.inodes.value = 5'000;
  tmpl.limits.cpu.value = 1'000;
  tmpl.limits.life.value = 600'000;
  tmpl.env_allow = {"GREETING"};
  for (provider::LimitKind kind : provider::kAllLimits) {
    if (geteuid() != 0) tmpl.limits.of(kind).need = provider::Need::best_effort;
  }
  return tmpl;
}

provider::SandboxRef HostRig::make(provider::Template tmpl, std::int64_t life_ms) {
  provider::CreateRequest request;
  request.spec.id = "test-" + std::to_string(++count_);
  request.spec.tmpl = std::move(tmpl);
  request.fence = 10;
  request.expires_at_ms = engine::base::SystemClock().monotonic_ns() / 1'000'000 + life_ms;
  const std::string id = request.spec.id;
  auto created = create(std::move(request));
  EXPECT_TRUE(created.has_value()) << created.error().message << "\n"
                                   << read_all(fs::path(data_).parent_path() / "host.log");
  return {id, 10};
}

Result<provider::Created> HostRig::create(provider::CreateRequest request) {
  auto [answer, result] = promise<provider::Created>();
  client_->create(std::move(request), std::move(answer));
  return wait(std::move(result));
}

provider::ExecRequest HostRig::shell(const std::string& script, const std::string& key) {
  provider::ExecRequest request;
  request.key = key.empty() ? "key-" + std::to_string(++count_) : key;
  request.argv = {"/bin/sh", "-c", script};
  return request;
}

std::future<Result<provider::ExecResult>> HostRig::begin(provider::SandboxRef sandbox,
                                                         provider::ExecRequest request,
                                                         provider::OutputCallback on_output) {
  auto [answer, result] = promise<provider::ExecResult>();
  client_->exec(std::move(sandbox), std::move(request), std::move(on_output), std::move(answer));
  return std::move(result);
}

Result<provider::ExecResult> HostRig::exec(provider::SandboxRef sandbox, provider::ExecRequest request) {
  const std::chrono::seconds limit(60 + request.limits.wall_ms / 1000);
  return wait(begin(std::move(sandbox), std::move(request)), limit);
}

Status HostRig::destroy(provider::SandboxRef sandbox) {
  auto [answer, result] = promise<void>();
  client_->destroy(std::move(sandbox), std::move(answer));
  return wait(std::move(result));
}

Status HostRig::allow(provider::SandboxRef sandbox, std::vector<provider::AllowedDestination> destinations) {
  auto [answer, result] = promise<void>();
  client_->allow(std::move(sandbox), std::move(destinations), std::move(answer));
  return wait(std::move(result));
}

std::vector<std::string> HostRig::verdicts() {
  const std::lock_guard lock(mutex_);
  return verdicts_;
}

Status HostRig::kill_exec(provider::SandboxRef sandbox, const std::string& key) {
  auto [answer, result] = promise<void>();
  client_->kill_exec(std::move(sandbox), key, std::move(answer));
  return wait(std::move(result));
}

Result<provider::TreeResult> HostRig::put(provider::SandboxRef sandbox, const std::string& path,
                                          std::shared_ptr<MemoryTree> tree) {
  auto [answer, result] = promise<provider::TreeResult>();
  client_->put_tree(std::move(sandbox), path, std::move(tree), std::move(answer));
  return wait(std::move(result));
}

Result<provider::TreeResult> HostRig::get(provider::SandboxRef sandbox, const std::string& path,
                                          std::shared_ptr<MemoryTree> tree) {
  auto [answer, result] = promise<provider::TreeResult>();
  client_->get_tree(std::move(sandbox), path, std::move(tree), std::move(answer));
  return wait(std::move(result));
}

Result<provider::Manifest> HostRig::list(provider::SandboxRef sandbox, const std::string& path) {
  auto [answer, result] = promise<provider::Manifest>();
  client_->list_tree(std::move(sandbox), path, std::move(answer));
  return wait(std::move(result));
}

Result<std::vector<provider::InventoryItem>> HostRig::inventory() {
  auto [answer, result] = promise<std::vector<provider::InventoryItem>>();
  client_->inventory(std::move(answer));
  return wait(std::move(result));
}

std::size_t HostRig::processes_with(const std::string& text) {
  std::size_t count = 0;
  for (const auto& item : fs::directory_iterator("/proc")) {
    if (item.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_all(item.path() / "cmdline").find(text) != std::string::npos) ++count;
  }
  return count;
}

std::size_t HostRig::resident_kib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

std::size_t HostRig::open_descriptors(pid_t pid) {
  const fs::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(fs::begin(all), fs::end(all)));
}

std::vector<std::string> HostRig::left_on_machine() const {
  std::vector<std::string> found;
  const std::string prefix = "sandglass-" + id_;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator("/sys/fs/cgroup",
                                                  fs::directory_options::skip_permission_denied, error);
       at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (error) break;
    if (at->path().filename().string().starts_with(prefix)) found.push_back(at->path());
  }
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(data_) != std::string::npos) found.push_back(line);
  }
  return found;
}

pid_t HostRig::init_pid() const {
  pid_t newest = -1;
  for (const auto& item : fs::directory_iterator("/proc")) {
    if (item.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_all(item.path() / "cgroup").find("sandglass-" + id_) == std::string::npos) continue;
    const std::string status = read_all(item.path() / "status");
    const std::size_t at = status.find("NSpid:");
    const std::string line = at == std::string::npos ? "" : status.substr(at, status.find('\n', at) - at);
    if (line.ends_with("\t1"))
      newest = std::max(newest, static_cast<pid_t>(std::stol(item.path().filename())));
  }
  return newest;
}

bool HostRig::eventually(const std::function<bool()>& done, int ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace sandglass::sandbox_runtime::host
