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
#include <utility>
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

/// What the child has of its own, made before the fork.
struct Child {
  std::uint64_t number;
  bool barrier;
  const SpawnOptions& options;
  int in = -1;
  int out = -1;
  int err = -1;
  int command = -1;
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

/// No way to more than init has: what it has is given up with its user.
bool give_up_rights(const Identity& who) {
  if (!who.change) return true;
  for (int capability = 0; capability < 64; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno != EINVAL) return false;
    break;  // past the kernel's last one
  }
  return setgroups(0, nullptr) == 0;
}

/// From root inside, with a few capabilities, to the sandbox's user with none and no way to any.
bool become_user(const Identity& who) {
  return !who.change ||
         (setresgid(who.gid, who.gid, who.gid) == 0 && setresuid(who.uid, who.uid, who.uid) == 0);
}

/// Everything of init that is not this child's: the input of another command would not end, for one.
bool keep_own(const Child& child) {
  std::array<int, 6> own{child.in,      child.out,     child.err,
                         child.command, child.failure, child.options.barrier_fd};
  std::ranges::sort(own);
  int next = 3;
  for (const int fd : own) {
    if (fd < next) continue;
    if (fd > next &&
        syscall(SYS_close_range, static_cast<unsigned>(next), static_cast<unsigned>(fd - 1), 0) != 0)
      return false;
    next = fd + 1;
  }
  return syscall(SYS_close_range, static_cast<unsigned>(next), ~0u, 0) == 0;
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
    pollfd word{child.command, POLLIN, 0};
    if (poll(&word, 1, 2) != 0) return errno = ECANCELED, false;
  }
  return true;
}

/// Presents itself; the host prepares its answer while the child goes on.
bool reach_barrier(const Child& child) {
  if (!child.barrier) return true;
  return lock_barrier(child) && send(child.options.barrier_fd, &child.number, sizeof child.number,
                                     MSG_NOSIGNAL) == sizeof child.number;
}

/// The host's packet: descriptors of this exec's control groups, of which writing "0" enters one (V5). The
/// host looks afterwards and moves a child that could not enter. A packet for another number was meant for a
/// child that has ended. True: it was the child's own.
bool hear_host(int barrier, std::uint64_t number) {
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
  return mine;
}

/// Enters its groups as the host says and tells it, unless init knows already that it may go on: then the
/// host has placed it.
bool pass_barrier(const Child& child) {
  if (!child.barrier) return true;
  const int barrier = child.options.barrier_fd;
  const BarrierWord entered{child.number};
  for (bool waiting = true; waiting;) {
    pollfd words[] = {{barrier, POLLIN, 0}, {child.command, POLLIN, 0}};
    if (poll(words, 2, -1) < 0 && errno != EINTR) return false;
    if (words[1].revents != 0) break;
    if ((words[0].revents & POLLIN) != 0) {
      waiting = !hear_host(barrier, child.number);
      if (!waiting && send(barrier, &entered, sizeof entered, MSG_NOSIGNAL) < 0) return false;
    } else if (words[0].revents != 0) {
      return errno = ECANCELED, false;
    }
  }
  struct flock whole{};
  whole.l_type = F_UNLCK;
  return fcntl(barrier, F_SETLK, &whole) == 0;
}

/// Waits for so many bytes. False: nobody can give them any more.
bool read_all(int fd, char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return errno = ECANCELED, false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// Its input is empty unless the command says otherwise.
bool set_streams(const Child& child) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return dup2(null.get(), 0) == 0 && dup2(child.out, 1) == 1 && dup2(child.err, 2) == 2;
}

/// All that needs no command.
void get_ready(const Child& child) {
  if (!keep_own(child)) give_up(child, output);
  if (!reach_barrier(child)) give_up(child, barrier);
  if (setsid() < 0) give_up(child, session);
  default_signals();
  if (!set_streams(child)) give_up(child, output);
  if (!give_up_rights(child.options.identity)) give_up(child, identity);
  if (child.options.minded && (errno = keep_signals_below()) != 0) give_up(child, limits);
  if (!pass_barrier(child)) give_up(child, barrier);
  // nothing but 0 to 2 goes on (ADV-A17); the failure pipe closes by itself when execve works
  if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) != 0) give_up(child, output);
}

[[noreturn]] void become_command(const Child& child) {
  get_ready(child);
  std::uint32_t size = 0;
  if (!read_all(child.command, reinterpret_cast<char*>(&size), sizeof size)) give_up(child, barrier);
  std::string packet(size, '\0');
  if (!read_all(child.command, packet.data(), size)) give_up(child, barrier);
  const auto request = frames::decode<frames::ExecStart>(packet);
  if (!request) give_up(child, barrier);
  if (request->stdin_bytes > 0 && dup2(child.in, 0) != 0) give_up(child, output);
  if ((request->open_files > 0 && !set_limit(RLIMIT_NOFILE, request->open_files)) ||
      (request->processes > 0 && !set_limit(RLIMIT_NPROC, processes_for(request->processes))) ||
      (request->cpu_seconds > 0 && !set_limit(RLIMIT_CPU, request->cpu_seconds, request->cpu_seconds + 1))) {
    give_up(child, limits);
  }
  if (!become_user(child.options.identity)) give_up(child, identity);
  if (!enter_folder(child.options.workspace, request->cwd)) give_up(child, cwd);
  const std::vector<char*> argv = pointers(request->argv);
  std::vector<char*> env = pointers(request->env);
  environ = env.data();
  execvp(argv[0], argv.data());
  give_up(child, execute);
}

}  // namespace

Result<Spawned> spawn(std::uint64_t number, bool barrier, const SpawnOptions& options) {
  Ends in, out, err, command, failure, word;
  if (!make_pipe(in) || !make_pipe(out) || !make_pipe(err) || !make_pipe(command) || !make_pipe(failure) ||
      (options.minded && !make_pipe(word))) {
    return fail(Code::io_error, std::string("making a pipe: ") + std::strerror(errno));
  }
  const Child child{number,
                    barrier,
                    options,
                    in.read.get(),
                    out.write.get(),
                    err.write.get(),
                    command.read.get(),
                    failure.write.get()};
  const pid_t pid = fork();
  if (pid < 0) return fail(Code::io_error, std::string("starting a process: ") + std::strerror(errno));
  if (pid == 0) {
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
                 std::move(command.write),
                 std::move(failure.read),
                 std::move(word.read)};
}

bool become(const UniqueFd& command, const frames::ExecStart& request) {
  const std::string packet = frames::encode(request);
  const auto size = static_cast<std::uint32_t>(packet.size());
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += packet;
  // room for all of it at once; where there is none, the child reads while init writes
  constexpr std::size_t kUsualRoom = std::size_t{64} << 10;
  if (bytes.size() > kUsualRoom) (void)fcntl(command.get(), F_SETPIPE_SZ, 2 * frames::kMaxPacket);
  return write(command.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

}  // namespace sandglass::sandbox_runtime::init
