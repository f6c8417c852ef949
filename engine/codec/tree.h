// Stored trees: the manifest blob that an upload makes, that a run's input names, and from which a sandbox is
// filled. File contents are blobs of their own, named by SHA-256.
//
// Thread rule: pure functions. Errors: record_damaged, format_unknown, path_refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"

namespace sandglass::engine::codec {

enum class TreeEntryType : std::uint8_t { file = 1, folder = 2, symlink = 3 };

struct TreeEntry {
  TreeEntryType type = TreeEntryType::file;
  std::string path;  // relative, '/' between parts
  bool executable = false;
  std::uint64_t size = 0;
  base::Hash256 digest;  // of a file's content
  std::string target;    // of a symlink

  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};

/// Sorted by path, bytewise; a folder that is not empty need not have an entry of its own.
struct Tree {
  std::vector<TreeEntry> entries;
};

/// path_refused unless `path` is relative, at most 4,095 bytes, without empty, "." and ".." parts and NUL,
/// each part at most 255 bytes. The message shows the path escaped.
base::Status check_tree_path(std::string_view path);

/// Sorts the entries; equal trees give equal bytes. Refused: two entries of one path, an entry below a file
/// or symlink.
base::Result<std::string> encode_tree(Tree tree);
base::Result<Tree> decode_tree(std::string_view bytes);

}  // namespace sandglass::engine::codec
