// For programs that root starts and of which a part happens as a user without rights. Errors throw: without
// it there is no such test.
#pragma once

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <system_error>

namespace sandglass::tests::support {

/// Copies of programs (of SANDGLASS_BUILD, or of the build that this program is of) in a folder that
/// everybody can read and `uid` owns. The object removes it, and may be that user by then.
class PlainPrograms {
 public:
  PlainPrograms(unsigned uid, std::initializer_list<const char*> programs) {
    namespace fs = std::filesystem;
    const char* build = std::getenv("SANDGLASS_BUILD");
    const fs::path from =
        build != nullptr ? fs::path(build) : fs::read_symlink("/proc/self/exe").parent_path().parent_path();
    std::string name = "/tmp/sandglass-plain-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
    fs::create_directory(path_ + "/bin");
    for (const char* program : programs) fs::copy_file(from / "bin" / program, path_ + "/bin/" + program);
    fs::permissions(path_, fs::perms(0755));
    for (const std::string& folder : {path_, path_ + "/bin"}) {
      if (::chown(folder.c_str(), uid, uid) != 0) throw std::runtime_error("chown failed");
    }
  }
  PlainPrograms(const PlainPrograms&) = delete;
  PlainPrograms& operator=(const PlainPrograms&) = delete;
  ~PlainPrograms() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// What SANDGLASS_BUILD is to be.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// This process and what it starts are that user for ever. Before it has threads.
inline void become_plain(unsigned uid) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0 ||
      ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
    throw std::system_error(errno, std::generic_category(), "becoming a plain user");
}

}  // namespace sandglass::tests::support
