// The data folder: everything durable of one installation. 0700, owned by who runs the engine.
//   format          "sandglass-data 1": which program can open it
//   id              16 hex digits; names of cgroups and images on this machine carry it (V1)
//   lock            flock of the engine
//   effect.lock     flock inherited by sandglass-effect; a new supervisor waits for it (V2)
//   supervisor.lock flock of sandglassd
//   keys/tenant     32 random bytes, 0600 (J23)
//   tokens/NAME     bearer tokens of the first start, 0600
//   journal/ blobs/ run/ (sockets) log/
//   run/journal.mark  how far the journal was durable (engine/view/rocksdb/durable_mark.h)
//   sandglass.yaml  optional configuration
#pragma once

#include <string>
#include <string_view>

#include "engine/base/ports.h"
#include "engine/base/result.h"

namespace sandglass::engine::base {

inline constexpr int kFolderFormat = 1;

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
  /// or not writable (io_error), a full disk (disk_full).
  static Result<DataFolder> open(const std::string& path, Random& random);
  /// For readers: must exist and be of our format; changes nothing.
  static Result<DataFolder> open_read_only(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& id() const { return id_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string journal() const { return file("journal"); }
  std::string journal_mark() const { return file("run/journal.mark"); }
  std::string blobs() const { return file("blobs"); }
  std::string api_socket() const { return file("run/api.sock"); }
  std::string host_socket() const { return file("run/host.sock"); }
  std::string config_file() const { return file("sandglass.yaml"); }
  std::string token_file(std::string_view name) const { return file("tokens/") + std::string(name); }
  Result<std::string> tenant_key() const;

 private:
  std::string path_;
  std::string id_;
};

/// Writes a file so that it is there whole or not at all: beside it, synced, renamed. Mode 0600.
Status write_whole_file(const std::string& path, std::string_view bytes);
/// The file's bytes; not more than `limit` (file_unreadable).
Result<std::string> read_whole_file(const std::string& path, std::size_t limit);

/// io_error or disk_full by errno, "what path: reason".
Error system_error(const std::string& what, const std::string& path, int reason);

}  // namespace sandglass::engine::base
