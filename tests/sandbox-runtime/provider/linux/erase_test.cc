// What a sandbox has written is not on the machine's disk any more when it has been destroyed (S7).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/support/jail/jail_rig.h"
#include "tests/support/needs_root.h"

namespace sandglass::tests {
namespace {

namespace fs = std::filesystem;
using engine::base::UniqueFd;

constexpr std::string_view kWord = "sandglass-secret-canary";

struct Place {
  std::uint64_t physical;
  std::uint64_t size;
};

/// A second descriptor of the image, which has no name, of the only sandbox below `folder`.
UniqueFd image_below(const std::string& folder) {
  for (const auto& item : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = fs::read_symlink(item.path(), ignored);
    struct stat about{};
    if (target.starts_with(folder) && target.ends_with(" (deleted)") &&
        ::stat(item.path().c_str(), &about) == 0 && S_ISREG(about.st_mode))
      return UniqueFd(::open(item.path().c_str(), O_RDONLY | O_CLOEXEC));
  }
  return {};
}

std::vector<Place> places_of(int file) {
  constexpr std::uint32_t kMost = 512;
  std::vector<char> space(sizeof(fiemap) + kMost * sizeof(fiemap_extent));
  auto* map = reinterpret_cast<fiemap*>(space.data());
  map->fm_length = ~0ull;
  map->fm_extent_count = kMost;
  EXPECT_EQ(::ioctl(file, FS_IOC_FIEMAP, map), 0);
  std::vector<Place> places;
  for (std::uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
    const fiemap_extent& extent = map->fm_extents[i];
    if ((extent.fe_flags & FIEMAP_EXTENT_UNKNOWN) == 0)
      places.push_back({extent.fe_physical, extent.fe_length});
  }
  return places;
}

/// How often the word stands at these places of the device, past every cache.
std::size_t count_on_device(int device, const std::vector<Place>& places) {
  constexpr std::size_t kPiece = 1 << 20;
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(4096, kPiece), std::free);
  std::size_t count = 0;
  for (const Place& place : places) {
    for (std::uint64_t at = 0; at < place.size; at += kPiece) {
      const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, place.size - at));
      const ssize_t got = ::pread(device, buffer.get(), size, static_cast<off_t>(place.physical + at));
      if (got <= 0) continue;
      const std::string_view bytes(static_cast<const char*>(buffer.get()), static_cast<std::size_t>(got));
      for (std::size_t found = bytes.find(kWord); found != bytes.npos; found = bytes.find(kWord, found + 1))
        ++count;
    }
  }
  return count;
}

TEST(EraseTest, NothingThatWasWrittenInsideIsOnTheDiskAfterwards) {
  SANDGLASS_NEEDS_ROOT("a plain user's sandboxes have no disk of the machine's");
  JailRig rig(300, "/var/tmp");  // on a disk where /tmp is none
  Sandbox box = rig.make();
  const UniqueFd image = image_below(rig.folder());
  ASSERT_TRUE(image);
  ASSERT_TRUE(box.run("yes " + std::string(kWord) + " | head -c 4M > secret; sync secret").ok());
  ASSERT_EQ(::fsync(image.get()), 0);  // as a minute would do
  ASSERT_TRUE(box.run("yes " + std::string(kWord) + "-2 | head -c 4M > later; sync later").ok());
  struct stat about{};
  ASSERT_EQ(::fstat(image.get(), &about), 0);
  const std::string path =
      "/dev/block/" + std::to_string(major(about.st_dev)) + ":" + std::to_string(minor(about.st_dev));
  const UniqueFd device(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  const std::vector<Place> places = places_of(image.get());
  ASSERT_FALSE(places.empty());
  if (device) EXPECT_GT(count_on_device(device.get(), places), 100'000u) << "the test would see it";
  const auto destroyed = rig.launcher().destroy(box.id());
  ASSERT_TRUE(destroyed.has_value()) << destroyed.error().message;
  if (device) EXPECT_EQ(count_on_device(device.get(), places), 0u);
  // where the device cannot be read: the blocks were overwritten, not merely given back
  struct stat after{};
  ASSERT_EQ(::fstat(image.get(), &after), 0);
  EXPECT_GE(after.st_blocks, 4 << 11);
  std::string content(6 << 20, '\0');
  ASSERT_GT(::pread(image.get(), content.data(), content.size(), 0), 0);
  EXPECT_EQ(content.find_first_not_of('\0'), std::string::npos);
}

TEST(EraseTest, WithoutRootWhatIsWrittenInsideIsInNoFileOfTheMachine) {
  if (::geteuid() == 0) return;  // the test above is root's
  JailRig rig(300, "/var/tmp");
  Sandbox box = rig.make();
  ASSERT_TRUE(box.run("echo " + std::string(kWord) + " > secret; sync").ok());
  EXPECT_EQ(box.run("stat -f -c %T /workspace").output, "tmpfs\n");
  for (const auto& item : fs::recursive_directory_iterator(rig.folder())) {
    if (!item.is_regular_file()) continue;
    std::ifstream file(item.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(text.find(kWord), std::string::npos) << item.path();
  }
  EXPECT_FALSE(image_below(rig.folder())) << "a file without a name";
}

}  // namespace
}  // namespace sandglass::tests
