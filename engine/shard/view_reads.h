// Reads of the view as calls with a continuation. One per View: its answers come in any order and are routed
// here.
//
// Thread rule: one thread. Ownership: the view outlives this. Continuations run inside poll() only and may
// read more.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/view/view.h"

namespace sandglass::engine::shard {

class ViewReads {
 public:
  using ScanDone = std::move_only_function<void(base::Result<view::ScanResult>)>;
  using GetDone = std::move_only_function<void(base::Result<std::optional<std::string>>)>;

  explicit ViewReads(view::View& view) : view_(view) {}

  void scan(view::ScanRequest request, ScanDone done);
  void get(std::string key, GetDone done);

  /// Returns whether there was an answer.
  bool poll();
  /// Forgets all continuations without calling them; late answers are dropped.
  void abandon_all() { waiting_.clear(); }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  view::View& view_;
  std::unordered_map<view::ReadTicket, ScanDone> waiting_;
  std::vector<view::ReadAnswer> answers_;
};

}  // namespace sandglass::engine::shard
