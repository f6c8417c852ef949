// The host's own count of what init has sent and its reader has dealt with: init may have been taken over,
// and what it sends beyond the window would pile up on the connection that carries everybody's calls
// (ADV-B26). Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "sandbox-runtime/frames/init_protocol.h"

namespace sandglass::sandbox_runtime::host {

/// One output stream of an exec.
class OutputFlow {
 public:
  /// The reader goes on at `offset`.
  void attach(std::uint64_t offset) {
    sent_ = taken_ = offset;
    at_end_ = false;
    gaps_.clear();
  }
  void taken(std::uint64_t offset) {
    if (offset <= taken_ || offset > sent_) return;
    taken_ = offset;
    while (!gaps_.empty() && gaps_.front().first <= taken_) gaps_.pop_front();
  }
  /// False: more than the window allows, or out of order. Without bytes it is the mark of the stream's end.
  bool sent(std::uint64_t offset, std::uint64_t size) {
    if (offset < sent_ || offset + size < offset) return false;
    if (offset > sent_) gaps_.emplace_back(offset, offset - sent_);
    sent_ = offset + size;
    at_end_ = size == 0;
    return under_way() <= frames::kOutputWindow && gaps_.size() <= kMostGaps;
  }
  /// Bytes that the reader has not yet said to have taken.
  std::uint64_t under_way() const {
    std::uint64_t bytes = sent_ - taken_;
    for (const auto& [end, skipped] : gaps_) bytes -= std::min(bytes, skipped);
    return bytes;
  }
  bool at_end() const { return at_end_; }

 private:
  static constexpr std::size_t kMostGaps = 4096;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;
  bool at_end_ = false;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> gaps_;  // where each ends, and its size
};

}  // namespace sandglass::sandbox_runtime::host
