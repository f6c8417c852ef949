#include "sandbox-runtime/provider/linux/base_trees.h"

#include <fcntl.h>

#include <algorithm>

#include "sandbox-runtime/provider/linux/machine_base.h"
#include "sandbox-runtime/provider/linux/mounts.h"
#include "sandbox-runtime/provider/linux/seccomp_filter.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::UniqueFd;

/// Templates beyond this number make the one that was not used for longest be made again.
constexpr std::size_t kMost = 16;

UniqueFd build(const Template& tmpl, const std::vector<BaseEntry>& hidden, int etc) {
  std::vector<BaseEntry> entries = machine_base(tmpl);
  entries.insert(entries.end(), hidden.begin(), hidden.end());
  const auto plan = seal_plan({}, build_filter(), entries);
  if (!plan) return {};
  const MappedPlan mapped(plan->get());
  const UniqueFd own_etc = clone_detached(etc);
  UniqueFd root;
  if (!mapped.view() || !own_etc || build_base(*mapped.view(), own_etc.get(), root) != 0) return {};
  return root;
}

}  // namespace

UniqueFd BaseTrees::clone(const Template& tmpl, const std::vector<BaseEntry>& hidden, int etc) {
  const std::string key = machine_base_key(tmpl);
  const std::lock_guard lock(mutex_);
  auto found = std::ranges::find(trees_, key, &Tree::key);
  if (found == trees_.end()) {
    UniqueFd root = build(tmpl, hidden, etc);
    if (!root) return {};
    trees_.push_front({key, std::move(root)});
    if (trees_.size() > kMost) trees_.pop_back();
    found = trees_.begin();
  }
  trees_.splice(trees_.begin(), trees_, found);
  return clone_tree(trees_.front().root.get());
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
