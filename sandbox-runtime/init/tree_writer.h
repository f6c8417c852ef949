// A tree that comes in: made beside its place, then renamed in, so that a part of it is never visible (V13).
// Folders that meet folders are merged; anything else that is in the way is replaced, links included, never
// followed (FR-149, FR-152). Single-threaded; blocking file calls only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/frames/tree_stream.h"
#include "sandbox-runtime/init/contained.h"
#include "sandbox-runtime/init/content_hash.h"
#include "sandbox-runtime/init/tree_remover.h"

namespace sandglass::sandbox_runtime::init {

struct TreeLimits {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

class TreeWriter final : public frames::TreeVisitor {
 public:
  /// Makes the folder beside, under a name with `tag` in it. `remover`, which outlives this, gets what is
  /// left of it.
  static engine::base::Result<std::unique_ptr<TreeWriter>> open(const std::string& workspace,
                                                                const std::string& path, std::uint64_t tag,
                                                                TreeLimits limits, Identity identity,
                                                                TreeRemover& remover);
  /// Removes what was made beside, if the tree did not come to its end.
  ~TreeWriter() override;

  /// Takes bytes of the stream. After a failure only destruction is allowed.
  engine::base::Status feed(std::string_view bytes);
  bool finished() const { return decoder_.finished(); }
  std::uint64_t entries() const { return entries_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  TreeWriter(TreeLimits limits, Identity identity, TreeRemover& remover)
      : limits_(limits), identity_(identity), remover_(remover) {}
  void give_to_remover();
  engine::base::Status begin(Place place, std::uint64_t tag);
  engine::base::Status entry(const frames::TreeHeader& header) override;
  engine::base::Status data(std::string_view piece) override;
  engine::base::Status file_end(frames::FileState state, const frames::Digest& digest) override;
  engine::base::Status end(std::uint64_t entries, std::uint64_t bytes) override;
  engine::base::Status enter_parent(std::string_view path, std::string& name);
  engine::base::Status merge_folder(const std::string& below, std::vector<std::string>& later);
  engine::base::Status merge_entry(int from, int to, const std::string& below, const std::string& name,
                                   std::vector<std::string>& later);

  TreeLimits limits_;
  Identity identity_;
  TreeRemover& remover_;
  frames::TreeDecoder decoder_{*this};
  engine::base::UniqueFd anchor_;  // the deepest folder on the way to the place that exists
  std::string stage_name_;         // in anchor_; empty once the remover has it
  engine::base::UniqueFd stage_;
  engine::base::UniqueFd content_;  // in stage_, below the folders that did not exist
  engine::base::UniqueFd parent_;   // of the entries at hand
  std::string parent_path_;
  bool has_parent_ = false;
  engine::base::UniqueFd file_;
  std::string file_path_;
  ContentHash hash_;
  std::uint64_t entries_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace sandglass::sandbox_runtime::init
