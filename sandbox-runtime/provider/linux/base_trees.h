// The roots of sandboxes as far as they are alike: a detached, read-only mount tree (root, /usr, /etc, /dev)
// for each kind of template, made once and cloned for each sandbox, which costs some microseconds instead of
// half a millisecond. Root only. Thread rule: any thread.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/plan.h"
#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

class BaseTrees {
 public:
  /// A clone of its own, to be attached by hang_up_base (mounts.h). `hidden`: what is covered below /usr;
  /// `etc`: the shared /etc, a detached mount. Invalid where the kernel cannot do it (before 6.15): the child
  /// then builds its root itself.
  engine::base::UniqueFd clone(const Template& tmpl, const std::vector<BaseEntry>& hidden, int etc);

 private:
  struct Tree {
    std::string key;
    engine::base::UniqueFd root;
  };

  std::mutex mutex_;
  std::list<Tree> trees_;  // the one used last first
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
