#include "sandbox-runtime/init/minder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::init {

namespace {

constexpr int kKillRounds = 2'000;

std::uint64_t nanoseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_usec) * 1'000;
}

/// Parent of every process; those that have ended and wait for it are left out.
std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> found;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return found;
  while (const dirent* item = readdir(proc)) {
    const long pid = strtol(item->d_name, nullptr, 10);
    if (pid <= 1) continue;
    const std::string path = std::string("/proc/") + item->d_name + "/stat";
    const engine::base::UniqueFd stat(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char text[1024];
    const ssize_t size = stat ? read(stat.get(), text, sizeof text - 1) : -1;
    if (size <= 0) continue;
    text[size] = 0;
    // the command's name may hold anything; the last ')' ends it
    const char* after = strrchr(text, ')');
    char state = 0;
    int parent = 0;
    if (after == nullptr || sscanf(after + 1, " %c %d", &state, &parent) != 2) continue;
    if (state != 'Z' && state != 'X') found.emplace(parent, static_cast<pid_t>(pid));
  }
  closedir(proc);
  return found;
}

std::vector<pid_t> below(pid_t minder) {
  const auto children = children_by_parent();
  std::vector<pid_t> found{minder};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

}  // namespace

void be_minder(int report, const std::function<void()>& become_command) {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) _exit(1);
  MinderWord word;
  word.command = fork();
  if (word.command == 0) become_command();
  if (word.command < 0 || write(report, &word, sizeof word) != sizeof word) _exit(1);
  // copies of the pipes' ends would keep them open
  if (report > 0) syscall(SYS_close_range, 0u, static_cast<unsigned>(report - 1), 0);
  syscall(SYS_close_range, static_cast<unsigned>(report + 1), ~0u, 0);
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) _exit(0);
    if (pid != word.command) continue;
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    word.ended = 1;
    word.status = status;
    word.cpu_ns = nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime);
    if (write(report, &word, sizeof word) != sizeof word) _exit(1);
  }
}

std::size_t count_below(pid_t minder) {
  return below(minder).size();
}

bool kill_below(pid_t minder) {
  std::set<pid_t> stopped;
  for (bool more = true; more;) {
    more = false;
    for (const pid_t pid : below(minder)) {
      if (!stopped.insert(pid).second) continue;
      kill(pid, SIGSTOP);
      more = true;
    }
  }
  for (const pid_t pid : stopped) kill(pid, SIGKILL);
  const timespec pause{0, 1'000'000};
  for (int round = 0; round < kKillRounds; ++round) {
    const std::vector<pid_t> left = below(minder);
    if (left.empty()) return true;
    for (const pid_t pid : left) kill(pid, SIGKILL);
    nanosleep(&pause, nullptr);
  }
  return false;
}

int keep_signals_below() {
  constexpr int kFirstWithScopes = 6;
  constexpr std::uint64_t kSignals = 2;
  // A ruleset that does not speak of it takes away moving and linking files from folder to folder.
  constexpr std::uint64_t kRefer = 1 << 13;
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < kFirstWithScopes) return 0;
  const std::uint64_t rules[3] = {kRefer, 0, kSignals};  // files, network, scopes
  const engine::base::UniqueFd ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, rules, sizeof rules, 0)));
  if (!ruleset) return errno;
  const engine::base::UniqueFd everywhere(open("/", O_PATH | O_CLOEXEC));
  if (!everywhere) return errno;
  const landlock_path_beneath_attr refer{kRefer, everywhere.get()};
  if (syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &refer, 0) != 0) return errno;
  return syscall(SYS_landlock_restrict_self, ruleset.get(), 0) == 0 ? 0 : errno;
}

}  // namespace sandglass::sandbox_runtime::init
