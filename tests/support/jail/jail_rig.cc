#include "tests/support/jail/jail_rig.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::tests {

namespace fs = std::filesystem;
using namespace sandbox_runtime::provider;

namespace {

template <class T>
T must(engine::base::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
void must(const engine::base::Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

void send_text(int fd, const std::string& text) {
  if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the sandbox's init is gone");
  }
}

bool read_exactly(int fd, char* out, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(fd, out, size);
    if (got <= 0) return false;
    out += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

pid_t receive_barrier(int fd) {
  char bytes[64];
  iovec part{bytes, sizeof bytes};
  alignas(cmsghdr) char control[256];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(fd, &message, MSG_CMSG_CLOEXEC) <= 0) throw std::runtime_error("no word at the barrier");
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_type == SCM_CREDENTIALS) return reinterpret_cast<const ucred*>(CMSG_DATA(head))->pid;
  }
  throw std::runtime_error("no credentials at the barrier");
}

}  // namespace

std::string build_folder() {
  const char* given = std::getenv("SANDGLASS_BUILD");
  if (given != nullptr) return given;
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path().string();
}

linux_jail::LauncherOptions launcher_options(const std::string& folder, const std::string& folder_id,
                                             std::uint32_t adopt_grace_ms) {
  linux_jail::LauncherOptions options;
  options.data_folder_id = folder_id;
  options.folder = folder;
  options.keeper_program = build_folder() + "/bin/sandglass-keeper";
  options.init_program = build_folder() + "/bin/sandbox-shell-init";
  options.adopt_grace_ms = adopt_grace_ms;
  return options;
}

Sandbox::Sandbox(Launcher& launcher, Launched launched)
    : launcher_(&launcher), launched_(std::move(launched)) {
  const timeval patience{30, 0};  // a test that waits for a lost sandbox fails instead of hanging
  for (const int fd : {launched_.control.get(), launched_.barrier.get()}) {
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
}

void Sandbox::begin(const std::string& command, ExecLimits limits) {
  ++exec_;
  memory_event_ = must(launcher_->make_exec(id(), exec_, limits));
  send_text(launched_.control.get(), std::to_string(exec_) + "\n" + command + std::string(1, '\0'));
  const pid_t pid = receive_barrier(launched_.barrier.get());
  must(launcher_->place(id(), exec_, pid));
  must(launcher_->admit(id(), exec_, receive_barrier(launched_.barrier.get())));
  send_text(launched_.control.get(), "g");
}

CommandResult Sandbox::finish() {
  // one packet says how it ended and how much output follows
  char head_packet[256];
  const ssize_t head_size = ::read(launched_.control.get(), head_packet, sizeof head_packet);
  const std::string head(head_packet, static_cast<std::size_t>(std::max<ssize_t>(head_size, 0)));
  CommandResult result;
  std::size_t size = 0;
  std::istringstream(head) >> result.status >> size;
  result.output.resize(size);
  if (head.empty() || !read_exactly(launched_.control.get(), result.output.data(), size)) {
    return {-1, "the sandbox's init is gone"};
  }
  return result;
}

CommandResult Sandbox::run(const std::string& command, ExecLimits limits) {
  begin(command, limits);
  CommandResult result = finish();
  must(launcher_->remove_exec(id(), exec_));
  return result;
}

MachineState JailRig::machine_state() const {
  MachineState state;
  std::error_code error;
  for (const char* root : {"memory", "pids", "cpu", "cpuacct", "unified", "."}) {
    for (const auto& entry : fs::directory_iterator(fs::path("/sys/fs/cgroup") / root, error)) {
      if (entry.path().filename().string().starts_with("sandglass-" + folder_id_ + "-")) {
        state.groups.push_back(entry.path());
      }
    }
  }
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(folder_) != std::string::npos || line.find("/dev/loop") != std::string::npos)
      ++state.mounts;
  }
  for (int i = 0; i < 64; ++i) {
    std::ifstream backing("/sys/block/loop" + std::to_string(i) + "/loop/backing_file");
    std::string file;
    if (std::getline(backing, file) && file.find(folder_) != std::string::npos) {
      state.loops.push_back("loop" + std::to_string(i));
    }
  }
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const fs::path link = fs::read_symlink(entry.path() / "ns" / "net", error);
    if (!error && networks_.contains(link))
      state.processes.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return state;
}

std::string describe(const MachineState& state) {
  std::ostringstream out;
  out << state.mounts << " mounts; groups:";
  for (const auto& group : state.groups) out << " " << group;
  out << "; loops:";
  for (const auto& loop : state.loops) out << " " << loop;
  out << "; processes:";
  for (const int pid : state.processes) out << " " << pid;
  return out.str();
}

bool eventually(const std::function<bool()>& done, int ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

JailRig::JailRig(std::uint32_t adopt_grace_ms, const std::string& parent) : adopt_grace_ms_(adopt_grace_ms) {
  std::string name = parent + "/sandglass-jail-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  folder_ = name;
  for (const char c : folder_.substr(folder_.size() - 6)) {
    constexpr char kDigits[] = "0123456789abcdef";
    folder_id_ += kDigits[static_cast<unsigned char>(c) >> 4];
    folder_id_ += kDigits[static_cast<unsigned char>(c) & 15];
  }
  start_host();
}

JailRig::~JailRig() {
  try {
    if (launcher_ == nullptr) start_host();
    for (const InventoryEntry& entry : must(launcher_->inventory())) must(launcher_->destroy(entry.id));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cleaning up failed: %s\n", error.what());
  }
  const int keeper = keeper_pid();
  launcher_.reset();
  if (keeper > 0) ::kill(keeper, SIGKILL);
  ::waitpid(keeper, nullptr, 0);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void JailRig::start_host() {
  launcher_ = must(linux_jail::make_linux_launcher(launcher_options(folder_, folder_id_, adopt_grace_ms_)));
}

void JailRig::restart_host() {
  drop_host();
  start_host();
}

int JailRig::keeper_pid() const {
  return launcher_ == nullptr ? 0 : linux_jail::keeper_pid(*launcher_);
}

engine::base::UniqueFd JailRig::connect_to(const std::string& path) {
  engine::base::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("no keeper at " + path);
  }
  return socket;
}

Template JailRig::small_template() {
  Template tmpl;
  tmpl.name = "small";
  tmpl.limits.memory.value = 256u << 20;
  tmpl.limits.pids.value = 64;
  tmpl.limits.disk.value = 32u << 20;
  tmpl.limits.inodes.value = 2000;
  if (::geteuid() != 0) tmpl.limits.memory.need = tmpl.limits.cpu.need = Need::best_effort;
  return tmpl;
}

Sandbox JailRig::make(Template tmpl) {
  SandboxSpec spec{"box-" + std::to_string(++count_), std::move(tmpl)};
  Launched launched = must(launcher_->create(spec));
  std::error_code hidden;  // from a plain user
  const fs::path process = "/proc/" + std::to_string(process_of(launched.pidfd));
  const fs::path network = fs::read_symlink(process / "ns" / "net", hidden);
  if (!hidden) networks_.insert(network);
  return {*launcher_, std::move(launched)};
}

int process_of(const engine::base::UniqueFd& pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd.get()));
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("Pid:")) return std::stoi(line.substr(4));
  }
  return -1;
}

}  // namespace sandglass::tests
