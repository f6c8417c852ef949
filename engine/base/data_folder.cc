#include "engine/base/data_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/text.h"

namespace sandglass::engine::base {

namespace {

constexpr std::uint64_t kLeastFreeBytes = 16 << 20;
constexpr std::string_view kFormatPrefix = "sandglass-data ";
/// What may be in a folder that is about to become a data folder.
constexpr std::string_view kBeforeFormat[] = {
    ".", "..", "log", "lost+found", "sandglass.yaml", "supervisor.lock", "journal", "keys"};

Status make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return {};
  const int reason = errno;
  struct stat info{};
  const bool there = reason == EEXIST && stat(path.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) return {};
  if (there) return fail(Code::io_error, path + " is not a folder; choose another data folder with --data");
  return std::unexpected(system_error("cannot make the folder", path, reason));
}

/// Makes the folder and its missing parents; parents get the usual mode.
Status make_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string parent = path.substr(0, at);
    if (mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) {
      return std::unexpected(system_error("cannot make the folder", parent, errno));
    }
  }
  return make_folder(path);
}

Status check_format(const std::string& path, const std::string& text) {
  const std::string_view line(text);
  if (line == folder_format_line()) return {};
  if (!line.starts_with(kFormatPrefix)) {
    return fail(Code::folder_version, path +
                                          " is not a Sandglass data folder: its file 'format' is foreign; "
                                          "choose another folder with --data");
  }
  std::string found(line.substr(kFormatPrefix.size()));
  while (!found.empty() && found.back() == '\n') found.pop_back();
  return fail(Code::folder_version, "the data folder " + path + " has format " + quote_for_terminal(found) +
                                        ", this program reads " + std::to_string(kFolderFormat) +
                                        "; open it with the Sandglass that wrote it, nothing was changed");
}

/// A database that runs out of space while it opens says so badly; better not to begin.
Status check_space(const std::string& path) {
  struct statvfs disk{};
  if (statvfs(path.c_str(), &disk) != 0) return {};
  const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free >= kLeastFreeBytes) return {};
  return fail(Code::disk_full, "only " + std::to_string(free / 1024) +
                                   " KiB are free where the data folder " + path + " lies; free at least " +
                                   std::to_string(kLeastFreeBytes >> 20) + " MiB");
}

/// Opening somebody's home by mistake must not turn it into a data folder: without its file 'format' a folder
/// may only hold what is there before that file is.
Status check_contents(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), &closedir);
  if (folder == nullptr) return std::unexpected(system_error("cannot read the data folder", path, errno));
  bool is_ours = false;
  std::string foreign;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name(entry->d_name);
    is_ours = is_ours || name == "journal" || name == "keys";
    const bool is_half_made = name.starts_with("format.") && name.ends_with(".new");
    if (!is_half_made && std::ranges::find(kBeforeFormat, name) == std::end(kBeforeFormat)) foreign = name;
  }
  if (is_ours && access((path + "/unfinished").c_str(), F_OK) == 0) {
    return fail(Code::folder_version, "the data folder " + path +
                                          " was being restored from a backup, or is one, and is not whole; "
                                          "restore it again (`sandglass backup restore`), or choose another "
                                          "folder with --data");
  }
  if (is_ours) {
    return fail(Code::folder_version, "the data folder " + path +
                                          " has a journal or keys but no file 'format'; "
                                          "restore that file or choose another folder with --data");
  }
  if (foreign.empty()) return {};
  return fail(Code::folder_version, path + " is not a Sandglass data folder: it holds other things ('" +
                                        foreign + "') and no file 'format'; choose a new or empty folder " +
                                        "with --data");
}

Status check_owner(const std::string& path, uid_t engine_uid) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0)
    return std::unexpected(system_error("cannot open the data folder", path, errno));
  if (!S_ISDIR(info.st_mode)) return fail(Code::io_error, "the data folder " + path + " is not a folder");
  if (info.st_uid != geteuid() && info.st_uid != engine_uid) {
    const std::string advice =
        geteuid() == 0 ? "if it shall be this server's, `chown -R root: " + path +
                             "` (it is given to the engine's uid then); else start as its owner or choose "
                             "another with --data"
                       : "start it as the owner or choose another with --data";
    return fail(Code::io_error, "the data folder " + path + " belongs to uid " + std::to_string(info.st_uid) +
                                    ", this program runs as " + std::to_string(geteuid()) + "; " + advice);
  }
  if (access(path.c_str(), W_OK) != 0) {
    return std::unexpected(system_error("the data folder is not writable", path, errno));
  }
  return {};
}

