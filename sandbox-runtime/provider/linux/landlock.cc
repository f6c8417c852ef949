#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/privileges.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::UniqueFd;

// Rights and fields by number: the kernel may be newer than the headers that we are built with.
constexpr std::uint64_t kExecute = 1 << 0;
constexpr std::uint64_t kWriteFile = 1 << 1;
constexpr std::uint64_t kReadFile = 1 << 2;
constexpr std::uint64_t kReadFolder = 1 << 3;
constexpr std::uint64_t kMakeDevices = (1 << 6) | (1 << 11);  // character, block
constexpr std::uint64_t kTruncate = 1 << 14;
constexpr std::uint64_t kScopes = 3;  // abstract sockets, signals

struct Ruleset {
  std::uint64_t files;
  std::uint64_t network;
  std::uint64_t scopes;
};

std::uint64_t known_rights(int version) {
  if (version >= 5) return (1 << 16) - 1;  // with device ioctls
  if (version >= 3) return (1 << 15) - 1;  // with truncate
  if (version >= 2) return (1 << 14) - 1;  // with refer
  return (1 << 13) - 1;
}

int allow(int ruleset, const char* path, std::uint64_t rights) {
  const UniqueFd place(::open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW));
  if (!place) return errno;
  landlock_path_beneath_attr rule{rights, place.get()};
  return ::syscall(__NR_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0 ? 0 : errno;
}

}  // namespace

int landlock_version() {
  const long version = ::syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? static_cast<int>(version) : 0;
}

int restrict_by_landlock() {
  const int version = landlock_version();
  if (version == 0) return 0;
  const std::uint64_t rights = known_rights(version);
  const Ruleset wanted{rights, 0, version >= 6 ? kScopes : 0};
  const std::size_t size = version >= 6 ? sizeof wanted : version >= 4 ? 16 : 8;
  const UniqueFd ruleset(static_cast<int>(::syscall(__NR_landlock_create_ruleset, &wanted, size, 0)));
  if (!ruleset) return errno;
  const std::uint64_t look = kExecute | kReadFile | kReadFolder;
  if (const int error = allow(ruleset.get(), "/", look)) return error;
  for (const char* path : {"/workspace", "/home/sandbox", "/tmp", "/dev/shm"}) {
    if (const int error = allow(ruleset.get(), path, rights & ~kMakeDevices)) return error;
  }
  for (const char* path : {"/dev", "/proc"}) {
    const std::uint64_t use = look | kWriteFile | (rights & kTruncate) | (rights & (1 << 15));
    if (const int error = allow(ruleset.get(), path, use)) return error;
  }
  return ::syscall(__NR_landlock_restrict_self, ruleset.get(), 0) == 0 ? 0 : errno;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
