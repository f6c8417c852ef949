#include "sandbox-runtime/init/spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
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

bool set_limit(__rlimit_resource resource, rlim_t value) {
  const rlimit limit{value, value};
  return setrlimit(resource, &limit) == 0;
}

/// From root inside, with a few capabilities, to the sandbox's user with none and no way to any.
bool become_user(const Identity& who) {
  if (!who.change) return true;
  for (int capability = 0; capability < 64; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL) return false;
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

bool pass_barrier(const Child& child) {
  if (!child.request.barrier) return true;
  std::uint64_t number = child.request.number;
  if (send(child.options.barrier_fd, &number, sizeof number, MSG_NOSIGNAL) != sizeof number) return false;
  char word = 0;
  ssize_t got = 0;
  do got = read(child.go, &word, 1);
  while (got < 0 && errno == EINTR);
  if (got == 1 && word == 'g') return true;
  errno = ECANCELED;
  return false;
}

[[noreturn]] void become_command(Child& child) {
  if (setsid() < 0) give_up(child, session);
  default_signals();
  const std::array<std::pair<int, int>, 3> streams{{{child.in, 0}, {child.out, 1}, {child.err, 2}}};
  for (const auto& [from, to] : streams) {
    if (dup2(from, to) != to) give_up(child, output);
  }
  const frames::ExecStart& request = child.request;
  if (!set_limit(RLIMIT_CORE, 0) ||
      (request.open_files > 0 && !set_limit(RLIMIT_NOFILE, request.open_files)) ||
      (request.processes > 0 && !set_limit(RLIMIT_NPROC, request.processes))) {
    give_up(child, limits);
  }
  if (!become_user(child.options.identity)) give_up(child, identity);
  if (!enter_folder(child.options.workspace, request.cwd)) give_up(child, cwd);
  if (!pass_barrier(child)) give_up(child, barrier);
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
  Ends in, out, err, go, failure;
  if (request.stdin_bytes > 0) {
    if (!make_pipe(in)) return fail(Code::io_error, std::string("making a pipe: ") + std::strerror(errno));
  } else {
    in.read.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  if (!in.read || !make_pipe(out) || !make_pipe(err) || !make_pipe(go) || !make_pipe(failure)) {
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
    become_command(child);
  }
  unblock(in.write);
  unblock(out.read);
  unblock(err.read);
  unblock(failure.read);
  return Spawned{pid,
                 std::move(in.write),
                 std::move(out.read),
                 std::move(err.read),
                 std::move(go.write),
                 std::move(failure.read)};
}

}  // namespace sandglass::sandbox_runtime::init