/// Only of a folder that is known to be ours, or to become ours: /etc without its readers is a dead machine.
Status make_private(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && ((info.st_mode & 0077) == 0 || chmod(path.c_str(), 0700) == 0))
    return {};
  return std::unexpected(system_error("cannot make the data folder private", path, errno));
}

enum class Existing : std::uint8_t { replaced, kept };

/// `kept`: whoever else makes the file at the same time, the first one's is the file from then on.
int give_name(const std::string& from, const std::string& to, Existing existing) {
  if (existing == Existing::replaced) return rename(from.c_str(), to.c_str());
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EEXIST) return errno == EINVAL ? rename(from.c_str(), to.c_str()) : -1;
  unlink(from.c_str());
  return 0;
}

Status write_file(const std::string& path, std::string_view bytes, Existing existing) {
  // Two first starts on one folder must not write into one file beside it.
  const std::string beside =
      path + (existing == Existing::kept ? "." + std::to_string(getpid()) : "") + ".new";
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return std::unexpected(system_error("cannot write", beside, errno));
  Status status;
  while (!bytes.empty() && status) {
    const auto wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno != EINTR) status = std::unexpected(system_error("cannot write", beside, errno));
    if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (status && fsync(fd) != 0) status = std::unexpected(system_error("cannot sync", beside, errno));
  close(fd);
  if (status && give_name(beside, path, existing) != 0) {
    status = std::unexpected(system_error("cannot write", path, errno));
  }
  if (!status) {
    unlink(beside.c_str());
    return status;
  }
  const std::string folder = path.substr(0, path.rfind('/'));
  const int folder_fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0 || fsync(folder_fd) != 0)
    status = std::unexpected(system_error("cannot sync", folder, errno));
  if (folder_fd >= 0) close(folder_fd);
  return status;
}

/// Of several that make it at once, the first one's is the file.
Status make_whole_file(const std::string& path, std::string_view bytes) {
  return write_file(path, bytes, Existing::kept);
}

Status make_random_file(const std::string& path, Random& random, std::size_t bytes, bool hex) {
  if (access(path.c_str(), F_OK) == 0) return {};
  std::string value(bytes, '\0');
  random.fill({reinterpret_cast<std::uint8_t*>(value.data()), value.size()});
  return make_whole_file(path, hex ? to_hex(value) : value);
}

/// It becomes part of the names of control groups and sockets.
Status check_id(const std::string& path, std::string_view id) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (id.size() == 16 && std::ranges::all_of(id, is_hex)) return {};
  return fail(Code::record_damaged, "the file " + path + " does not hold 16 hex digits; restore it");
}

std::string holder_of(int fd) {
  std::array<char, 32> text{};
  const auto got = pread(fd, text.data(), text.size() - 1, 0);
  std::string holder;
  for (ssize_t i = 0;
       i < got && text[static_cast<std::size_t>(i)] >= '0' && text[static_cast<std::size_t>(i)] <= '9'; ++i) {
    holder += text[static_cast<std::size_t>(i)];
  }
  return holder.empty() ? "another process" : "process " + holder;
}

Result<int> open_lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return std::unexpected(system_error("cannot open the lock", path, errno));
  return fd;
}

void write_holder(int fd) {
  const std::string text = std::to_string(getpid()) + "\n";
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) < 0)
    return;  // only a hint for messages
}

}  // namespace

std::string folder_format_line() {
  return std::string(kFormatPrefix) + std::to_string(kFolderFormat) + "\n";
}

