#include "engine/blob/memory/store.h"

#include <algorithm>

namespace sandglass::engine::blob {

class MemoryWriter final : public BlobWriter {
 public:
  MemoryWriter(MemoryBlobStore& store, std::string_view tenant) : store_(store), tenant_(tenant) {}

  base::Status write(std::string_view piece) override {
    bytes_ += piece;
    return {};
  }
  base::Result<core::PublicDigest> finish() override {
    const core::PublicDigest digest = core::public_digest(bytes_);
    store_.tamper(tenant_, digest, std::move(bytes_));
    return digest;
  }

 private:
  MemoryBlobStore& store_;
  std::string tenant_;
  std::string bytes_;
};

namespace {

class MemoryReader final : public BlobReader {
 public:
  explicit MemoryReader(std::string bytes) : bytes_(std::move(bytes)) {}

  std::uint64_t size() const override { return bytes_.size(); }
  base::Result<std::string> read(std::size_t most) override {
    std::string piece = bytes_.substr(at_, most);
    at_ += piece.size();
    return piece;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace

base::Result<std::unique_ptr<BlobWriter>> MemoryBlobStore::create(std::string_view tenant) {
  return std::make_unique<MemoryWriter>(*this, tenant);
}

base::Result<std::unique_ptr<BlobReader>> MemoryBlobStore::open(std::string_view tenant,
                                                                const core::PublicDigest& digest) const {
  const std::lock_guard lock(mutex_);
  const auto found = blobs_.find(Key(tenant, digest));
  if (found == blobs_.end()) return missing(digest, "is not there");
  if (core::public_digest(found->second) != digest) return missing(digest, "is damaged");
  return std::make_unique<MemoryReader>(found->second);
}

void MemoryBlobStore::tamper(std::string_view tenant, const core::PublicDigest& digest, std::string bytes) {
  const std::lock_guard lock(mutex_);
  blobs_[Key(tenant, digest)] = std::move(bytes);
}

std::size_t MemoryBlobStore::count() const {
  const std::lock_guard lock(mutex_);
  return blobs_.size();
}

}  // namespace sandglass::engine::blob
