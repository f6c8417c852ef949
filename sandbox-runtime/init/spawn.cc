#include "sandbox-runtime/init/spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "sandbox-runtime/init/minder.h"

namespace sandglass::sandbox_runtime::init {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::UniqueFd;

namespace {

enum Stage : std::int32_t { session = 1, output, limits, identity, cwd, barrier, execute };

struct Ends {
  UniqueFd read;
  UniqueFd write;
};

bool make_pipe(Ends& ends) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  ends.read.reset(fds[0]);
  ends.write.reset(fds[1]);
  return true;
}

void unblock(const UniqueFd& fd) {
  if (fd) fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

/// Everything that the child needs, made before the fork.
struct Child {
  const frames::ExecStart& request;
  const SpawnOptions& options;
  std::vector<char*> argv;
  std::vector<char*> env;
  int in = -1;
  int out = -1;
  int err = -1;
  int go = -1;
  int failure = -1;
};

[[noreturn]] void give_up(const Child& child, Stage stage) {
  const StartFailure failure{stage, errno};
  (void)!write(child.failure, &failure, sizeof failure);
  _exit(127);
}

void default_signals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool set_limit(__rlimit_resource resource, rlim_t value, rlim_t most) {
  const rlimit limit{value, most};
  return setrlimit(resource, &limit) == 0;
}

bool set_limit(__rlimit_resource resource, rlim_t value) {
  return set_limit(resource, value, value);
}

/// The kernel counts init and the minder, too.
rlim_t processes_for(rlim_t wanted) {
  constexpr rlim_t kOurs = 2;
  rlimit now{};
  return getrlimit(RLIMIT_NPROC, &now) == 0 ? std::min(wanted + kOurs, now.rlim_max) : wanted;
}

/// From root inside, with a few capabilities, to the sandbox's user with none and no way to any.
bool become_user(const Identity& who) {
  if (!who.change) return true;
  for (int capability = 0; capability < 64; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno != EINVAL) return false;
    break;  // past the kernel's last one
  }
  return setgroups(0, nullptr) == 0 && setresgid(who.gid, who.gid, who.gid) == 0 &&
         setresuid(who.uid, who.uid, who.uid) == 0;
}

/// Relative to the workspace and not out of it; absolute: anywhere inside. Never by way of /proc's magic
/// links, which could name a descriptor of init (ADV-A17).
bool enter_folder(const std::string& workspace, const std::string& cwd) {
  const bool absolute = cwd.starts_with('/');
  const UniqueFd base(open(absolute ? "/" : workspace.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS | (absolute ? 0 : RESOLVE_BENEATH);
  const UniqueFd folder(
      static_cast<int>(syscall(SYS_openat2, base.get(), cwd.empty() ? "." : cwd.c_str(), &how, sizeof how)));
  return folder && fchdir(folder.get()) == 0;
}

/// What child and host say at the barrier (launcher.h): the number alone, or with a word behind it.
struct BarrierWord {
  std::uint64_t number = 0;
  std::uint64_t word = 1;
};

/// One child at a time is at the barrier; the lock goes with its owner's death. False: init said no
/// meanwhile.
bool lock_barrier(const Child& child) {
  struct flock whole{};
  whole.l_type = F_WRLCK;
  while (fcntl(child.options.barrier_fd, F_SETLK, &whole) != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return false;
    pollfd word{child.go, POLLIN, 0};
    if (poll(&word, 1, 2) != 0) return errno = ECANCELED, false;
  }
  return true;
}

/// Presents itself; the host prepares its answer while the child goes on.
bool reach_barrier(const Child& child) {
  if (!child.request.barrier) return true;
  const std::uint64_t number = child.request.number;
  return lock_barrier(child) &&
         send(child.options.barrier_fd, &number, sizeof number, MSG_NOSIGNAL) == sizeof number;
}

enum class Heard : std::uint8_t { nothing, entered, go };

/// The host's packet: descriptors of this exec's control groups, of which writing "0" enters one (V5), or
/// that the child may go on. The host looks afterwards and moves a child that could not enter. A packet for
/// another number was meant for a child that has ended.
Heard hear_host(int barrier, std::uint64_t number) {
  constexpr std::size_t kMost = 16;
  BarrierWord meant;
  iovec part{&meant, sizeof meant};
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(barrier, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  const bool mine = size >= static_cast<ssize_t>(sizeof number) && meant.number == number;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); size > 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      if (mine) (void)!write(fd, "0", 1);
      close(fd);
    }
  }
  if (mine && size == sizeof meant) return Heard::go;
  return mine ? Heard::entered : Heard::nothing;
}

/// Enters its groups as the host says, tells it, and waits until it may go on: by the host's word at the
/// barrier or by init's through the pipe, whichever comes first. A host that only says "go" has placed it.
bool pass_barrier(const Child& child) {
  if (!child.request.barrier) return true;
  const int barrier = child.options.barrier_fd;
  const BarrierWord entered{child.request.number};
  for (bool waiting = true; waiting;) {
    pollfd words[] = {{barrier, POLLIN, 0}, {child.go, POLLIN, 0}};
    if (poll(words, 2, -1) < 0 && errno != EINTR) return false;
    if (words[1].revents != 0) {
      char word = 0;
      if (read(child.go, &word, 1) != 1 || word != 'g') return errno = ECANCELED, false;
      break;
    }
    if ((words[0].revents & POLLIN) != 0) {
      const Heard heard = hear_host(barrier, child.request.number);
      waiting = heard != Heard::go;
      if (heard == Heard::entered && send(barrier, &entered, sizeof entered, MSG_NOSIGNAL) < 0) return false;
    } else if (words[0].revents != 0) {
      return errno = ECANCELED, false;
    }
  }
  struct flock whole{};
  whole.l_type = F_UNLCK;
  return fcntl(barrier, F_SETLK, &whole) == 0;
}

[[noreturn]] void become_command(Child& child) {
  if (!reach_barrier(child)) give_up(child, barrier);
  if (setsid() < 0) give_up(child, session);
  default_signals();
  const std::array<std::pair<int, int>, 3> streams{{{child.in, 0}, {child.out, 1}, {child.err, 2}}};
  for (const auto& [from, to] : streams) {
    if (dup2(from, to) != to) give_up(child, output);
  }
  const frames::ExecStart& request = child.request;
  if ((request.open_files > 0 && !set_limit(RLIMIT_NOFILE, request.open_files)) ||
      (request.processes > 0 && !set_limit(RLIMIT_NPROC, processes_for(request.processes))) ||
      (request.cpu_seconds > 0 && !set_limit(RLIMIT_CPU, request.cpu_seconds, request.cpu_seconds + 1))) {
    give_up(child, limits);
  }
  if (!become_user(child.options.identity)) give_up(child, identity);
  if (child.options.minded && (errno = keep_signals_below()) != 0) give_up(child, limits);
  if (!pass_barrier(child)) give_up(child, barrier);
  // What the request may have wrong comes last: whoever ends before the host has placed it looks like a
  // sandbox that is lost.
  if (!enter_folder(child.options.workspace, request.cwd)) give_up(child, cwd);
  // nothing but 0 to 2 goes on (ADV-A17); the failure pipe closes by itself when execve works
  if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) != 0) give_up(child, output);
  environ = child.env.data();
  execvp(child.argv[0], child.argv.data());
  give_up(child, execute);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Result<Spawned> spawn(const frames::ExecStart& request, const SpawnOptions& options) {
  Ends in, out, err, go, failure, word;
  if (request.stdin_bytes > 0) {
    if (!make_pipe(in)) return fail(Code::io_error, std::string("making a pipe: ") + std::strerror(errno));
  } else {
    in.read.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  if (!in.read || !make_pipe(out) || !make_pipe(err) || !make_pipe(go) || !make_pipe(failure) ||
      (options.minded && !make_pipe(word))) {
    return fail(Code::io_error, std::string("making a pipe: ") + std::strerror(errno));
  }
  Child child{request, options, pointers(request.argv), pointers(request.env)};
  child.in = in.read.get();
  child.out = out.write.get();
  child.err = err.write.get();
  child.go = go.read.get();
  child.failure = failure.write.get();
  const pid_t pid = fork();
  if (pid < 0) return fail(Code::io_error, std::string("starting a process: ") + std::strerror(errno));
  if (pid == 0) {
    // its own copy of the write end would keep the child waiting if init ended
    go.write.reset();
    if (options.minded) be_minder(word.write.get(), [&] { become_command(child); });
    become_command(child);
  }
  unblock(in.write);
  unblock(out.read);
  unblock(err.read);
  unblock(failure.read);
  unblock(word.read);
  return Spawned{pid,
                 std::move(in.write),
                 std::move(out.read),
                 std::move(err.read),
                 std::move(go.write),
                 std::move(failure.read),
                 std::move(word.read)};
}

}  // namespace sandglass::sandbox_runtime::init
