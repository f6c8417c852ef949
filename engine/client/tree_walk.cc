#include "engine/client/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/text.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::client {

namespace {

namespace api = ::sandglass::v1;

constexpr std::size_t kPartBytes = 256 * 1024;
constexpr int kMaxDepth = 256;

std::unexpected<base::Error> unreadable(const std::string& path, const std::string& why) {
  return base::fail(base::Code::file_unreadable,
                    "cannot read " + base::quote_for_terminal(path) + ": " + why);
}

/// '/'.
class Walk {
 public:
  Walk(std::string root, const PartTaker& take) : root_(std::move(root)), take_(take) {}

  base::Status folder(int fd, const std::string& path, int depth) {
    if (depth > kMaxDepth) return unreadable(shown(path), "folders are nested too deep");
    std::unique_ptr<DIR, int (*)(DIR*)> dir(fdopendir(fd), closedir);
    if (!dir) {
      const int reason = errno;
      close(fd);
      return unreadable(shown(path), std::strerror(reason));
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* found = readdir(dir.get())) {
      const std::string name = found->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    if (errno != 0) return unreadable(shown(path), std::strerror(errno));
    std::ranges::sort(names);
    for (const auto& name : names) {
      if (auto walked = entry(dirfd(dir.get()), name, path.empty() ? name : path + "/" + name, depth);
          !walked) {
        return walked;
      }
      if (enough_) return {};
    }
    return {};
  }

 private:
  std::string shown(const std::string& path) const { return path.empty() ? root_ : root_ + "/" + path; }

  base::Status entry(int parent, const std::string& name, const std::string& path, int depth) {
    struct stat info{};
    if (fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return unreadable(shown(path), std::strerror(errno));
    }
    api::TreePart part;
    auto& entry = *part.mutable_entry();
    entry.set_path(path);
    if (S_ISLNK(info.st_mode)) {
      std::array<char, 4096> target{};
      const auto length = readlinkat(parent, name.c_str(), target.data(), target.size());
      if (length < 0) return unreadable(shown(path), std::strerror(errno));
      entry.set_type(api::TREE_ENTRY_TYPE_SYMLINK);
      entry.set_link_target(std::string(target.data(), static_cast<std::size_t>(length)));
      give(part);
      return {};
    }
    const bool is_folder = S_ISDIR(info.st_mode);
    if (!is_folder && !S_ISREG(info.st_mode)) {
      return unreadable(shown(path),
                        "it is neither a file, a folder nor a symlink; leave it out of the input");
    }
    // O_NONBLOCK: a pipe that took the file's place since must not block us.
    base::UniqueFd fd(openat(parent, name.c_str(),
                             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (is_folder ? O_DIRECTORY : 0)));
    if (!fd) return unreadable(shown(path), std::strerror(errno));
    if (is_folder) {
      entry.set_type(api::TREE_ENTRY_TYPE_FOLDER);
      give(part);
      return enough_ ? base::Status{} : folder(fd.release(), path, depth + 1);
    }
    return file(fd.get(), path, part);
  }

  base::Status file(int fd, const std::string& path, api::TreePart& part) {
    struct stat info{};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
      return unreadable(shown(path), "it changed while it was read");
    auto left = static_cast<std::uint64_t>(info.st_size);
    auto& entry = *part.mutable_entry();
    entry.set_type(api::TREE_ENTRY_TYPE_FILE);
    entry.set_executable((info.st_mode & 0111) != 0);
    entry.set_size(left);
    give(part);
    std::string buffer(kPartBytes, '\0');
    for (;;) {
      const auto got = read(fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return unreadable(shown(path), std::strerror(errno));
      if (static_cast<std::uint64_t>(got) > left || (got == 0 && left != 0)) {
        return unreadable(shown(path), "it changed while it was read; start again when nothing writes to it");
      }
      if (got == 0 || enough_) return {};
      left -= static_cast<std::uint64_t>(got);
      api::TreePart data;
      data.set_data(buffer.data(), static_cast<std::size_t>(got));
      give(data);
    }
  }

  void give(const api::TreePart& part) {
    if (!enough_ && !take_(part)) enough_ = true;
  }

  std::string root_;
  const PartTaker& take_;
  bool enough_ = false;
};

}  // namespace

base::Status walk_tree(const std::string& folder, const PartTaker& take) {
  base::UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return unreadable(folder, std::strerror(errno));
  return Walk(folder, take).folder(fd.release(), "", 0);
}

}  // namespace sandglass::engine::client
