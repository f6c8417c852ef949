// Trees of files on their way in and out of a sandbox, and their manifest (V13). Plain values and two
// callbacks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"

namespace sandglass::sandbox_runtime::provider {

enum class EntryType : std::uint8_t { file = 1, folder = 2, symlink = 3 };

struct TreeEntry {
  EntryType type = EntryType::file;
  std::string path;         // relative, '/' between parts, no "." or ".."; bytes, perhaps not UTF-8
  bool executable = false;  // of files: the only mode bit that travels
  std::uint64_t size = 0;   // of files: exactly so many bytes follow
  std::string target;       // of symlinks; never resolved by us

  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};

struct ManifestEntry {
  TreeEntry entry;
  engine::base::Hash256 digest;  // of a file's content (SHA-256); zero for others

  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

/// Sorted by path, bytewise. `refused` lists what could not travel (sockets, devices, other file systems).
struct Manifest {
  std::vector<ManifestEntry> entries;
  std::vector<std::string> refused;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Gives a tree piece by piece. Called by one thread at a time, not the caller's.
class TreeSource {
 public:
  virtual ~TreeSource() = default;
  /// The next entry, parents before children; none at the end.
  virtual engine::base::Result<std::optional<TreeEntry>> next() = 0;
  /// Bytes of the current file; 0 at its end.
  virtual engine::base::Result<std::size_t> read(std::span<char> out) = 0;
};

/// Takes a tree piece by piece. Called by one thread at a time, not the caller's. A failure stops the
/// transfer.
class TreeSink {
 public:
  virtual ~TreeSink() = default;
  virtual engine::base::Status begin(const TreeEntry& entry) = 0;
  virtual engine::base::Status data(std::string_view bytes) = 0;
  virtual engine::base::Status end() = 0;
};

}  // namespace sandglass::sandbox_runtime::provider
