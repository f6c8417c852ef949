// The blob store in a folder:
//
//   new/<random>                     being written; emptied by open()
//   <tenant hash>/<2 hex>/<64 hex>   a blob; 0600, never changed once it has this name
//
// No name comes from outside: tenants are hashed, digests are 32 bytes. Folders and files are opened one
// below the other and never through a symbolic link. A blob is synced, renamed, and its folder synced before
// its digest is known.
//
// Thread rule: any thread; one process writes.
#pragma once

#include <memory>
#include <string>

#include "engine/base/ports.h"
#include "engine/base/unique_fd.h"
#include "engine/blob/blob.h"

namespace sandglass::engine::blob {

class FileBlobStore final : public BlobStore {
 public:
  /// Makes the folder if it is not there (its parent must be). `random` names what is being written and must
  /// outlive the store.
  static base::Result<std::unique_ptr<FileBlobStore>> open_folder(const std::string& path,
                                                                  base::Random& random);
  /// For tools, beside a store that may be at work: changes nothing; create() is refused.
  static base::Result<std::unique_ptr<FileBlobStore>> open_read_only(const std::string& path);

  base::Result<std::unique_ptr<BlobWriter>> create(std::string_view tenant) override;
  base::Result<std::unique_ptr<BlobReader>> open(std::string_view tenant,
                                                 const core::PublicDigest& digest) const override;

 private:
  FileBlobStore(std::string path, base::UniqueFd root, base::UniqueFd fresh, base::Random* random)
      : path_(std::move(path)), root_(std::move(root)), new_(std::move(fresh)), random_(random) {}

  std::string path_;
  base::UniqueFd root_;
  base::UniqueFd new_;
  base::Random* random_;  // null: read-only
};

}  // namespace sandglass::engine::blob
