// The disk of a sandbox: an ext4 file system of exactly the asked size on a loop device (V11). The image file
// is unlinked as soon as the device has it, the device clears itself when the last mount goes, so that
// nothing outlives the sandbox. Root only. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

struct LoopDisk {
  engine::base::UniqueFd mount;  // detached; goes into the jail
  engine::base::UniqueFd image;  // the unlinked file: tells how much of the limit is used on the host
  int loop = -1;                 // number of the device
  std::uint64_t image_inode = 0;
};

class DiskImages {
 public:
  /// `folder` exists and is ours; template images are kept in it under names that begin with `prefix`.
  DiskImages(std::string folder, std::string prefix)
      : folder_(std::move(folder)), prefix_(std::move(prefix)) {}

  /// disk_full if the host lacks space; provider_failed with the failing call. Nothing is left then.
  engine::base::Result<LoopDisk> make(const std::string& name, std::uint64_t bytes, std::uint64_t inodes);

  /// Leaves nothing of what was written to the image on the host's disk (S7): what has not reached it is let
  /// go, the rest is overwritten with zeros, to the device. The loop device must have let go of it.
  /// (Encryption by the file system would need no end to be orderly, but writes 47 MB/s instead of 352 where
  /// the kernel has no AES instructions.)
  static engine::base::Status erase(int image);

  /// True while device `loop` still carries the image.
  static bool is_attached(int loop, std::uint64_t image_inode);
  /// Free bytes of the host's file system below `folder`.
  std::uint64_t host_free_bytes() const;

 private:
  engine::base::Result<std::string> template_image(std::uint64_t bytes, std::uint64_t inodes);

  const std::string folder_;
  const std::string prefix_;
  std::mutex mutex_;  // one maker of a template at a time
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
