// Escapes: cases in which root's sandboxes have more than a plain user's, beside the common ones.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/jail/escape_cases.h"

namespace sandglass::tests {
namespace {

namespace fs = std::filesystem;

TEST_F(EscapeTest, NoFileOfTheMachineIsVisible) {  // V6: twenty canaries, readable by all
  std::vector<fs::path> planted;
  const std::string word = "canary-" + rig_.folder_id();
  for (const char* folder :
       {"/etc", "/etc/ssl", "/etc/profile.d", "/var",     "/var/lib", "/var/log", "/var/tmp",
        "/run", "/root",    "/home",          "/srv",     "/mnt",     "/media",   "/opt",
        "/tmp", "/dev/shm", "/usr/local/etc", "/usr/etc", "/usr/src", "/"}) {
    std::error_code ignored;
    if (!fs::is_directory(folder)) continue;
    const fs::path file = fs::path(folder) / word;
    std::ofstream(file) << word << "\n";
    fs::permissions(file, fs::perms(0644), ignored);
    if (fs::exists(file, ignored)) planted.push_back(file);
  }
  ASSERT_GE(planted.size(),
            ::geteuid() == 0 ? 15u : 3u);  // everybody may write to the folders of temporary files
  Sandbox fresh = rig_.make();
  const std::string found =
      fresh.run("find / -name 'canary-*' 2>/dev/null; ls /root /home /srv /opt /var /run").output;
  EXPECT_EQ(found.find("canary"), std::string::npos) << found;
  for (const fs::path& file : planted) {
    EXPECT_FALSE(fresh.run("cat " + file.string()).ok()) << file;
    fs::remove(file);
  }
}

TEST_F(EscapeTest, CommandsCannotSignalTraceOrReadInit) {  // ADV-B9, ADV-B25
  // A plain user's init has the uid of its commands; the kernel says yes and does not deliver it.
  EXPECT_EQ(box_.run("kill -9 1").ok(), ::geteuid() != 0);
  EXPECT_TRUE(box_.run("true").ok());
  EXPECT_EQ(python(calls("call(310,1,0,0,0,0,0)\ncall(101,16,1,0,0)\ncall(438,0,0,0)\n")),
            "EPERM\nEPERM\nEPERM\n");
}

TEST_F(EscapeTest, TwoSandboxesHaveUidsAndIpcOfTheirOwn) {  // ADV-B18
  Sandbox other = rig_.make();
  EXPECT_TRUE(box_.run("ipcmk -S 1 && test $(ipcs -s | grep -c 0x) = 1").ok());
  EXPECT_EQ(other.run("ipcs -s | grep -c 0x").output, "0\n");
  const std::string segments = box_.run("ipcmk -M 4096 >/dev/null; ipcs -m | grep -c 0x").output;
  if (::geteuid() == 0) EXPECT_EQ(segments, "0\n") << "it ends with its user";
  EXPECT_EQ(other.run("ipcs -m | grep -c 0x").output, "0\n");
  struct stat mine{};
  struct stat theirs{};
  const auto work = [](Sandbox& box) {
    return "/proc/" + std::to_string(process_of(box.launched().pidfd)) + "/root/workspace";
  };
  ASSERT_EQ(::stat(work(box_).c_str(), &mine), 0);
  ASSERT_EQ(::stat(work(other).c_str(), &theirs), 0);
  if (::geteuid() != 0) {
    EXPECT_EQ(mine.st_uid, ::geteuid());
    EXPECT_EQ(theirs.st_uid, ::geteuid());
    return;
  }
  EXPECT_NE(mine.st_uid, theirs.st_uid);
  EXPECT_GE(mine.st_uid, 1u << 19);
}

}  // namespace
}  // namespace sandglass::tests
