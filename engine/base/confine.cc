#include "engine/base/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "engine/base/unique_fd.h"

namespace sandglass::engine::base {
namespace {

std::unexpected<Error> failed(const char* what) {
  return fail(Code::io_error, std::string(what) + ": " + std::strerror(errno));
}

// Named here because older headers lack them.
constexpr std::uint64_t access_refer = 1ULL << 13;
constexpr std::uint64_t access_truncate = 1ULL << 14;
constexpr std::uint64_t access_first_version = (1ULL << 13) - 1;

}  // namespace

Status drop_to(uid_t uid, gid_t gid) {
  if (::getuid() == uid && ::geteuid() == uid && ::getgid() == gid && ::getegid() == gid) return {};
  if (::setgroups(0, nullptr) != 0) return failed("setgroups");
  if (::setresgid(gid, gid, gid) != 0) return failed("setresgid");
  if (::setresuid(uid, uid, uid) != 0) return failed("setresuid");
  return {};
}

Status die_with(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return failed("PR_SET_PDEATHSIG");
  if (::getppid() != parent) return fail(Code::cancelled, "the process that started this one has ended");
  return {};
}

Result<bool> confine_files(const std::vector<std::string>& readable) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("PR_SET_NO_NEW_PRIVS");
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return false;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = access_first_version;
  if (version >= 2) attributes.handled_access_fs |= access_refer;
  if (version >= 3) attributes.handled_access_fs |= access_truncate;
  const UniqueFd ruleset(static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0)));
  if (!ruleset) return failed("landlock_create_ruleset");
  for (const std::string& path : readable) {
    const UniqueFd folder(::open(path.c_str(), O_PATH | O_CLOEXEC | O_DIRECTORY));
    if (!folder) continue;
    landlock_path_beneath_attr beneath{};
    beneath.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    beneath.parent_fd = folder.get();
    if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0) {
      return failed("landlock_add_rule");
    }
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return failed("landlock_restrict_self");
  return true;
}

void set_process_limits(std::size_t max_memory_bytes) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  const rlimit memory{max_memory_bytes, max_memory_bytes};
  ::setrlimit(RLIMIT_DATA, &memory);
}

}  // namespace sandglass::engine::base
