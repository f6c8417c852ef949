#include "sandbox-runtime/init/tree_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sandglass::sandbox_runtime::init {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;
using frames::FileState;
using frames::TreeHeader;
using frames::TreeItem;

namespace {

constexpr std::size_t kReadPiece = std::size_t{32} << 10;
constexpr std::uint64_t kWorkBudget = std::uint64_t{1} << 20;  // bytes read in one produce()
constexpr std::size_t kMaxNames = std::size_t{6} << 20;        // bytes of names held while walking
constexpr int kOpenFile = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "of an unknown kind";
}

}  // namespace

Result<std::unique_ptr<TreeReader>> TreeReader::open(const std::string& workspace, const std::string& path,
                                                     bool content, TreeLimits limits, Identity identity) {
  auto place = resolve_place(workspace, path);
  if (!place) return std::unexpected(place.error());
  std::unique_ptr<TreeReader> reader(new TreeReader(content, limits, identity));
  if (auto status = reader->begin(std::move(*place)); !status) return std::unexpected(status.error());
  return reader;
}

Status TreeReader::begin(Place place) {
  const AsUser as_user(identity_);
  const UniqueFd found = open_contained(place.base.get(), place.path, O_PATH | O_NOFOLLOW);
  struct stat info{};
  if (!found || fstat(found.get(), &info) != 0)
    return std::unexpected(file_error(errno, "opening", place.path));
  if (S_ISDIR(info.st_mode)) {
    root_ = open_contained(place.base.get(), place.path, O_PATH | O_DIRECTORY);
    if (!root_) return std::unexpected(file_error(errno, "opening", place.path));
    std::string unused;
    return enter(unused, "");
  }
  if (!S_ISREG(info.st_mode)) {
    return std::unexpected(file_error(S_ISLNK(info.st_mode) ? ELOOP : EACCES, "reading", place.path));
  }
  // one file: a walk over a folder that has this one name
  const std::size_t slash = place.path.rfind('/');
  const std::string folder = slash == std::string::npos ? std::string() : place.path.substr(0, slash);
  root_ = open_contained(place.base.get(), folder, O_PATH | O_DIRECTORY);
  if (!root_) return std::unexpected(file_error(errno, "opening", folder));
  levels_.push_back(Level{"", {place.path.substr(slash == std::string::npos ? 0 : slash + 1)}});
  return {};
}

Status TreeReader::produce(std::string& out, std::size_t wanted) {
  const AsUser as_user(identity_);
  const std::uint64_t until = bytes_ + kWorkBudget;
  std::size_t entries_left = 512;
  while (!finished_ && out.size() < wanted && bytes_ < until && entries_left > 0) {
    if (!file_) --entries_left;
    if (auto status = file_ ? file_piece(out) : next_entry(out); !status) return status;
  }
  return {};
}

Status TreeReader::count(std::uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits_.bytes) {
    return fail(Code::quota_exceeded, "the tree has more than " + std::to_string(limits_.bytes) + " bytes");
  }
  return {};
}

void TreeReader::refuse(std::string& out, const std::string& path, std::string why) {
  frames::put_tree_header(out, TreeHeader{TreeItem::refused, path, false, 0, std::move(why)});
}

Status TreeReader::next_entry(std::string& out) {
  if (levels_.empty()) {
    frames::put_tree_end(out, entries_, bytes_);
    finished_ = true;
    return {};
  }
  Level& level = levels_.back();
  if (level.next == level.names.size()) {
    for (const std::string& name : level.names) names_held_ -= name.size() + sizeof(std::string);
    levels_.pop_back();
    folder_current_ = false;
    return {};
  }
  const std::string name = level.names[level.next++];
  const std::string path = level.path.empty() ? name : level.path + "/" + name;
  if (path.size() > frames::kMaxTreePath) {
    refuse(out, level.path, "an entry below it has a path longer than 4095 bytes");
    return {};
  }
  if (!folder_current_) {
    folder_ = open_contained(root_.get(), level.path, O_PATH | O_DIRECTORY);
    folder_current_ = static_cast<bool>(folder_);
    if (!folder_current_) {
      refuse(out, path, file_error(errno, "opening", level.path).message);
      return {};
    }
  }
  return visit(out, name, path);
}

