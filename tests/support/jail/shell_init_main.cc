// A tiny init for the tests of the launcher: runs shell commands as sandglass-init runs an exec (barrier, uid
// 1000), without frames. On fd 3: "<number>\n<command>\0" in; after the barrier "g" in; "<status>
// <size>\n<output>" out.
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kControl = 3;
constexpr int kBarrier = 4;
constexpr int kKeeper = 5;

bool read_byte(char& c) {
  // the socket keeps message boundaries: a packet is taken whole and given out byte by byte
  static char packet[1 << 16];
  static ssize_t size = 0;
  static ssize_t next = 0;
  if (next == size) {
    next = 0;
    size = ::read(kControl, packet, sizeof packet);
    if (size <= 0) return false;
  }
  c = packet[next++];
  return true;
}

bool read_until(char end, std::string& out) {
  out.clear();
  for (char c = 0; read_byte(c);) {
    if (c == end) return true;
    out += c;
  }
  return false;
}

void write_all(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t size =
        ::write(kControl, text.data() + done, std::min<std::size_t>(text.size() - done, 1 << 15));
    if (size <= 0) ::_exit(9);
    done += static_cast<std::size_t>(size);
  }
}

/// The host's answer at the barrier: an entry of each control group. Then says that it has entered.
void enter_groups() {
  std::uint64_t exec = 0;
  iovec part{&exec, sizeof exec};
  alignas(cmsghdr) char control[256];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(kBarrier, &message, MSG_CMSG_CLOEXEC) <= 0) ::_exit(8);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i < (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      if (::write(fd, "0", 1) != 1) ::_exit(8);
      ::close(fd);
    }
  }
  const std::uint64_t entered[2] = {exec, 1};
  if (::send(kBarrier, entered, sizeof entered, 0) < 0) ::_exit(8);
}

void let_children_signal(bool now) {
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGCHLD);
  ::sigprocmask(now ? SIG_UNBLOCK : SIG_BLOCK, &mask, nullptr);
}

[[noreturn]] void run_command(const std::string& number, const std::string& command, int gate, int output) {
  if (::send(kBarrier, number.data(), number.size(), 0) < 0) ::_exit(8);
  enter_groups();
  char go = 0;
  if (::read(gate, &go, 1) != 1) ::_exit(8);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::setsid();
  if (::getuid() == 0) {
    for (int capability = 0; capability < 64; ++capability) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (::setgroups(0, nullptr) != 0 || ::setresgid(1000, 1000, 1000) != 0 ||
        ::setresuid(1000, 1000, 1000) != 0) {
      ::_exit(7);
    }
  }
  let_children_signal(true);
  ::setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1);
  ::setenv("HOME", "/home/sandbox", 1);
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

/// Between commands whatever ends is reaped at once: what a killed command leaves dies later than its shell.
void reap(int /*signal*/) {
  const int before = errno;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  errno = before;
}

}  // namespace

int main() {
  struct sigaction on_child{};
  on_child.sa_handler = reap;
  on_child.sa_flags = SA_RESTART;
  ::sigaction(SIGCHLD, &on_child, nullptr);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::fcntl(kControl, F_SETFD, FD_CLOEXEC);
  ::fcntl(kBarrier, F_SETFD, FD_CLOEXEC);
  ::fcntl(kKeeper, F_SETFD, FD_CLOEXEC);
  std::string number;
  std::string command;
  while (read_until('\n', number) && read_until('\0', command)) {
    int gate[2];
    int output[2];
    let_children_signal(false);  // the command's own end is waited for below
    if (::pipe2(gate, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0) return 5;
    const pid_t pid = ::fork();
    if (pid < 0) return 6;
    if (pid == 0) run_command(number, command, gate[0], output[1]);
    ::close(gate[0]);
    ::close(output[1]);
    char go = 0;
    if (!read_byte(go) || ::write(gate[1], &go, 1) != 1) return 4;
    ::close(gate[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t size = 0; (size = ::read(output[0], buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(size));
      if (text.size() > (1u << 20)) text.erase(0, text.size() - (1u << 20));
    }
    ::close(output[0]);
    int status = 0;
    ::waitpid(pid, &status, 0);
    let_children_signal(true);
    write_all(std::to_string(status) + " " + std::to_string(text.size()));
    write_all(text);
  }
  return 0;
}
