// The data folder: everything durable of one installation. 0700, owned by the engine's uid.
//   format          "sandglass-data 1": which program can open it
//   id              16 hex digits; names of cgroups and images on this machine carry it (V1)
//   lock            flock of the engine
//   effect.lock     flock inherited by sandglass-effect; a new supervisor waits for it (V2)
//   supervisor.lock flock of sandglassd
//   keys/tenant     32 random bytes, 0600 (J23)
//   tokens/NAME     bearer tokens of the first start, 0600
//   journal/ blobs/ the engine's
//   run/            the engine's socket, slots and journal.mark: how far the journal was durable
//                   (engine/view/rocksdb/durable_mark.h)
//   host/           the sandbox host's and the proxy's sockets, leases, disks; an engine may only connect
//   log/            of a server that `sandglass run` started
//   sandglass.yaml  optional configuration
// With an engine of another uid (V2) what is not the engine's stays root's: the engine sees the folder
// read-only but for its own parts (folder_owner.h).
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>

#include "engine/base/ports.h"
#include "engine/base/result.h"

namespace sandglass::engine::base {

inline constexpr int kFolderFormat = 1;
/// What the file `format` holds.
std::string folder_format_line();

/// --data, else $SANDGLASS_DATA, else /var/lib/sandglass as root and $XDG_DATA_HOME/sandglass
/// (~/.local/share/sandglass) for others. Errors: usage, when none of them is known.
Result<std::string> choose_data_folder(std::string_view flag);

/// An flock on a file; released with the object or the process.
class FileLock {
 public:
  FileLock() = default;
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  /// folder_locked, naming the process that wrote its id into the file. Ours is written once the lock is
  /// held.
  static Result<FileLock> take(const std::string& path);
  /// Waits until the lock is free.
  static Result<FileLock> wait(const std::string& path);
  /// The descriptor that holds it; a child that inherits it holds the lock as well.
  int fd() const { return fd_; }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

/// Paths of one folder. A value; opening makes no lock.
class DataFolder {
 public:
  /// Makes the folder and what it lacks. Refuses: another format (folder_version), a folder that is not ours
  /// or not writable (io_error), one that holds other things (folder_version), a full disk (disk_full).
  /// Ours: it belongs to this process's uid or to `engine_uid`.
  static Result<DataFolder> open(const std::string& path, Random& random, uid_t engine_uid = geteuid());
  /// For an engine whose supervisor has opened it: as open_read_only, but a full disk is refused.
  static Result<DataFolder> open_prepared(const std::string& path);
  /// For readers: must exist and be of our format; changes nothing.
  static Result<DataFolder> open_read_only(const std::string& path);
  /// Path of the log file of a server that is yet to open the folder; makes no more than its place. Errors as
  /// open.
  static Result<std::string> log_file(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& id() const { return id_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string journal() const { return file("journal"); }
  std::string journal_mark() const { return file("run/journal.mark"); }
  std::string blobs() const { return file("blobs"); }
  std::string api_socket() const { return file("run/api.sock"); }
  std::string host_socket() const { return file("host/host.sock"); }
  std::string egress_socket() const { return file("host/egress.sock"); }
  static std::string config_file(const std::string& folder) { return folder + "/sandglass.yaml"; }
  std::string token_file(std::string_view name) const { return file("tokens/") + std::string(name); }
  /// record_damaged, when it is missing under a journal or is none.
  Result<std::string> tenant_key() const;
  /// What the names of its things on this machine begin with: control groups, images, sockets (V1). Its id
  /// has at most 12 characters there.
  std::string machine_id() const { return id_.substr(0, 12); }

 private:
  Status check_key() const;

  std::string path_;
  std::string id_;
};

/// Writes a file so that it is there whole or not at all: beside it, synced, renamed. Mode 0600.
Status write_whole_file(const std::string& path, std::string_view bytes);
enum class Links { follow, refuse };
/// The file's bytes; not more than `limit` (file_unreadable). Links::refuse: for a file that somebody else
/// may have put there.
Result<std::string> read_whole_file(const std::string& path, std::size_t limit, Links links = Links::follow);

/// io_error or disk_full by errno, "what path: reason".
Error system_error(const std::string& what, const std::string& path, int reason);

}  // namespace sandglass::engine::base
