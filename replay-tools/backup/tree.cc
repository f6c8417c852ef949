#include "replay-tools/backup/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/data_folder.h"
#include "engine/base/unique_fd.h"

namespace sandglass::replay_tools::backup {

namespace {

using base::Code;
using base::system_error;
using base::UniqueFd;

constexpr int kDeepest = 32;
constexpr std::size_t kHashDigits = 64;

std::string join(std::string_view below, std::string_view name) {
  return below.empty() ? std::string(name) : std::string(below) + "/" + std::string(name);
}

/// A walk over one folder; with a place to copy to, or without.
class Walk {
 public:
  Walk(std::string from, std::string to, const LeaveOut& leave_out)
      : from_(std::move(from)), to_(std::move(to)), leave_out_(leave_out) {}

  base::Result<Tree> run() {
    const UniqueFd top(open(from_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!top) return std::unexpected(system_error("cannot open the folder", from_, errno));
    if (auto done = folder(top, ""); !done) return std::unexpected(done.error());
    return std::move(tree_);
  }

 private:
  std::string source(std::string_view below) const {
    return below.empty() ? from_ : from_ + "/" + std::string(below);
  }
  std::string target(std::string_view below) const {
    return below.empty() ? to_ : to_ + "/" + std::string(below);
  }

  base::Status folder(const UniqueFd& opened, const std::string& below) {
    if (++depth_ > kDeepest)
      return base::fail(Code::path_refused, source(below) + " is deeper than any data folder");
    if (!to_.empty() && mkdir(target(below).c_str(), 0700) != 0 && (errno != EEXIST || !below.empty()))
      return std::unexpected(system_error("cannot make the folder", target(below), errno));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(
        fdopendir(openat(opened.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), &closedir);
    if (entries == nullptr)
      return std::unexpected(system_error("cannot read the folder", source(below), errno));
    while (const dirent* found = readdir(entries.get())) {
      const std::string name(found->d_name);
      if (name == "." || name == ".." || (leave_out_ && leave_out_(below, name))) continue;
      if (auto done = entry(opened, name, join(below, name)); !done) return done;
    }
    --depth_;
    return {};
  }

  base::Status entry(const UniqueFd& parent, const std::string& name, const std::string& path) {
    if (name.find_first_of("\n\\") != std::string::npos)
      return base::fail(Code::path_refused, "a name in " + from_ + " has a line break or a backslash");
    const UniqueFd opened(
        openat(parent.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat about{};
    if (!opened && errno == ELOOP) return refused(path);
    if (!opened || fstat(opened.get(), &about) != 0)
      return std::unexpected(system_error("cannot open", source(path), errno));
    if (S_ISDIR(about.st_mode)) return folder(opened, path);
    return S_ISREG(about.st_mode) ? file(opened, path) : refused(path);
  }

  base::Status refused(const std::string& path) const {
    return base::fail(Code::path_refused,
                      source(path) +
                          " is neither a file nor a folder, and nothing of a data folder; "
                          "remove it");
  }

  base::Status file(const UniqueFd& opened, const std::string& path) {
    UniqueFd copy;
    if (!to_.empty()) {
      copy.reset(open(target(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!copy) return std::unexpected(system_error("cannot write", target(path), errno));
    }
    for (;;) {
      const auto got = read(opened.get(), buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return std::unexpected(system_error("cannot read", source(path), errno));
      if (got == 0) break;
      const std::string_view part(buffer_.data(), static_cast<std::size_t>(got));
      hash_.update(part);
      tree_.bytes += part.size();
      if (!copy) continue;
      if (auto wrote = write_all(copy, part, path); !wrote) return wrote;
    }
    tree_.files.emplace(path, hash_.finish());
    return {};
  }

  base::Status write_all(const UniqueFd& copy, std::string_view part, const std::string& path) const {
    while (!part.empty()) {
      const auto wrote = write(copy.get(), part.data(), part.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return std::unexpected(system_error("cannot write", target(path), errno));
      part.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return {};
  }

  const std::string from_;
  const std::string to_;  // empty: nothing is copied
  const LeaveOut& leave_out_;
  int depth_ = 0;
  std::vector<char> buffer_ = std::vector<char>(1U << 20);
  base::Sha256 hash_;
  Tree tree_;
};

}  // namespace

base::Result<Tree> copy_tree(const std::string& from, const std::string& to, const LeaveOut& leave_out) {
  return Walk(from, to, leave_out).run();
}

base::Result<Tree> hash_tree(const std::string& folder) {
  return Walk(folder, "", {}).run();
}

base::Status sync_disk(const std::string& folder) {
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || syncfs(opened.get()) != 0)
    return std::unexpected(system_error("cannot sync the disk of", folder, errno));
  return {};
}

std::string to_text(const Hashes& files) {
  std::string text;
  for (const auto& [path, hash] : files) text += hash.hex() + "  " + path + "\n";
  return text;
}

base::Result<Hashes> parse_hashes(std::string_view text) {
  Hashes files;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const auto hash = base::Hash256::from_hex(line.substr(0, kHashDigits));
    if (end == std::string_view::npos || !hash || line.size() < kHashDigits + 3 ||
        line.substr(kHashDigits, 2) != "  ") {
      return base::fail(Code::record_damaged,
                        "line " + std::to_string(number) + " is no hash and path of a file");
    }
    files.emplace(line.substr(kHashDigits + 2), *hash);
    text.remove_prefix(end + 1);
  }
  return files;
}

std::string difference(const Hashes& wanted, const Hashes& found) {
  for (const auto& [path, hash] : wanted) {
    const auto at = found.find(path);
    if (at == found.end()) return path + " is missing";
    if (at->second != hash) return path + " is changed";
  }
  for (const auto& [path, hash] : found) {
    if (!wanted.contains(path)) return path + " does not belong to it";
  }
  return {};
}

}  // namespace sandglass::replay_tools::backup
