#include "sandbox-runtime/manager/blob_tree.h"

#include <algorithm>
#include <cstring>

namespace sandglass::sandbox_runtime::manager {

namespace {

constexpr std::size_t kMaxManifest = 32 << 20;

provider::TreeEntry entry_of(const engine::codec::TreeEntry& stored) {
  return {.type = static_cast<provider::EntryType>(stored.type),
          .path = stored.path,
          .executable = stored.executable,
          .size = stored.size,
          .target = stored.target};
}

}  // namespace

base::Result<engine::codec::Tree> load_tree(const engine::blob::BlobStore& blobs, const std::string& tenant,
                                            const std::string& digest_hex) {
  const auto hash = base::Hash256::from_hex(digest_hex);
  if (!hash) return base::fail(base::Code::invalid_argument, "\"tree\" must be 64 hex digits");
  auto bytes = blobs.get(tenant, {*hash}, kMaxManifest);
  if (!bytes) return std::unexpected(bytes.error());
  return engine::codec::decode_tree(*bytes);
}

BlobTreeSource::BlobTreeSource(const engine::blob::BlobStore& blobs, std::string tenant,
                               engine::codec::Tree tree)
    : blobs_(blobs), tenant_(std::move(tenant)) {
  std::set<std::string> folders;
  for (const engine::codec::TreeEntry& stored : tree.entries) {
    // A stored tree may leave out folders that are not empty.
    for (std::size_t slash = stored.path.find('/'); slash != std::string::npos;
         slash = stored.path.find('/', slash + 1)) {
      std::string folder = stored.path.substr(0, slash);
      if (folders.insert(folder).second) {
        entries_.push_back({{.type = provider::EntryType::folder, .path = std::move(folder)}, {}});
      }
    }
    if (stored.type == engine::codec::TreeEntryType::folder && !folders.insert(stored.path).second) continue;
    entries_.push_back({entry_of(stored), {stored.digest}});
  }
}

base::Result<std::optional<provider::TreeEntry>> BlobTreeSource::next() {
  reader_.reset();
  if (entries_.empty()) return std::nullopt;
  auto [entry, digest] = std::move(entries_.front());
  entries_.pop_front();
  if (entry.type == provider::EntryType::file) {
    auto reader = blobs_.open(tenant_, digest);
    if (!reader) return std::unexpected(reader.error());
    reader_ = std::move(*reader);
    if (reader_->size() != entry.size) {
      return base::fail(base::Code::blob_missing, "a stored file has another size than its tree says");
    }
  }
  return entry;
}

base::Result<std::size_t> BlobTreeSource::read(std::span<char> out) {
  if (!reader_) return 0;
  auto piece = reader_->read(out.size());
  if (!piece) return std::unexpected(piece.error());
  std::memcpy(out.data(), piece->data(), piece->size());
  return piece->size();
}

base::Result<std::optional<provider::TreeEntry>> TextTreeSource::next() {
  if (given_) return std::nullopt;
  given_ = true;
  return provider::TreeEntry{
      .type = provider::EntryType::file, .path = name_, .executable = executable_, .size = content_.size()};
}

base::Result<std::size_t> TextTreeSource::read(std::span<char> out) {
  const std::size_t count = std::min(out.size(), content_.size() - at_);
  std::memcpy(out.data(), content_.data() + at_, count);
  at_ += count;
  return count;
}

base::Status OneFileSink::begin(const provider::TreeEntry& entry) {
  if (has_file_ || entry.type != provider::EntryType::file) {
    return base::fail(base::Code::invalid_argument, "it is not a plain file");
  }
  if (entry.size > most_) {
    return base::fail(base::Code::quota_exceeded, "the file has " + std::to_string(entry.size) +
                                                      " bytes, at most " + std::to_string(most_) +
                                                      " are taken");
  }
  has_file_ = true;
  executable_ = entry.executable;
  return {};
}

base::Status OneFileSink::data(std::string_view bytes) {
  if (content_.size() + bytes.size() > most_)
    return base::fail(base::Code::quota_exceeded, "the file is too large");
  content_ += bytes;
  return {};
}

base::Status OneFileSink::end() {
  return {};
}

}  // namespace sandglass::sandbox_runtime::manager
