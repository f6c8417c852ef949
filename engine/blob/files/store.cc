#include "engine/blob/files/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/base/crash_point.h"
#include "engine/base/data_folder.h"
#include "engine/base/hash.h"

namespace sandglass::engine::blob {
namespace {

using base::UniqueFd;

constexpr const char* kNew = "new";
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;

std::unexpected<base::Error> system_failure(const std::string& what, const std::string& path, int reason) {
  return std::unexpected(base::system_error(what, path, reason));
}

UniqueFd open_folder_at(int parent, const char* name) {
  return UniqueFd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Opens a folder below `parent`, making it (and syncing the parent) if it is not there.
base::Result<UniqueFd> make_folder_at(int parent, const std::string& name, const std::string& parent_path) {
  if (mkdirat(parent, name.c_str(), kFolderMode) == 0) {
    if (fsync(parent) != 0) return system_failure("cannot sync the folder", parent_path, errno);
  } else if (errno != EEXIST) {
    return system_failure("cannot make a folder in", parent_path, errno);
  }
  UniqueFd folder = open_folder_at(parent, name.c_str());
  if (!folder.valid()) return system_failure("cannot open the folder " + name + " in", parent_path, errno);
  return folder;
}

std::string tenant_folder(std::string_view tenant) {
  base::Sha256 hash;
  return hash.update("sandglass blob tenant 1").update(tenant).finish().hex().substr(0, 32);
}

struct Place {
  std::string folder;  // two digits, so that no folder grows large
  std::string file;
};
Place place_of(const core::PublicDigest& digest) {
  const std::string hex = digest.hash.hex();
  return {.folder = hex.substr(0, 2), .file = hex};
}

/// Removes what a killed process was writing.
void empty_folder(int folder) {
  DIR* entries = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) unlinkat(folder, entry->d_name, 0);
  closedir(entries);
}

class FileWriter final : public BlobWriter {
 public:
  FileWriter(std::string path, int root, int fresh, std::string tenant, std::string name, UniqueFd file)
      : path_(std::move(path)),
        root_(root),
        new_(fresh),
        tenant_(std::move(tenant)),
        name_(std::move(name)),
        file_(std::move(file)) {}
  ~FileWriter() override {
    if (!renamed_) unlinkat(new_, name_.c_str(), 0);
  }

  base::Status write(std::string_view piece) override {
    hash_.update(piece);
    while (!piece.empty()) {
      const ssize_t done = ::write(file_.get(), piece.data(), piece.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return system_failure("cannot write a blob in", path_, errno);
      piece.remove_prefix(static_cast<std::size_t>(done));
    }
    return {};
  }

  base::Result<core::PublicDigest> finish() override {
    const core::PublicDigest digest{hash_.finish()};
    const Place place = place_of(digest);
    if (fsync(file_.get()) != 0) return system_failure("cannot sync a blob in", path_, errno);
    file_.reset();
    auto tenant = make_folder_at(root_, tenant_, path_);
    if (!tenant) return std::unexpected(tenant.error());
    auto folder = make_folder_at(tenant->get(), place.folder, path_ + "/" + tenant_);
    if (!folder) return std::unexpected(folder.error());
    SG_CRASH_POINT("blob.before_rename");
    // Over an older one of the same name: equal bytes, or a damaged one that this heals.
    if (renameat(new_, name_.c_str(), folder->get(), place.file.c_str()) != 0) {
      return system_failure("cannot name a blob in", path_, errno);
    }
    renamed_ = true;
    SG_CRASH_POINT("blob.before_folder_sync");
    if (fsync(folder->get()) != 0) return system_failure("cannot sync a folder of", path_, errno);
    SG_CRASH_POINT("blob.stored");
    return digest;
  }

 private:
  std::string path_;
  int root_;
  int new_;
  std::string tenant_;
  std::string name_;
  UniqueFd file_;
  base::Sha256 hash_;
  bool renamed_ = false;
};

class FileReader final : public BlobReader {
 public:
  FileReader(UniqueFd file, std::uint64_t size, const core::PublicDigest& digest)
      : file_(std::move(file)), size_(size), digest_(digest) {}

