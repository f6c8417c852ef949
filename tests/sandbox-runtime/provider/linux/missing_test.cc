// Something of the provider is missing or refused: the create fails and says why, and nothing runs with less
// around it (ADV-B27, V10).
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/jail/jail_rig.h"
#include "tests/support/needs_root.h"
#include "tests/support/own_mounts.h"

namespace sandglass::tests {
namespace {

using engine::base::Code;
using support::in_own_mounts;
namespace fs = std::filesystem;
namespace linux_jail = sandbox_runtime::provider::linux_jail;

TEST(MissingPartsTest, WithoutKeeperOrInitThereIsNoLauncher) {
  const JailRig rig;
  for (const bool keeper : {true, false}) {
    for (const char* program : {"/nonexistent/program", "/etc/passwd"}) {
      auto options = launcher_options(rig.folder(), "missing1", 100);
      (keeper ? options.keeper_program : options.init_program) = program;
      if (!keeper && std::string(program) == "/etc/passwd")
        continue;  // whether it can run shows in the create
      const auto launcher = linux_jail::make_linux_launcher(options);
      ASSERT_FALSE(launcher.has_value()) << program;
      EXPECT_EQ(launcher.error().code, Code::provider_failed);
      EXPECT_NE(launcher.error().message.find(program), std::string::npos) << launcher.error().message;
    }
  }
}

TEST(MissingPartsTest, AKeeperThatEndsAndAnInitThatIsNoProgramFailTheCreate) {
  JailRig rig;
  for (const bool keeper : {true, false}) {
    auto options = launcher_options(rig.folder(), keeper ? "missing2" : "missing3", 100);
    (keeper ? options.keeper_program : options.init_program) = keeper ? "/bin/false" : "/etc/passwd";
    auto launcher = linux_jail::make_linux_launcher(options);
    ASSERT_TRUE(launcher.has_value()) << launcher.error().message;
    const auto made = (*launcher)->create({"box", JailRig::small_template()});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::provider_failed) << made.error().message;
    EXPECT_FALSE(made.error().message.empty());
    if (keeper) continue;
    EXPECT_TRUE((*launcher)->inventory()->empty());
    ::kill(linux_jail::keeper_pid(**launcher), SIGKILL);
  }
}

/// From here on, in this process and its children, `number` fails; with `bit`, only if its first argument has
/// it.
void refuse_call(int number, std::uint32_t bit) {
  const sock_filter program[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, static_cast<std::uint32_t>(number)},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args)},
      {BPF_JMP | BPF_JSET | BPF_K, 0, 1, bit},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog filter{std::size(program), const_cast<sock_filter*>(program)};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST(MissingPartsTest, HiddenPlacesThatAreLinksAreHiddenAndDisturbNothing) {  // FR-153, V6
  SANDGLASS_NEEDS_ROOT("it changes what is in /usr");
  const int status = in_own_mounts([] {
    char folder[] = "/tmp/sandglass-usr-XXXXXX";
    const std::string top = ::mkdtemp(folder);
    for (const char* name : {"/upper", "/work"}) fs::create_directory(top + name);
    const std::string options = "lowerdir=/usr,upperdir=" + top + "/upper,workdir=" + top + "/work";
    if (::mount("overlay", "/usr", "overlay", 0, options.c_str()) != 0) return std::perror("overlay"), false;
    fs::remove_all("/usr/local/etc");
    fs::create_directories("/usr/share/secret-etc/deeper");
    std::ofstream("/usr/share/secret-etc/token") << "secret-of-a-folder";
    fs::create_symlink("/usr/share/secret-etc", "/usr/local/etc");  // a link to a folder
    fs::remove_all("/usr/src");
    fs::create_symlink("/nowhere", "/usr/src");  // dangling
    std::ofstream("/usr/share/dotfile") << "secret-of-a-file";
    fs::create_symlink("dotfile", "/usr/share/.npmrc");       // a link to a file
    fs::create_symlink("/etc/hostname", "/usr/share/netrc");  // out of the base
    std::ofstream("/usr/share/secret-etc/deeper/.netrc") << "secret-beneath";
    bool right = false;
    {
      JailRig rig;
      Sandbox box = rig.make();
      const std::string seen =
          box.run(
                 "cat /usr/local/etc/token /usr/share/secret-etc/token /usr/share/.npmrc "
                 "/usr/share/dotfile /usr/share/secret-etc/deeper/.netrc /usr/share/netrc; "
                 "touch /usr/local/etc/x; echo works")
              .output;
      right = seen.find("secret-of") == seen.npos && seen.find("secret-beneath") == seen.npos &&
              seen.find("works") != seen.npos;
      if (!right) std::fprintf(stderr, "%s\n", seen.c_str());
    }
    ::umount2("/usr", MNT_DETACH);
    fs::remove_all(top);
    return right;
  });
  EXPECT_EQ(status, 0);
}

TEST(MissingPartsTest, WithoutUserNamespacesNothingIsMade) {
  const int status = in_own_mounts([] {
    // A plain user's come with the clone, so there they run out as they do for real.
    if (::geteuid() == 0)
      refuse_call(__NR_unshare, CLONE_NEWUSER);
    else
      std::ofstream("/proc/sys/user/max_user_namespaces") << "0";
    JailRig rig;  // its keeper inherits the refusal
    const auto made = rig.launcher().create({"box", JailRig::small_template()});
    const bool right = !made && made.error().code == Code::provider_failed &&
                       made.error().message.find("user namespace") != std::string::npos &&
                       rig.launcher().inventory()->empty();
    if (!right) std::fprintf(stderr, "%s\n", made ? "it was made" : made.error().message.c_str());
    return right;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sandglass::tests
