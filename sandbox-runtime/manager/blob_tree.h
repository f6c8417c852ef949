// Trees between the blob store and a sandbox. Not for others.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>

#include "engine/blob/blob.h"
#include "engine/codec/tree.h"
#include "sandbox-runtime/provider/tree.h"

namespace sandglass::sandbox_runtime::manager {

namespace base = engine::base;

/// The stored tree that `digest_hex` names. Blocks.
base::Result<engine::codec::Tree> load_tree(const engine::blob::BlobStore& blobs, const std::string& tenant,
                                            const std::string& digest_hex);

/// A stored tree as a source: parents before children, contents from the store, verified as they are read.
class BlobTreeSource final : public provider::TreeSource {
 public:
  BlobTreeSource(const engine::blob::BlobStore& blobs, std::string tenant, engine::codec::Tree tree);
  base::Result<std::optional<provider::TreeEntry>> next() override;
  base::Result<std::size_t> read(std::span<char> out) override;

 private:
  const engine::blob::BlobStore& blobs_;
  std::string tenant_;
  std::deque<std::pair<provider::TreeEntry, engine::core::PublicDigest>> entries_;
  std::unique_ptr<engine::blob::BlobReader> reader_;
};

/// One small file.
class TextTreeSource final : public provider::TreeSource {
 public:
  TextTreeSource(std::string name, std::string content, bool executable)
      : name_(std::move(name)), content_(std::move(content)), executable_(executable) {}
  base::Result<std::optional<provider::TreeEntry>> next() override;
  base::Result<std::size_t> read(std::span<char> out) override;

 private:
  std::string name_;
  std::string content_;
  bool executable_;
  bool given_ = false;
  std::size_t at_ = 0;
};

/// Takes one file, up to a size. More entries, other types and longer files are errors.
class OneFileSink final : public provider::TreeSink {
 public:
  explicit OneFileSink(std::size_t most) : most_(most) {}
  base::Status begin(const provider::TreeEntry& entry) override;
  base::Status data(std::string_view bytes) override;
  base::Status end() override;

  bool has_file() const { return has_file_; }
  bool executable() const { return executable_; }
  std::string& content() { return content_; }

 private:
  std::size_t most_;
  bool has_file_ = false;
  bool executable_ = false;
  std::string content_;
};

}  // namespace sandglass::sandbox_runtime::manager