Status TreeReader::visit(std::string& out, const std::string& name, const std::string& path) {
  struct stat info{};
  if (fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    refuse(out, path, file_error(errno, "reading", path).message);
    return {};
  }
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !S_ISLNK(info.st_mode)) {
    refuse(out, path, kind_of(info.st_mode));
    return {};
  }
  if (++entries_ > limits_.entries) {
    return fail(Code::quota_exceeded,
                "the tree has more than " + std::to_string(limits_.entries) + " entries");
  }
  if (S_ISREG(info.st_mode)) return begin_file(out, name, path);
  if (S_ISDIR(info.st_mode)) return enter(out, path);
  std::array<char, 4096> target;
  const ssize_t size = readlinkat(folder_.get(), name.c_str(), target.data(), target.size());
  if (size <= 0 || static_cast<std::size_t>(size) == target.size()) {
    --entries_;
    refuse(out, path, "its text cannot be read");
    return {};
  }
  frames::put_tree_header(out,
                          TreeHeader{TreeItem::symlink, path, false, 0, std::string(target.data(), size)});
  return {};
}

/// Announces the folder (unless it is the root) and reads its names.
Status TreeReader::enter(std::string& out, const std::string& path) {
  UniqueFd folder = open_contained(root_.get(), path, O_RDONLY | O_DIRECTORY);
  if (!path.empty()) {
    if (!folder) {
      --entries_;
      refuse(out, path, file_error(errno, "opening", path).message);
      return {};
    }
    frames::put_tree_header(out, TreeHeader{TreeItem::folder, path, false, 0, {}});
  }
  if (!folder) return std::unexpected(file_error(errno, "opening the folder", path));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(folder.release()), closedir);
  if (!stream) return std::unexpected(file_error(errno, "reading the folder", path));
  Level level{path, {}, 0};
  std::size_t held = 0;
  while (const dirent* item = readdir(stream.get())) {
    const std::string_view name = item->d_name;
    if (name == "." || name == ".." || name.starts_with(".sandglass-put-")) continue;
    held += name.size() + sizeof(std::string);
    if (names_held_ + held > kMaxNames) {
      return fail(Code::quota_exceeded, "the tree has folders with too many entries to list");
    }
    level.names.emplace_back(name);
  }
  std::ranges::sort(level.names);
  names_held_ += held;
  levels_.push_back(std::move(level));
  folder_current_ = false;
  return {};
}

Status TreeReader::begin_file(std::string& out, const std::string& name, const std::string& path) {
  file_.reset(openat(folder_.get(), name.c_str(), kOpenFile));
  struct stat info{};
  if (!file_ || fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    --entries_;
    refuse(out, path, file_ ? "it changed while it was read" : file_error(errno, "opening", path).message);
    file_.reset();
    return {};
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > limits_.bytes - bytes_) {
    return fail(Code::quota_exceeded, "the tree has more than " + std::to_string(limits_.bytes) + " bytes");
  }
  file_header_ = TreeHeader{TreeItem::file, path, (info.st_mode & S_IXUSR) != 0, size, {}};
  file_left_ = size;
  if (content_) frames::put_tree_header(out, file_header_);
  if (size == 0) return file_piece(out);
  return {};
}

Status TreeReader::file_piece(std::string& out) {
  std::array<char, kReadPiece> piece;
  const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), file_left_));
  ssize_t got = 0;
  if (want > 0) {
    do got = ::read(file_.get(), piece.data(), want);
    while (got < 0 && errno == EINTR);
  }
  if (want == 0 || got <= 0) {
    struct stat info{};
    const bool grown =
        fstat(file_.get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) != file_header_.size;
    file_done(out, file_left_ > 0 || grown);
    return {};
  }
  const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
  hash_.update(bytes);
  file_left_ -= bytes.size();
  if (content_) frames::put_tree_data(out, bytes);
  if (auto status = count(bytes.size()); !status) return status;
  if (file_left_ == 0) return file_piece(out);
  return {};
}

void TreeReader::file_done(std::string& out, bool changed) {
  if (!content_) frames::put_tree_header(out, file_header_);
  const FileState state = changed ? FileState::changed : content_ ? FileState::whole : FileState::omitted;
  frames::put_tree_file_end(out, state, hash_.finish());
  file_.reset();
}

}  // namespace sandglass::sandbox_runtime::init