Error system_error(const std::string& what, const std::string& path, int reason) {
  std::string message = what + " " + path + ": " + std::strerror(reason);
  if (reason == ENOSPC || reason == EDQUOT) {
    return {Code::disk_full, message + "; free space on that file system, then start again"};
  }
  if (reason == EROFS) message += "; mount that file system writable, or choose another folder";
  return {Code::io_error, std::move(message)};
}

Result<std::string> choose_data_folder(std::string_view flag) {
  std::string path(flag);
  if (path.empty()) {
    if (const char* set = std::getenv("SANDGLASS_DATA"); set != nullptr) path = set;
  }
  if (path.empty() && geteuid() == 0) path = "/var/lib/sandglass";
  if (path.empty()) {
    if (const char* xdg = std::getenv("XDG_DATA_HOME"); xdg != nullptr && *xdg == '/') {
      path = std::string(xdg) + "/sandglass";
    } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
      path = std::string(home) + "/.local/share/sandglass";
    }
  }
  if (path.empty()) {
    return fail(Code::usage, "no data folder is known: give --data FOLDER or set SANDGLASS_DATA");
  }
  if (path.front() != '/') {
    std::string here(4096, '\0');
    if (getcwd(here.data(), here.size()) == nullptr) {
      return std::unexpected(system_error("cannot find the current folder for", path, errno));
    }
    here.resize(std::strlen(here.c_str()));
    path = here + "/" + path;
  }
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}
FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Result<FileLock> FileLock::take(const std::string& path) {
  auto fd = open_lock(path);
  if (!fd) return std::unexpected(fd.error());
  FileLock lock(*fd);
  if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason != EWOULDBLOCK) return std::unexpected(system_error("cannot lock", path, reason));
    return fail(Code::folder_locked,
                holder_of(*fd) + " holds " + path + "; stop it, or choose another data folder with --data");
  }
  write_holder(*fd);
  return lock;
}

Result<FileLock> FileLock::wait(const std::string& path) {
  auto fd = open_lock(path);
  if (!fd) return std::unexpected(fd.error());
  FileLock lock(*fd);
  while (flock(*fd, LOCK_EX) != 0) {
    if (errno != EINTR) return std::unexpected(system_error("cannot lock", path, errno));
  }
  write_holder(*fd);
  return lock;
}

Status write_whole_file(const std::string& path, std::string_view bytes) {
  return write_file(path, bytes, Existing::replaced);
}

Result<std::string> read_whole_file(const std::string& path, std::size_t limit, Links links) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | (links == Links::refuse ? O_NOFOLLOW : 0));
  if (fd < 0) return fail(Code::file_unreadable, "cannot read " + path + ": " + std::strerror(errno));
  std::string bytes;
  std::array<char, 16384> part{};
  for (;;) {
    const auto got = read(fd, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || bytes.size() > limit) {
      const std::string why =
          got < 0 ? std::strerror(errno) : "larger than " + std::to_string(limit) + " bytes";
      close(fd);
      return fail(Code::file_unreadable, "cannot read " + path + ": " + why);
    }
    if (got == 0) break;
    bytes.append(part.data(), static_cast<std::size_t>(got));
  }
  close(fd);
  if (bytes.size() > limit) {
    return fail(Code::file_unreadable,
                "cannot read " + path + ": larger than " + std::to_string(limit) + " bytes");
  }
  return bytes;
}

