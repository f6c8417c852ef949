// The blob store in memory, for simulation and tests. What finish() has returned survives everything.
//
// Thread rule: any thread. Writers and readers must not outlive the store.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "engine/blob/blob.h"

namespace sandglass::engine::blob {

class MemoryBlobStore final : public BlobStore {
 public:
  base::Result<std::unique_ptr<BlobWriter>> create(std::string_view tenant) override;
  base::Result<std::unique_ptr<BlobReader>> open(std::string_view tenant,
                                                 const core::PublicDigest& digest) const override;

  /// Replaces stored bytes, for tests of damage.
  void tamper(std::string_view tenant, const core::PublicDigest& digest, std::string bytes);
  std::size_t count() const;

 private:
  friend class MemoryWriter;
  using Key = std::pair<std::string, core::PublicDigest>;

  mutable std::mutex mutex_;
  std::map<Key, std::string> blobs_;
};

}  // namespace sandglass::engine::blob
