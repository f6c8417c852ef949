// The disk of a sandbox: an ext4 file system of exactly the asked size on a loop device (V11). The image file
// has no name, the device clears itself when its last user goes, so that nothing outlives the sandbox. Root
// only. Thread rule: any thread.
//
// Blank images may be made ahead: unnamed copies of the template image, of nobody, written to the machine's
// disk. Giving a device its file syncs the file, which takes one to four milliseconds of a fresh copy and 0.2
// of such a one. They are made again some milliseconds after one was taken, on a thread of lower priority; a
// create that finds none makes its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

struct LoopDisk {
  engine::base::UniqueFd mount;  // detached; goes into the jail
  int loop = -1;                 // number of the device
  std::uint64_t image_inode = 0;
};

class DiskImages {
 public:
  /// `folder` exists and is ours; template images are kept in it under names that begin with `prefix`.
  /// `ahead`: how many blank images of the size asked for last are kept.
  DiskImages(std::string folder, std::string prefix, std::size_t ahead);
  ~DiskImages();

  /// A fresh image without a name, one made ahead if there is one. Tells how much of a limit is used on the
  /// host. disk_full if the host lacks space; provider_failed with the failing call. Nothing is left then.
  engine::base::Result<engine::base::UniqueFd> image(const std::string& name, std::uint64_t bytes,
                                                     std::uint64_t inodes);
  /// The file system in it, with the folders that `owner` may write. Codes and failure as of image().
  static engine::base::Result<LoopDisk> mount(int image, std::uint32_t owner);
  /// Another disk of this size may be wanted soon: makes blank images ahead, later.
  void expect(std::uint64_t bytes, std::uint64_t inodes);

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
  struct Blank {
    std::uint64_t bytes = 0;
    std::uint64_t inodes = 0;
    engine::base::UniqueFd image;
  };
  engine::base::Result<std::string> template_image(std::uint64_t bytes, std::uint64_t inodes);
  engine::base::UniqueFd new_image(const std::string& name) const;
  engine::base::Result<engine::base::UniqueFd> make_blank(const std::string& name, std::uint64_t bytes,
                                                          std::uint64_t inodes);
  void refill();

  const std::string folder_;
  const std::string prefix_;
  const std::size_t ahead_;
  std::mutex mutex_;  // one maker of a template at a time

  std::mutex blanks_mutex_;
  std::condition_variable wake_;
  std::vector<Blank> blanks_;                                        // all of one size
  std::optional<std::pair<std::uint64_t, std::uint64_t>> expected_;  // bytes, inodes; until enough are there
  bool stopping_ = false;
  std::thread refiller_;
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