Result<DataFolder> DataFolder::open(const std::string& path, Random& random, uid_t engine_uid) {
  if (auto made = make_folders(path); !made) return std::unexpected(made.error());
  if (auto owned = check_owner(path, engine_uid); !owned) return std::unexpected(owned.error());
  if (auto space = check_space(path); !space) return std::unexpected(space.error());
  DataFolder folder;
  folder.path_ = path;
  const std::string format = folder.file("format");
  if (auto text = read_whole_file(format, 256)) {
    if (auto checked = check_format(path, *text); !checked) return std::unexpected(checked.error());
    if (auto closed = make_private(path); !closed) return std::unexpected(closed.error());
  } else if (access(format.c_str(), F_OK) == 0) {
    return std::unexpected(text.error());
  } else {
    // Another first start may have been quicker meanwhile.
    const auto known = check_contents(path);
    if (!known && access(format.c_str(), F_OK) != 0) return std::unexpected(known.error());
    if (auto closed = make_private(path); !closed) return std::unexpected(closed.error());
    if (auto written = make_whole_file(format, folder_format_line()); !written)
      return std::unexpected(written.error());
    const auto made = read_whole_file(format, 256);
    if (!made) return std::unexpected(made.error());
    if (auto checked = check_format(path, *made); !checked) return std::unexpected(checked.error());
  }
  for (const char* name : {"keys", "tokens", "run", "host", "log", "blobs"}) {
    if (auto made = make_folder(folder.file(name)); !made) return std::unexpected(made.error());
  }
  if (auto made = make_random_file(folder.file("id"), random, 8, true); !made)
    return std::unexpected(made.error());
  // A new key would open the folder, and no digest in its histories would fit any more.
  if (auto bound = folder.check_key(); !bound) return std::unexpected(bound.error());
  if (auto made = make_random_file(folder.file("keys/tenant"), random, 32, false); !made) {
    return std::unexpected(made.error());
  }
  auto id = read_whole_file(folder.file("id"), 16);
  if (!id) return std::unexpected(id.error());
  if (auto checked = check_id(folder.file("id"), *id); !checked) return std::unexpected(checked.error());
  folder.id_ = std::move(*id);
  return folder;
}

Result<DataFolder> DataFolder::open_read_only(const std::string& path) {
  DataFolder folder;
  folder.path_ = path;
  auto text = read_whole_file(folder.file("format"), 256);
  if (!text && access(folder.file("format").c_str(), F_OK) != 0 && errno == EACCES) {
    return fail(Code::io_error, "uid " + std::to_string(geteuid()) + " may not read the data folder " + path +
                                    "; run this as its owner or as root, or choose another with --data");
  }
  if (!text) {
    return fail(Code::not_found,
                "there is no Sandglass data folder at " + path + " (" + text.error().message + ")");
  }
  if (auto checked = check_format(path, *text); !checked) return std::unexpected(checked.error());
  auto id = read_whole_file(folder.file("id"), 16);
  if (!id) return std::unexpected(id.error());
  if (auto checked = check_id(folder.file("id"), *id); !checked) return std::unexpected(checked.error());
  folder.id_ = std::move(*id);
  return folder;
}

Result<DataFolder> DataFolder::open_prepared(const std::string& path) {
  if (auto space = check_space(path); !space) return std::unexpected(space.error());
  return open_read_only(path);
}

Result<std::string> DataFolder::log_file(const std::string& path) {
  if (auto made = make_folders(path); !made) return std::unexpected(made.error());
  const std::string log = path + "/log";
  struct stat info{};
  // A folder that root has given to an engine has root's log; in anybody else's nothing is made.
  const bool given =
      geteuid() == 0 && lstat(log.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == 0;
  if (!given) {
    if (auto owned = check_owner(path, geteuid()); !owned) return std::unexpected(owned.error());
    const std::string format = path + "/format";
    if (access(format.c_str(), F_OK) != 0) {
      const auto known = check_contents(path);
      if (!known && access(format.c_str(), F_OK) != 0) return std::unexpected(known.error());
      if (auto closed = make_private(path); !closed) return std::unexpected(closed.error());
    }
    if (auto made = make_folder(log); !made) return std::unexpected(made.error());
  }
  return log + "/sandglassd.log";
}

Status DataFolder::check_key() const {
  if (access(file("keys/tenant").c_str(), F_OK) == 0 || access(file("journal/CURRENT").c_str(), F_OK) != 0)
    return {};
  return fail(Code::record_damaged,
              "the tenant key " + file("keys/tenant") +
                  " is missing, and the journal's histories are bound to it; restore it");
}

Result<std::string> DataFolder::tenant_key() const {
  if (auto bound = check_key(); !bound) return std::unexpected(bound.error());
  auto key = read_whole_file(file("keys/tenant"), 32);
  if (key && key->size() != 32) {
    return fail(Code::record_damaged,
                "the tenant key " + file("keys/tenant") + " is not 32 bytes long; restore it");
  }
  return key;
}

}  // namespace sandglass::engine::base
