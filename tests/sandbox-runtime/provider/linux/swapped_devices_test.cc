// The machine's device nodes are not what they are called, or change while a sandbox is made (ADV-A19): what
// is inside is the device, or nothing is made. As root the nodes are made anew; without, the machine's own
// are taken over.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/jail/jail_rig.h"
#include "tests/support/needs_root.h"
#include "tests/support/own_mounts.h"
#include "tests/support/plain_user.h"

namespace sandglass::tests {
namespace {

namespace fs = std::filesystem;
using engine::base::Code;
using support::in_own_mounts;

constexpr unsigned kPlainUid = 54323;  // nobody's
constexpr const char* kSecret = "secret-of-the-machine";
constexpr const char* kRight = "1:3 character special file\n";
constexpr const char* kLook = "stat -c '%t:%T %F' /dev/null; cat /dev/null";

bool make_node(const std::string& path, unsigned minor) {
  const bool made = ::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, minor)) == 0;
  return made && ::chmod(path.c_str(), 0666) == 0;
}

void make_secret(const std::string& path) {
  std::ofstream(path) << kSecret;
  fs::permissions(path, fs::perms(0666));
}

/// A /dev with the nodes that a sandbox has, and /dev/other, by which one of them can be replaced.
bool make_dev(const std::function<bool(const std::string&)>& make_other) {
  if (::mount("tmpfs", "/dev", "tmpfs", 0, ("mode=0755,uid=" + std::to_string(kPlainUid)).c_str()) != 0)
    return false;
  for (const auto& [name, minor] :
       {std::pair("null", 3u), {"zero", 5u}, {"full", 7u}, {"random", 8u}, {"urandom", 9u}}) {
    if (!make_node(std::string("/dev/") + name, minor)) return false;
  }
  if (::mknod("/dev/tty", S_IFCHR | 0666, ::makedev(5, 0)) != 0) return false;
  make_secret("/dev/secret");
  return make_other("/dev/other");
}

void exchange() {
  ::syscall(SYS_renameat2, AT_FDCWD, "/dev/null", AT_FDCWD, "/dev/other", RENAME_EXCHANGE);
}

bool link_to_secret(const std::string& path) {
  return ::symlink("/dev/secret", path.c_str()) == 0;
}

/// The create has failed as it must, and there is no sandbox.
bool failed_closed(JailRig& rig, const engine::base::Result<sandbox_runtime::provider::Launched>& made) {
  const bool right =
      !made && made.error().code == Code::provider_failed && rig.launcher().inventory()->empty();
  if (!right) std::fprintf(stderr, "%s\n", made ? "it was made" : made.error().message.c_str());
  return right;
}

/// `test` as a user without rights, in a /dev of its own.
int as_plain(const std::function<bool(const std::string&)>& make_other, const std::function<bool()>& test) {
  const support::PlainPrograms programs(kPlainUid, {"sandglass-keeper", "sandbox-shell-init"});
  return in_own_mounts([&] {
    if (!make_dev(make_other)) return std::perror("no /dev of its own"), false;
    ::setenv("SANDGLASS_BUILD", programs.path().c_str(), 1);
    return test();
  });
}

TEST(SwappedDevicesTest, WithoutRootAnotherThingInsteadOfADeviceMakesNoSandbox) {  // ADV-A19
  SANDGLASS_NEEDS_ROOT("it makes device nodes before it becomes a plain user");
  const std::function<bool(const std::string&)> others[] = {
      link_to_secret, [](const std::string& path) { return make_secret(path), true; },
      [](const std::string& path) { return make_node(path, 5); },
      [](const std::string& path) { return ::mkdir(path.c_str(), 0777) == 0; }};
  for (const auto& other : others) {
    EXPECT_EQ(as_plain(other,
                       [] {
                         exchange();
                         support::become_plain(kPlainUid);
                         JailRig rig;
                         return failed_closed(rig, rig.launcher().create({"box", JailRig::small_template()}));
                       }),
              0)
        << &other - others;
  }
}

/// A process that exchanges the two all the time, as long as the object lives. Made by the plain user: as
/// root it could not be ended by it, nor by its own end.
class Swapper {
 public:
  Swapper() : parent_(::getpid()), child_(::fork()) {
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::getppid() == parent_) exchange();
    ::_exit(0);
  }
  Swapper(const Swapper&) = delete;
  Swapper& operator=(const Swapper&) = delete;
  ~Swapper() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t parent_;
  pid_t child_;
};

/// Sandboxes until one was made and one refused, and then some: what is inside is the device.
bool make_while_swapped() {
  support::become_plain(kPlainUid);
  const Swapper swapper;
  JailRig rig;
  int made = 0;
  int refused = 0;
  for (int i = 0; i < 2000 && (i < 40 || made == 0 || refused == 0); ++i) {
    auto launched = rig.launcher().create({"box-" + std::to_string(i), JailRig::small_template()});
    if (!launched) {
      ++refused;
      if (!failed_closed(rig, launched)) return false;
      continue;
    }
    ++made;
    Sandbox box(rig.launcher(), std::move(*launched));
    const std::string seen = box.run(kLook).output;
    if (seen != kRight) return std::fprintf(stderr, "inside: %s\n", seen.c_str()), false;
    if (!rig.launcher().destroy(box.id())) return false;
  }
  if (made == 0 || refused == 0) std::fprintf(stderr, "%d made, %d refused\n", made, refused);
  return made > 0 && refused > 0;
}

TEST(SwappedDevicesTest, WithoutRootADeviceThatIsSwappedAllTheTimeIsTheDeviceOrNothing) {  // ADV-A19
  SANDGLASS_NEEDS_ROOT("it makes device nodes before it becomes a plain user");
  EXPECT_EQ(as_plain(link_to_secret, make_while_swapped), 0);
}

TEST(SwappedDevicesTest, AsRootTheMachinesNodesDoNotMatter) {  // ADV-A19
  SANDGLASS_NEEDS_ROOT("a plain user's sandboxes have the machine's nodes");
  EXPECT_EQ(in_own_mounts([] {
              char folder[] = "/tmp/sandglass-dev-XXXXXX";
              const std::string top = ::mkdtemp(folder);
              const std::string zero = top + "/zero";  // what is thrown away has to go somewhere meanwhile
              bool right = make_node(zero, 5);
              right = right && ::mount(zero.c_str(), "/dev/null", nullptr, MS_BIND, nullptr) == 0;
              if (right) {
                JailRig rig;
                Sandbox box = rig.make();
                const std::string seen = box.run(kLook).output;
                right = seen == kRight;
                if (!right) std::fprintf(stderr, "inside: %s\n", seen.c_str());
              }
              ::umount2("/dev/null", MNT_DETACH);
              fs::remove_all(top);
              return right;
            }),
            0);
}

}  // namespace
}  // namespace sandglass::tests
