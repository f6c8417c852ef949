// A tree that goes out: walked in name order, hashed on the way, given in pieces of bounded size (V13). Never
// follows a link, never opens anything but plain files and folders, reads at most the size that a file had
// when it was opened (ADV-A5, FR-156). Single-threaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/frames/tree_stream.h"
#include "sandbox-runtime/init/contained.h"
#include "sandbox-runtime/init/content_hash.h"
#include "sandbox-runtime/init/tree_writer.h"

namespace sandglass::sandbox_runtime::init {

class TreeReader {
 public:
  /// `content` false: digests without content.
  static engine::base::Result<std::unique_ptr<TreeReader>> open(const std::string& workspace,
                                                                const std::string& path, bool content,
                                                                TreeLimits limits, Identity identity);

  /// Appends to `out` until it has about `wanted` bytes, or a bounded piece of work is done without making
  /// any. quota_exceeded: the tree is over its limits.
  engine::base::Status produce(std::string& out, std::size_t wanted);
  bool finished() const { return finished_; }
  std::uint64_t entries() const { return entries_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Level {
    std::string path;  // of the folder, relative to the root of the walk
    std::vector<std::string> names;
    std::size_t next = 0;
  };
  TreeReader(bool content, TreeLimits limits, Identity identity)
      : content_(content), limits_(limits), identity_(identity) {}
  engine::base::Status begin(Place place);
  engine::base::Status next_entry(std::string& out);
  engine::base::Status visit(std::string& out, const std::string& name, const std::string& path);
  engine::base::Status begin_file(std::string& out, const std::string& name, const std::string& path);
  engine::base::Status file_piece(std::string& out);
  void file_done(std::string& out, bool changed);
  engine::base::Status enter(std::string& out, const std::string& path);
  void refuse(std::string& out, const std::string& path, std::string why);
  engine::base::Status count(std::uint64_t bytes);

  bool content_;
  TreeLimits limits_;
  Identity identity_;
  engine::base::UniqueFd root_;
  std::vector<Level> levels_;
  std::size_t names_held_ = 0;     // bytes of all names in levels_
  engine::base::UniqueFd folder_;  // of levels_.back()
  bool folder_current_ = false;
  engine::base::UniqueFd file_;
  frames::TreeHeader file_header_;
  std::uint64_t file_left_ = 0;
  ContentHash hash_;
  std::uint64_t entries_ = 0;
  std::uint64_t bytes_ = 0;
  bool finished_ = false;
};

}  // namespace sandglass::sandbox_runtime::init
