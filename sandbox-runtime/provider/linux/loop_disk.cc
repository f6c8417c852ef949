#include "sandbox-runtime/provider/linux/loop_disk.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/provider/linux/files.h"
#include "sandbox-runtime/provider/linux/mounts.h"
#include "sandbox-runtime/provider/linux/run_tool.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

constexpr int kLoopTries = 64;

Status disk_failed(const std::string& what, int error) {
  return fail(error == ENOSPC || error == EDQUOT ? Code::disk_full : Code::provider_failed,
              "sandbox disk: " + what + ": " + error_text(error));
}

/// Copies only what the file holds, so that a 2 GiB image costs its few hundred KiB of metadata.
bool copy_extents(int from, int to, std::uint64_t size) {
  if (::ftruncate(to, static_cast<off_t>(size)) != 0) return false;
  off_t end = 0;
  for (;;) {
    off_t start = ::lseek(from, end, SEEK_DATA);
    if (start < 0) return errno == ENXIO;
    end = ::lseek(from, start, SEEK_HOLE);
    if (end < 0) return false;
    off_t target = start;
    while (start < end) {
      const ssize_t copied =
          ::copy_file_range(from, &start, to, &target, static_cast<std::size_t>(end - start), 0);
      if (copied < 0 && errno == EINTR) continue;
      if (copied <= 0) return false;
    }
  }
}

/// Number of the device that now carries `image`, with the open device, or errno.
std::optional<int> configure_loop(int image, UniqueFd& device) {
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return std::nullopt;
  loop_config config{};
  config.fd = static_cast<std::uint32_t>(image);
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  for (int attempt = 0; attempt < kLoopTries; ++attempt) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return std::nullopt;
    const std::string path = "/dev/loop" + std::to_string(number);
    device.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!device) return std::nullopt;
    if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) return number;
    if (errno != EBUSY) return std::nullopt;  // busy: another one was quicker
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> DiskImages::template_image(std::uint64_t bytes, std::uint64_t inodes) {
  const std::lock_guard lock(mutex_);
  const std::string path =
      folder_ + "/" + prefix_ + "ext4-2-" + std::to_string(bytes) + "-" + std::to_string(inodes) + ".img";
  if (::access(path.c_str(), R_OK) == 0) return path;
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  const UniqueFd file(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return std::unexpected(disk_failed("creating " + fresh, errno).error());
  }
  const Status made =
      run_tool({"mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-O", "^has_journal,^resize_inode", "-E",
                "lazy_itable_init=1,nodiscard", "-N", std::to_string(inodes), fresh});
  if (!made) {
    ::unlink(fresh.c_str());
    return std::unexpected(made.error());
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    return std::unexpected(disk_failed("naming " + path, errno).error());
  }
  return path;
}

Result<LoopDisk> DiskImages::make(const std::string& name, std::uint64_t bytes, std::uint64_t inodes) {
  const Result<std::string> source_path = template_image(bytes, inodes);
  if (!source_path) return std::unexpected(source_path.error());
  const UniqueFd source(::open(source_path->c_str(), O_RDONLY | O_CLOEXEC));
  if (!source) return std::unexpected(disk_failed("opening " + *source_path, errno).error());
  const std::string path = folder_ + "/" + prefix_ + name + ".img";
  ::unlink(path.c_str());
  LoopDisk disk;
  disk.image.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!disk.image) return std::unexpected(disk_failed("creating " + path, errno).error());
  SG_CRASH_POINT("launcher.image_made");
  // No name from here on: whatever happens, the file's end is the end of its last user.
  if (::unlink(path.c_str()) != 0 || !copy_extents(source.get(), disk.image.get(), bytes)) {
    return std::unexpected(disk_failed("copying the template", errno).error());
  }
  UniqueFd device;
  const std::optional<int> number = configure_loop(disk.image.get(), device);
  if (!number) return std::unexpected(disk_failed("no loop device", errno).error());
  struct stat about{};
  ::fstat(disk.image.get(), &about);
  disk.loop = *number;
  disk.image_inode = about.st_ino;
  disk.mount =
      new_file_system("ext4", {{"source", "/dev/loop" + std::to_string(*number)}, {"noinit_itable", ""}},
                      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  if (!disk.mount)
    return std::unexpected(disk_failed("mounting /dev/loop" + std::to_string(*number), errno).error());
  return disk;
}

bool DiskImages::is_attached(int loop, std::uint64_t image_inode) {
  const UniqueFd device(::open(("/dev/loop" + std::to_string(loop)).c_str(), O_RDONLY | O_CLOEXEC));
  loop_info64 info{};
  if (!device || ::ioctl(device.get(), LOOP_GET_STATUS64, &info) != 0) return false;
  return info.lo_inode == image_inode;
}

std::uint64_t DiskImages::host_free_bytes() const {
  struct statvfs about{};
  if (::statvfs(folder_.c_str(), &about) != 0) return 0;
  return std::uint64_t{about.f_bavail} * about.f_frsize;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
