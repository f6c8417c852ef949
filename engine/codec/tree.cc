#include "engine/codec/tree.h"

#include <algorithm>

#include "engine/base/text.h"
#include "engine/codec/common.h"
#include "schemas/sandglass/record/v1/tree.pb.h"

namespace sandglass::engine::codec {

namespace {

using base::Code;

constexpr std::uint32_t kTreeFormat = 1;
constexpr std::size_t kMaxPath = 4095;
constexpr std::size_t kMaxPart = 255;

std::unexpected<base::Error> refused(std::string_view path, const char* why) {
  return base::fail(Code::path_refused,
                    "the path " + base::quote_for_terminal(path.substr(0, 200)) + " is refused: " + why);
}

/// Every entry's parents must be folders where they have an entry of their own.
base::Status check_shape(const std::vector<TreeEntry>& sorted) {
  for (const TreeEntry& entry : sorted) {
    if (auto checked = check_tree_path(entry.path); !checked) return checked;
    for (auto slash = entry.path.find('/'); slash != std::string::npos;
         slash = entry.path.find('/', slash + 1)) {
      const std::string_view parent = std::string_view(entry.path).substr(0, slash);
      const auto found = std::ranges::lower_bound(sorted, parent, {}, &TreeEntry::path);
      if (found != sorted.end() && found->path == parent && found->type != TreeEntryType::folder) {
        return refused(entry.path, "it lies below something that is not a folder");
      }
    }
  }
  const auto same = [](const TreeEntry& a, const TreeEntry& b) { return a.path == b.path; };
  const auto twice = std::ranges::adjacent_find(sorted, same);
  if (twice != sorted.end()) return refused(twice->path, "the tree has it twice");
  return {};
}

}  // namespace

base::Status check_tree_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath) return refused(path, "it must have 1 to 4,095 bytes");
  if (path.find('\0') != std::string_view::npos) return refused(path, "it has a NUL byte");
  std::string_view rest = path;
  for (;;) {
    const auto slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty()) return refused(path, "it is absolute or has an empty part");
    if (part == "." || part == "..") return refused(path, "it has a part '.' or '..'");
    if (part.size() > kMaxPart) return refused(path, "a part is longer than 255 bytes");
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

base::Result<std::string> encode_tree(Tree tree) {
  std::ranges::sort(tree.entries, {}, &TreeEntry::path);
  if (auto checked = check_shape(tree.entries); !checked) return std::unexpected(checked.error());
  proto::StoredTree stored;
  stored.set_format(kTreeFormat);
  for (const TreeEntry& entry : tree.entries) {
    auto& out = *stored.add_entries();
    out.set_type(static_cast<proto::StoredTreeType>(entry.type));
    out.set_path(entry.path);
    out.set_executable(entry.executable);
    out.set_size(entry.size);
    out.set_digest(hash_bytes(entry.digest));
    out.set_target(entry.target);
  }
  return stored.SerializeAsString();
}

base::Result<Tree> decode_tree(std::string_view bytes) {
  proto::StoredTree stored;
  if (!stored.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return base::fail(Code::record_damaged, "a stored tree does not parse");
  }
  if (stored.format() != kTreeFormat || has_unknown_fields(stored)) {
    return base::fail(Code::format_unknown, "a stored tree is of a newer format; start a newer Sandglass");
  }
  Tree tree;
  for (const auto& entry : stored.entries()) {
    if (entry.type() < proto::STORED_TREE_TYPE_FILE || entry.type() > proto::STORED_TREE_TYPE_SYMLINK) {
      return base::fail(Code::format_unknown,
                        "a stored tree has an entry of a newer type; start a newer Sandglass");
    }
    auto digest = hash_from(entry.digest());
    if (!digest) return std::unexpected(digest.error());
    tree.entries.push_back({.type = static_cast<TreeEntryType>(entry.type()),
                            .path = entry.path(),
                            .executable = entry.executable(),
                            .size = entry.size(),
                            .digest = *digest,
                            .target = entry.target()});
  }
  if (!std::ranges::is_sorted(tree.entries, {}, &TreeEntry::path)) {
    return base::fail(Code::record_damaged, "a stored tree is not sorted");
  }
  if (auto checked = check_shape(tree.entries); !checked) return std::unexpected(checked.error());
  return tree;
}

}  // namespace sandglass::engine::codec
