// Port: the blob store. Content lies under its PublicDigest, within one tenant (J23): the same bytes of two
// tenants are two blobs, so that one can be erased without the other and neither learns of it.
//
// A digest is returned only after the bytes are durable, hence a record may name it (J29). Bytes that do not
// match their digest are never handed out as good: reading them ends with blob_missing.
//
// Thread rule: any thread; a writer or reader is used by one at a time and ends before its store. Calls
// block: step-able objects use them through a TaskRunner. Errors: blob_missing, disk_full, io_error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/core/payload.h"

namespace sandglass::engine::blob {

/// Takes a blob piece by piece. Destroyed without finish(): nothing is left of it.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual base::Status write(std::string_view piece) = 0;
  /// Makes it durable. Once, and nothing after it.
  virtual base::Result<core::PublicDigest> finish() = 0;
};

/// Gives a blob piece by piece, from the start.
class BlobReader {
 public:
  virtual ~BlobReader() = default;
  virtual std::uint64_t size() const = 0;
  /// Up to `most` bytes; empty: the end, and all that was read matches the digest. What is read before the
  /// end is not proven: whoever acts on it must read to the end first.
  virtual base::Result<std::string> read(std::size_t most) = 0;
};

class BlobStore {
 public:
  virtual ~BlobStore() = default;
  virtual base::Result<std::unique_ptr<BlobWriter>> create(std::string_view tenant) = 0;
  virtual base::Result<std::unique_ptr<BlobReader>> open(std::string_view tenant,
                                                         const core::PublicDigest& digest) const = 0;

  base::Result<core::PublicDigest> put(std::string_view tenant, std::string_view bytes);
  /// The whole blob, verified; invalid_argument if it is longer than `most`.
  base::Result<std::string> get(std::string_view tenant, const core::PublicDigest& digest,
                                std::size_t most = 64 << 20) const;
};

/// blob_missing, saying which.
std::unexpected<base::Error> missing(const core::PublicDigest& digest, std::string_view why);

}  // namespace sandglass::engine::blob
