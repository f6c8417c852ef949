// Removes trees a piece at a time, between the other work of the loop, however deep or wide they are and
// whatever goes on in them meanwhile (ADV-A14): without recursion, without following a link, with three
// descriptors a tree at most. What cannot be removed stays; what grows without end is given up.
// Single-threaded.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/init/contained.h"

namespace sandglass::sandbox_runtime::init {

class TreeRemover {
 public:
  explicit TreeRemover(Identity identity) : identity_(identity) {}

  /// `name` in `folder`, with everything below it.
  void add(engine::base::UniqueFd folder, std::string name);
  bool idle() const { return trees_.empty(); }
  /// About `calls` system calls' worth of it.
  void step(std::size_t calls);

 private:
  using Stream = std::unique_ptr<DIR, int (*)(DIR*)>;
  struct Tree {
    engine::base::UniqueFd folder;
    std::string name;
    Stream top{nullptr, &::closedir};    // the tree's own folder
    Stream below{nullptr, &::closedir};  // a folder in it that is being emptied
    std::string below_name;
    std::uint64_t fresh = 0;  // number of the next name for what comes up
    std::uint64_t calls_left = 0;
    bool progress = false;  // in this pass over `top`
  };
  /// False: it is over.
  bool open(Tree& tree);
  bool next(Tree& tree);
  void empty_below(Tree& tree);

  Identity identity_;
  std::deque<Tree> trees_;
};

}  // namespace sandglass::sandbox_runtime::init
