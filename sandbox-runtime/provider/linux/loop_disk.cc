#include "sandbox-runtime/provider/linux/loop_disk.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

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
/// The first command of the sandbox that was just made comes first.
constexpr std::chrono::milliseconds kRefillDelay{5};
constexpr int kRefillNice = 10;

Status disk_failed(const std::string& what, int error) {
  return fail(error == ENOSPC || error == EDQUOT ? Code::disk_full : Code::provider_failed,
              "sandbox disk: " + what + ": " + error_text(error));
}

/// What every disk begins with; its owner is set for each.
Status make_skeleton(const std::string& path) {
  for (const char* part : {"", "/workspace", "/home"}) {
    const std::string folder = path + part;
    if ((::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) || ::chmod(folder.c_str(), 0755) != 0)
      return disk_failed("creating " + folder, errno);
  }
  return {};
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

struct Extent {
  std::uint64_t offset;
  std::uint64_t size;
  bool on_disk;
};

/// What the file holds, and where: still in memory alone, or on the disk. False: the file system does not
/// tell.
bool find_extents(int file, std::vector<Extent>& found) {
  constexpr std::uint32_t kBatch = 128;
  std::vector<std::uint64_t> space((sizeof(fiemap) + kBatch * sizeof(fiemap_extent)) / sizeof(std::uint64_t));
  auto* map = reinterpret_cast<fiemap*>(space.data());
  for (std::uint64_t from = 0;;) {
    std::ranges::fill(space, 0);
    map->fm_start = from;
    map->fm_length = ~std::uint64_t{0} - from;
    map->fm_extent_count = kBatch;
    if (::ioctl(file, FS_IOC_FIEMAP, map) != 0) return false;
    for (std::uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
      const fiemap_extent& extent = map->fm_extents[i];
      found.push_back({extent.fe_logical, extent.fe_length, (extent.fe_flags & FIEMAP_EXTENT_DELALLOC) == 0});
      from = extent.fe_logical + extent.fe_length;
      if ((extent.fe_flags & FIEMAP_EXTENT_LAST) != 0) return true;
    }
    if (map->fm_mapped_extents == 0) return true;
  }
}

/// Where the file system tells no more than that something is there.
std::vector<Extent> data_of(int file) {
  std::vector<Extent> found;
  off_t start = 0;
  for (off_t end = 0; (start = ::lseek(file, end, SEEK_DATA)) >= 0;) {
    end = ::lseek(file, start, SEEK_HOLE);
    if (end < 0) break;
    found.push_back({static_cast<std::uint64_t>(start), static_cast<std::uint64_t>(end - start), true});
  }
  return found;
}

bool write_zeros(int file, std::uint64_t from, std::uint64_t to) {
  static const std::vector<char> zeros(std::size_t{1} << 20);
  while (from < to) {
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), to - from));
    const ssize_t written = ::pwrite(file, zeros.data(), size, static_cast<off_t>(from));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += static_cast<std::uint64_t>(written);
  }
  return true;
}

}  // namespace

Status DiskImages::erase(int image) {
  struct stat about{};
  if (::fstat(image, &about) != 0) return disk_failed("erasing", errno);
  const auto size = static_cast<std::uint64_t>(about.st_size);
  std::vector<Extent> extents;
  if (!find_extents(image, extents)) extents = data_of(image);
  bool any = false;
  for (const Extent& extent : extents) {
    if (extent.on_disk) {
      any = true;
      continue;
    }
    // Otherwise the sync below would carry it to the disk first.
    if (::fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.offset),
                    static_cast<off_t>(extent.size)) != 0) {
      return disk_failed("letting go of what was not written", errno);
    }
  }
  if (!any) return {};
  for (const Extent& extent : extents) {
    if (extent.on_disk && !write_zeros(image, extent.offset, std::min(size, extent.offset + extent.size))) {
      return disk_failed("overwriting", errno);
    }
  }
  return ::fdatasync(image) == 0 ? Status{} : disk_failed("overwriting", errno);
}

Result<std::string> DiskImages::template_image(std::uint64_t bytes, std::uint64_t inodes) {
  const std::lock_guard lock(mutex_);
  const std::string path =
      folder_ + "/" + prefix_ + "ext4-3-" + std::to_string(bytes) + "-" + std::to_string(inodes) + ".img";
  if (::access(path.c_str(), R_OK) == 0) return path;
  const std::string fresh = path + ".new";
  const std::string skeleton = folder_ + "/" + prefix_ + "skeleton";
  if (Status made = make_skeleton(skeleton); !made) return std::unexpected(made.error());
  ::unlink(fresh.c_str());
  const UniqueFd file(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return std::unexpected(disk_failed("creating " + fresh, errno).error());
  }
  const Status made =
      run_tool({"mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-O", "^has_journal,^resize_inode", "-E",
                "lazy_itable_init=1,nodiscard", "-N", std::to_string(inodes), "-d", skeleton, fresh});
  if (!made) {
    ::unlink(fresh.c_str());
    return std::unexpected(made.error());
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    return std::unexpected(disk_failed("naming " + path, errno).error());
  }
  return path;
}

