#include "sandbox-runtime/init/tree_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

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

constexpr int kFolder = O_PATH | O_DIRECTORY;
constexpr int kNameTries = 1000;
constexpr std::size_t kCallsAtOnce = 4'000;

std::unexpected<engine::base::Error> file_failure(std::string_view doing, std::string_view path) {
  return std::unexpected(file_error(errno, doing, path));
}

bool is_folder(int folder, const std::string& name) {
  struct stat info{};
  return fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Result<std::unique_ptr<TreeWriter>> TreeWriter::open(const std::string& workspace, const std::string& path,
                                                     std::uint64_t tag, TreeLimits limits, Identity identity,
                                                     TreeRemover& remover) {
  auto place = resolve_place(workspace, path);
  if (!place) return std::unexpected(place.error());
  std::unique_ptr<TreeWriter> writer(new TreeWriter(limits, identity, remover));
  if (auto status = writer->begin(std::move(*place), tag); !status) return std::unexpected(status.error());
  return writer;
}

Status TreeWriter::begin(Place place, std::uint64_t tag) {
  const AsUser as_user(identity_);
  std::string missing;
  while (true) {
    anchor_ = open_contained(place.base.get(), place.path, kFolder);
    if (anchor_) break;
    if (errno != ENOENT || place.path.empty()) return file_failure("opening the folder", place.path);
    const std::size_t slash = place.path.rfind('/');
    const std::string last = slash == std::string::npos ? place.path : place.path.substr(slash + 1);
    missing = missing.empty() ? last : last + "/" + missing;
    place.path.resize(slash == std::string::npos ? 0 : slash);
  }
  // The first free name: one that is there is somebody's, or on its way to the remover.
  std::string name = ".sandglass-put-" + std::to_string(tag);
  for (int tries = 1; mkdirat(anchor_.get(), name.c_str(), 0755) != 0; ++tries) {
    if (errno != EEXIST || tries > kNameTries)
      return file_failure("making a folder in", place.path.empty() ? "the workspace" : place.path);
    name = ".sandglass-put-" + std::to_string(tag) + "-" + std::to_string(tries);
  }
  stage_name_ = name;
  stage_ = open_contained(anchor_.get(), name, kFolder);
  if (!stage_) return file_failure("opening", name);
  content_ = open_contained(stage_.get(), "", kFolder);
  while (content_ && !missing.empty()) {
    const std::size_t slash = missing.find('/');
    const std::string next = missing.substr(0, slash);
    missing = slash == std::string::npos ? std::string() : missing.substr(slash + 1);
    if (mkdirat(content_.get(), next.c_str(), 0755) != 0) return file_failure("making the folder", next);
    content_ = open_contained(content_.get(), next, kFolder);
  }
  if (!content_) return file_failure("opening", name);
  return {};
}

TreeWriter::~TreeWriter() {
  file_.reset();
  give_to_remover();
}

/// What can be removed soon is gone when this returns.
void TreeWriter::give_to_remover() {
  if (stage_name_.empty()) return;
  remover_.add(std::move(anchor_), std::exchange(stage_name_, {}));
  remover_.step(kCallsAtOnce);
}

Status TreeWriter::feed(std::string_view bytes) {
  const AsUser as_user(identity_);
  return decoder_.feed(bytes);
}

Status TreeWriter::enter_parent(std::string_view path, std::string& name) {
  const std::size_t slash = path.rfind('/');
  const std::string_view folder = slash == path.npos ? std::string_view() : path.substr(0, slash);
  name = slash == path.npos ? path : path.substr(slash + 1);
  if (has_parent_ && parent_path_ == folder) return {};
  parent_path_ = folder;
  parent_ = open_contained(content_.get(), parent_path_, kFolder);
  has_parent_ = static_cast<bool>(parent_);
  if (!has_parent_) return file_failure("entering the folder", folder);
  return {};
}

Status TreeWriter::entry(const TreeHeader& header) {
  if (++entries_ > limits_.entries) {
    return fail(Code::quota_exceeded,
                "the tree has more than " + std::to_string(limits_.entries) + " entries");
  }
  if (header.type == TreeItem::file && header.size > limits_.bytes - bytes_) {
    return fail(Code::quota_exceeded, "the tree has more than " + std::to_string(limits_.bytes) + " bytes");
  }
  std::string name;
  if (auto status = enter_parent(header.path, name); !status) return status;
  int made = -1;
  switch (header.type) {
    case TreeItem::folder:
      made = mkdirat(parent_.get(), name.c_str(), 0755);
      break;
    case TreeItem::symlink:
      made = symlinkat(header.text.c_str(), parent_.get(), name.c_str());
      break;
    case TreeItem::file:
      made = openat(parent_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    header.executable ? 0755 : 0644);
      if (made >= 0) {
        file_.reset(made);
        file_path_ = header.path;
      }
      break;
    case TreeItem::refused:
    case TreeItem::end:
      return fail(Code::frame_malformed, "an incoming tree has an entry of a type that cannot be made");
  }
  if (made >= 0) return {};
  if (errno == EEXIST) {
    return fail(Code::path_refused,
                "the tree names an entry twice: " + file_error(EEXIST, "making", header.path).message);
  }
  return file_failure("making", header.path);
}

Status TreeWriter::data(std::string_view piece) {
  hash_.update(piece);
  bytes_ += piece.size();
  while (!piece.empty()) {
    const ssize_t put = ::write(file_.get(), piece.data(), piece.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return file_failure("writing", file_path_);
    piece.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Status TreeWriter::file_end(FileState state, const frames::Digest& digest) {
  file_.reset();
  const frames::Digest written = hash_.finish();
  if (state != FileState::whole) {
    return fail(Code::invalid_argument, "a file of the tree is not whole; nothing was imported");
  }
  if (written != digest) {
    return fail(Code::frame_malformed, "a file's content does not match its digest; nothing was imported");
  }
  return {};
}

Status TreeWriter::end(std::uint64_t entries, std::uint64_t bytes) {
  if (entries != entries_ || bytes != bytes_) {
    return fail(Code::frame_malformed, "the tree's counts do not match what came; nothing was imported");
  }
  std::vector<std::string> folders{""};
  while (!folders.empty()) {
    const std::string below = std::move(folders.back());
    folders.pop_back();
    if (auto status = merge_folder(below, folders); !status) return status;
  }
  give_to_remover();
  return {};
}

/// Moves the entries of stage/below to anchor/below. Folders that are on both sides are left for `later`.
Status TreeWriter::merge_folder(const std::string& below, std::vector<std::string>& later) {
  const UniqueFd to = open_contained(anchor_.get(), below, kFolder);
  UniqueFd from = open_contained(stage_.get(), below, O_RDONLY | O_DIRECTORY);
  if (!to || !from) return file_failure("entering the folder", below);
  const int from_fd = from.get();
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(from.release()), closedir);
  if (!stream) return file_failure("reading the folder", below);
  // names are taken first: renaming while reading may show an entry twice
  std::vector<std::string> names;
  while (const dirent* item = readdir(stream.get())) {
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  for (const std::string& name : names) {
    if (auto status = merge_entry(from_fd, to.get(), below, name, later); !status) return status;
  }
  return {};
}

Status TreeWriter::merge_entry(int from, int to, const std::string& below, const std::string& name,
                               std::vector<std::string>& later) {
  const auto rename = [&](unsigned flags) {
    return syscall(SYS_renameat2, from, name.c_str(), to, name.c_str(), flags) == 0;
  };
  if (rename(RENAME_NOREPLACE)) return {};
  if (errno != EEXIST) return file_failure("moving in", name);
  const bool incoming_folder = is_folder(from, name);
  const bool present_folder = is_folder(to, name);
  if (incoming_folder && present_folder) {
    later.push_back(below.empty() ? name : below + "/" + name);
    return {};
  }
  // what was in the way goes into the folder beside and away with it
  if (rename(incoming_folder || present_folder ? RENAME_EXCHANGE : 0)) return {};
  return file_failure("replacing", name);
}

}  // namespace sandglass::sandbox_runtime::init
