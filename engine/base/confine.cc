#include "engine/base/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "engine/base/core_limit.h"
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

/// The bounding set too: what this process executes or becomes can never have one again.
Status drop_bounding_set() {
  for (unsigned long capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return failed("PR_CAPBSET_DROP");
  }
  return {};
}

Status drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return failed("PR_CAP_AMBIENT");
  if (::syscall(SYS_capset, &header, none) != 0) return failed("capset");
  return {};
}

}  // namespace

Result<Confinement> confine(const ConfineRequest& request) {
  Confinement done{.own_uid = request.uid != ::geteuid(), .folder = request.root.folder};
  if (done.own_uid) {
    auto root = enter_private_root(request.root);
    if (!root) return std::unexpected(root.error());
    done.private_root = root->has_value();
    if (done.private_root) done.folder = std::move(**root);
  }
  if (auto dropped = drop_to(request.uid, request.gid); !dropped) return std::unexpected(dropped.error());
  if (auto bound = die_with(request.parent); !bound) return std::unexpected(bound.error());
  if (!request.landlock) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("PR_SET_NO_NEW_PRIVS");
    return done;
  }
  auto confined = confine_files(request.root.readable);
  if (!confined) return std::unexpected(confined.error());
  done.landlock = *confined;
  return done;
}

Status drop_to(uid_t uid, gid_t gid) {
  if (::getuid() == uid && ::geteuid() == uid && ::getgid() == gid && ::getegid() == gid) return {};
  // To the kernel this number means: no change.
  if (uid == static_cast<uid_t>(-1) || gid == static_cast<gid_t>(-1))
    return fail(Code::invalid_argument, "4294967295 is not a uid or gid");
  if (auto dropped = drop_bounding_set(); !dropped) return dropped;
  if (::setgroups(0, nullptr) != 0) return failed("setgroups");
  if (::setresgid(gid, gid, gid) != 0) return failed("setresgid");
  if (::setresuid(uid, uid, uid) != 0) return failed("setresuid");
  return drop_capabilities();
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
  const rlimit no_dump{kNoCoreDump, kNoCoreDump};
  ::setrlimit(RLIMIT_CORE, &no_dump);
  const rlimit memory{max_memory_bytes, max_memory_bytes};
  ::setrlimit(RLIMIT_DATA, &memory);
}

}  // namespace sandglass::engine::base
