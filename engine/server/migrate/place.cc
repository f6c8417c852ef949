#include "engine/server/migrate/place.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "engine/base/crash_point.h"
#include "engine/base/sync_folder.h"

namespace sandglass::engine::server::migrate {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kSlackBytes = 64 << 20;

base::Status rename_to(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return {};
  return std::unexpected(base::system_error("cannot rename to " + to, from, errno));
}

base::Status remove_file(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return std::unexpected(base::system_error("cannot remove", path, errno));
}

base::Status remove_tree(const std::string& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) return std::unexpected(base::system_error("cannot remove", path, failed.value()));
  return {};
}

std::uintmax_t bytes_of(const std::string& path) {
  std::uintmax_t bytes = 0;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(path, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    std::error_code gone;
    if (at->is_regular_file(gone)) bytes += at->file_size(gone);
  }
  return bytes;
}

/// The same one until the former journal has it.
std::string name_to_keep(const base::DataFolder& folder) {
  for (int number = 1;; ++number) {
    std::string path = folder.file("journal.former-" + std::to_string(number));
    if (!exists(path)) return path;
  }
}

}  // namespace

base::Status make_files_as_engine(const base::DataFolder& folder) {
  struct stat about{};
  if (stat(folder.journal().c_str(), &about) != 0)
    return std::unexpected(base::system_error("cannot look at", folder.journal(), errno));
  if (about.st_uid == geteuid()) return {};
  // The rights of root stay, where this root may keep them: folders above need not let the engine through.
  prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP);
  setfsgid(about.st_gid);
  setfsuid(about.st_uid);
  return {};
}

std::string unfinished_copy(const base::DataFolder& folder) {
  return folder.file("journal.moving");
}

std::string whole_copy(const base::DataFolder& folder) {
  return folder.file("journal.moved");
}

bool exists(const std::string& path) {
  std::error_code failed;
  return fs::exists(fs::symlink_status(path, failed));
}

base::Status remove_copies(const base::DataFolder& folder) {
  for (const std::string& copy : {unfinished_copy(folder), whole_copy(folder)}) {
    if (auto gone = remove_file(copy + ".mark"); !gone) return gone;
  }
  // The whole one first: a part of it never looks whole.
  if (exists(whole_copy(folder))) {
    if (auto moved = remove_tree(unfinished_copy(folder)); !moved) return moved;
    if (auto moved = rename_to(whole_copy(folder), unfinished_copy(folder)); !moved) return moved;
  }
  return remove_tree(unfinished_copy(folder));
}

base::Status finish_copy(const base::DataFolder& folder) {
  SG_CRASH_POINT("migrate.copied");
  if (const std::string mark = unfinished_copy(folder) + ".mark"; exists(mark)) {
    if (auto named = rename_to(mark, whole_copy(folder) + ".mark"); !named) return named;
  }
  if (auto synced = base::sync_folder(unfinished_copy(folder)); !synced) return synced;
  if (auto done = rename_to(unfinished_copy(folder), whole_copy(folder)); !done) return done;
  if (auto synced = base::sync_folder(folder.path()); !synced) return synced;
  SG_CRASH_POINT("migrate.copy_whole");
  return {};
}

base::Status check_room(const base::DataFolder& folder) {
  struct statvfs disk{};
  if (statvfs(folder.path().c_str(), &disk) != 0)
    return std::unexpected(base::system_error("cannot see the free space of", folder.path(), errno));
  const std::uintmax_t free = static_cast<std::uintmax_t>(disk.f_bavail) * disk.f_frsize;
  const std::uintmax_t wanted = bytes_of(folder.journal()) + kSlackBytes;
  if (free >= wanted) return {};
  return base::fail(base::Code::disk_full, "the move needs " + std::to_string(wanted >> 20) +
                                               " MiB for a copy of " + folder.journal() +
                                               ", and its disk has " + std::to_string(free >> 20) +
                                               " MiB free. Nothing was changed");
}

base::Result<std::string> put_in_place(const base::DataFolder& folder, const OnTopic& topic) {
  const std::string former = name_to_keep(folder);
  // The new journal has another mark, or none; what was published was the former one.
  if (exists(folder.journal_mark())) {
    if (auto moved = rename_to(folder.journal_mark(), former + ".mark"); !moved)
      return std::unexpected(moved.error());
  }
  if (auto gone = remove_file(folder.file("run/published")); !gone) return std::unexpected(gone.error());
  if (!topic) {
    if (auto gone = remove_file(folder.file(journal::kafka::kPlaceFile)); !gone)
      return std::unexpected(gone.error());
  }
  if (auto synced = base::sync_folder(folder.file("run")); !synced) return std::unexpected(synced.error());
  SG_CRASH_POINT("migrate.before_exchange");
  const std::string journal = folder.journal();
  const std::string copy = whole_copy(folder);
  if (renameat2(AT_FDCWD, copy.c_str(), AT_FDCWD, journal.c_str(), RENAME_EXCHANGE) != 0) {
    return std::unexpected(base::system_error("cannot exchange " + journal + " for its copy", copy, errno));
  }
  SG_CRASH_POINT("migrate.exchanged");
  return finish_exchange(folder, topic);
}

base::Result<std::string> finish_exchange(const base::DataFolder& folder, const OnTopic& topic) {
  if (topic) {
    if (auto saved = journal::kafka::save_place(folder.file(journal::kafka::kPlaceFile), *topic); !saved)
      return std::unexpected(saved.error());
  }
  std::string former = name_to_keep(folder);
  // A server that was started in between has made one itself, and this one is older.
  const std::string mark = whole_copy(folder) + ".mark";
  if (exists(mark)) {
    const auto placed =
        exists(folder.journal_mark()) ? remove_file(mark) : rename_to(mark, folder.journal_mark());
    if (!placed) return std::unexpected(placed.error());
  }
  if (auto kept = rename_to(whole_copy(folder), former); !kept) return std::unexpected(kept.error());
  for (const std::string& changed : {folder.file("run"), folder.path()}) {
    if (auto synced = base::sync_folder(changed); !synced) return std::unexpected(synced.error());
  }
  return former;
}

}  // namespace sandglass::engine::server::migrate
