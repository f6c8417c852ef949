// A view in memory without a log, as RocksDB is in this mode: a crash loses the newest writes, never a part
// of one. Thread rule: one thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/draw.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/view/view.h"

namespace sandglass::engine::journal::kafka {

class SimView final : public view::View {
 public:
  ViewStore store() {
    return {.view = *this,
            .write = [this](std::span<const std::vector<view::ViewChange>> groups) -> base::Status {
              std::vector<view::ViewChange> all;
              for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
              writes_.push_back(std::move(all));
              apply(writes_.back());
              return {};
            }};
  }
  /// Of the writes that were not flushed a prefix, drawn by chance, is left.
  void crash(base::Random& random) {
    writes_.resize(flushed_ + base::draw_below(random, writes_.size() - flushed_ + 1));
    flushed_ = writes_.size();
    rows_.clear();
    for (const auto& write : writes_) apply(write);
  }
  void flush() { flushed_ = writes_.size(); }
  const std::map<std::string, std::string>& rows() const { return rows_; }

  view::ReadTicket submit(view::ScanRequest) override { return 0; }
  void poll(std::vector<view::ReadAnswer>&) override {}
  base::Result<view::ScanResult> scan_now(const view::ScanRequest& request) const override {
    view::ScanResult result;
    auto first = rows_.lower_bound(request.first);
    auto last = request.last.empty() ? rows_.end() : rows_.lower_bound(request.last);
    while (first != last && result.rows.size() < request.limit) {
      const auto row = request.reverse ? std::prev(last) : first;
      result.rows.push_back({row->first, row->second});
      request.reverse ? --last : ++first;
    }
    result.more = first != last;
    return result;
  }

 private:
  void apply(const std::vector<view::ViewChange>& changes) {
    for (const view::ViewChange& change : changes) {
      if (change.value) {
        rows_[change.key] = *change.value;
      } else {
        rows_.erase(change.key);
      }
    }
  }

  std::vector<std::vector<view::ViewChange>> writes_;
  std::size_t flushed_ = 0;
  std::map<std::string, std::string> rows_;
};

}  // namespace sandglass::engine::journal::kafka
