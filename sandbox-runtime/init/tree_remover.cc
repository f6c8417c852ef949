#include "sandbox-runtime/init/tree_remover.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace sandglass::sandbox_runtime::init {

using engine::base::UniqueFd;

namespace {

/// A million files and folders' worth; a tree that grows faster than it is removed must not be removed for
/// ever.
constexpr std::uint64_t kMostCalls = 10'000'000;
constexpr std::uint64_t kCallsPerItem = 6;
constexpr int kNameTries = 100;

const dirent* next_item(DIR* folder) {
  while (const dirent* item = ::readdir(folder)) {
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") return item;
  }
  return nullptr;
}

/// A file or an empty folder.
bool remove_simple(int folder, const char* name) {
  return ::unlinkat(folder, name, 0) == 0 || ::unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

}  // namespace

void TreeRemover::add(UniqueFd folder, std::string name) {
  Tree tree;
  tree.folder = std::move(folder);
  tree.name = std::move(name);
  tree.calls_left = kMostCalls;
  trees_.push_back(std::move(tree));
}

void TreeRemover::step(std::size_t calls) {
  const AsUser as_user(identity_);
  for (std::uint64_t used = 0; used < calls && !trees_.empty(); used += kCallsPerItem) {
    Tree& tree = trees_.front();
    const bool more = tree.calls_left >= kCallsPerItem && (tree.top ? next(tree) : open(tree));
    tree.calls_left -= std::min(tree.calls_left, kCallsPerItem);
    if (!more) trees_.pop_front();
  }
}

bool TreeRemover::open(Tree& tree) {
  if (remove_simple(tree.folder.get(), tree.name.c_str()) || errno == ENOENT) return false;
  UniqueFd top = open_contained(tree.folder.get(), tree.name, O_RDONLY | O_DIRECTORY);
  if (!top) return false;
  tree.top.reset(::fdopendir(top.get()));
  if (tree.top) (void)top.release();
  return static_cast<bool>(tree.top);
}

/// Goes over what lies directly in the tree's folder, again and again: folders there are emptied, and the
/// folders found in them come up to lie there, too. So the tree gets flat from above, and no path is ever
/// long.
bool TreeRemover::next(Tree& tree) {
  if (tree.below) return empty_below(tree), true;
  const int top = ::dirfd(tree.top.get());
  const dirent* item = next_item(tree.top.get());
  if (item == nullptr) {
    if (::unlinkat(tree.folder.get(), tree.name.c_str(), AT_REMOVEDIR) == 0 || !tree.progress) return false;
    ::rewinddir(tree.top.get());
    tree.progress = false;
    return true;
  }
  if (remove_simple(top, item->d_name)) {
    tree.progress = true;
    return true;
  }
  // a folder that forbids it to its owner would otherwise stay
  ::fchmodat(top, item->d_name, 0700, 0);
  UniqueFd below = open_contained(top, item->d_name, O_RDONLY | O_DIRECTORY);
  if (!below) return true;
  tree.below.reset(::fdopendir(below.get()));
  if (!tree.below) return true;
  (void)below.release();
  tree.below_name = item->d_name;
  return true;
}

void TreeRemover::empty_below(Tree& tree) {
  const int top = ::dirfd(tree.top.get());
  const int below = ::dirfd(tree.below.get());
  const dirent* item = next_item(tree.below.get());
  if (item == nullptr) {
    if (::unlinkat(top, tree.below_name.c_str(), AT_REMOVEDIR) == 0) tree.progress = true;
    tree.below.reset();
    return;
  }
  if (remove_simple(below, item->d_name)) {
    tree.progress = true;
    return;
  }
  ::fchmodat(below, item->d_name, 0700, 0);
  for (int tries = 0; tries < kNameTries; ++tries) {
    const std::string up = ".up-" + std::to_string(tree.fresh++);
    if (::renameat(below, item->d_name, top, up.c_str()) == 0) {
      tree.progress = true;
      return;
    }
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return;
  }
}

}  // namespace sandglass::sandbox_runtime::init