/// A file without a name: whatever happens, its end is the end of its last user.
UniqueFd DiskImages::new_image(const std::string& name) const {
  UniqueFd image(::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (image) return image;
  // a file system that knows no such files; destroy() removes the name if this ends between the two
  const std::string path = folder_ + "/" + prefix_ + name + ".img";
  ::unlink(path.c_str());
  image.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!image || ::unlink(path.c_str()) != 0) return {};
  return image;
}

Result<UniqueFd> DiskImages::make_blank(const std::string& name, std::uint64_t bytes, std::uint64_t inodes) {
  const Result<std::string> source_path = template_image(bytes, inodes);
  if (!source_path) return std::unexpected(source_path.error());
  const UniqueFd source(::open(source_path->c_str(), O_RDONLY | O_CLOEXEC));
  if (!source) return std::unexpected(disk_failed("opening " + *source_path, errno).error());
  UniqueFd image = new_image(name);
  if (!image) return std::unexpected(disk_failed("creating an image in " + folder_, errno).error());
  SG_CRASH_POINT("launcher.image_made");
  if (!copy_extents(source.get(), image.get(), bytes)) {
    return std::unexpected(disk_failed("copying the template", errno).error());
  }
  return image;
}

Result<UniqueFd> DiskImages::image(const std::string& name, std::uint64_t bytes, std::uint64_t inodes) {
  {
    const std::lock_guard lock(blanks_mutex_);
    if (!blanks_.empty() && blanks_.back().bytes == bytes && blanks_.back().inodes == inodes) {
      UniqueFd image = std::move(blanks_.back().image);
      blanks_.pop_back();
      return image;
    }
  }
  return make_blank(name, bytes, inodes);
}

Result<LoopDisk> DiskImages::mount(int image, std::uint32_t owner) {
  UniqueFd device;
  const std::optional<int> number = configure_loop(image, device);
  if (!number) return std::unexpected(disk_failed("no loop device", errno).error());
  struct stat about{};
  ::fstat(image, &about);
  LoopDisk disk;
  disk.loop = *number;
  disk.image_inode = about.st_ino;
  const std::string path = "/dev/loop" + std::to_string(*number);
  disk.mount = new_file_system("ext4", {{"source", path}, {"noinit_itable", ""}, {"nobarrier", ""}},
                               MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  if (!disk.mount) return std::unexpected(disk_failed("mounting " + path, errno).error());
  if (const int error = fill_work(disk.mount.get(), owner))
    return std::unexpected(disk_failed("making its folders", error).error());
  return disk;
}

DiskImages::DiskImages(std::string folder, std::string prefix, std::size_t ahead)
    : folder_(std::move(folder)), prefix_(std::move(prefix)), ahead_(ahead) {
  if (ahead_ > 0) refiller_ = std::thread([this] { refill(); });
}

DiskImages::~DiskImages() {
  {
    const std::lock_guard lock(blanks_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (refiller_.joinable()) refiller_.join();
}

void DiskImages::expect(std::uint64_t bytes, std::uint64_t inodes) {
  if (ahead_ == 0) return;
  {
    const std::lock_guard lock(blanks_mutex_);
    expected_ = {bytes, inodes};
  }
  wake_.notify_all();
}

/// Thread rule: the refiller's thread.
void DiskImages::refill() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kRefillNice);
  std::unique_lock lock(blanks_mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || expected_; });
    if (wake_.wait_for(lock, kRefillDelay, [this] { return stopping_; })) return;
    const auto [bytes, inodes] = *std::exchange(expected_, std::nullopt);
    std::vector<Blank> dropped;
    if (!blanks_.empty() && (blanks_.back().bytes != bytes || blanks_.back().inodes != inodes))
      dropped.swap(blanks_);
    while (!stopping_ && blanks_.size() < ahead_) {
      lock.unlock();
      dropped.clear();
      Result<UniqueFd> image = make_blank("blank", bytes, inodes);
      const bool good = image && ::fsync(image->get()) == 0;
      lock.lock();
      if (!good) break;  // a create that needs one will say why
      blanks_.push_back({bytes, inodes, std::move(*image)});
    }
  }
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