  std::uint64_t size() const override { return size_; }
  base::Result<std::string> read(std::size_t most) override {
    if (ended_) return std::string();
    std::string piece(most, '\0');
    ssize_t done = -1;
    do {
      done = ::read(file_.get(), piece.data(), piece.size());
    } while (done < 0 && errno == EINTR);
    if (done < 0) return missing(digest_, std::string("cannot be read: ") + std::strerror(errno));
    piece.resize(static_cast<std::size_t>(done));
    if (done > 0) {
      hash_.update(piece);
      return piece;
    }
    if (core::PublicDigest{hash_.finish()} != digest_) return missing(digest_, "is damaged");
    ended_ = true;
    return piece;
  }

 private:
  UniqueFd file_;
  std::uint64_t size_;
  core::PublicDigest digest_;
  base::Sha256 hash_;
  bool ended_ = false;
};

}  // namespace

base::Result<std::unique_ptr<FileBlobStore>> FileBlobStore::open_folder(const std::string& path,
                                                                        base::Random& random) {
  if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return system_failure("cannot make the blob folder", path, errno);
  }
  UniqueFd root = open_folder_at(AT_FDCWD, path.c_str());
  if (!root.valid()) return system_failure("cannot open the blob folder", path, errno);
  auto fresh = make_folder_at(root.get(), kNew, path);
  if (!fresh) return std::unexpected(fresh.error());
  empty_folder(fresh->get());
  return std::unique_ptr<FileBlobStore>(new FileBlobStore(path, std::move(root), std::move(*fresh), &random));
}

base::Result<std::unique_ptr<FileBlobStore>> FileBlobStore::open_read_only(const std::string& path) {
  UniqueFd root = open_folder_at(AT_FDCWD, path.c_str());
  if (!root.valid()) return system_failure("cannot open the blob folder", path, errno);
  return std::unique_ptr<FileBlobStore>(new FileBlobStore(path, std::move(root), UniqueFd(), nullptr));
}

base::Result<std::unique_ptr<BlobWriter>> FileBlobStore::create(std::string_view tenant) {
  if (random_ == nullptr)
    return base::fail(base::Code::io_error, "the blob folder " + path_ + " is open for reading only");
  std::array<std::uint8_t, 16> raw{};
  random_->fill(raw);
  std::string name = base::to_hex({reinterpret_cast<const char*>(raw.data()), raw.size()});
  UniqueFd file(
      openat(new_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.valid()) return system_failure("cannot make a file in", path_ + "/" + kNew, errno);
  return std::make_unique<FileWriter>(path_, root_.get(), new_.get(), tenant_folder(tenant), std::move(name),
                                      std::move(file));
}

base::Result<std::unique_ptr<BlobReader>> FileBlobStore::open(std::string_view tenant,
                                                              const core::PublicDigest& digest) const {
  const Place place = place_of(digest);
  const UniqueFd tenant_fd = open_folder_at(root_.get(), tenant_folder(tenant).c_str());
  const UniqueFd folder =
      tenant_fd.valid() ? open_folder_at(tenant_fd.get(), place.folder.c_str()) : UniqueFd();
  if (!folder.valid()) return missing(digest, "is not there");
  // Non-blocking: a fifo put here must not hold us up.
  UniqueFd file(openat(folder.get(), place.file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (!file.valid() || fstat(file.get(), &info) != 0) return missing(digest, "is not there");
  if (!S_ISREG(info.st_mode)) return missing(digest, "is not a plain file");
  return std::make_unique<FileReader>(std::move(file), static_cast<std::uint64_t>(info.st_size), digest);
}

}  // namespace sandglass::engine::blob
