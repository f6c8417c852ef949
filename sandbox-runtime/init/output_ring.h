// The first and the last bytes of one output stream, by offset from the stream's beginning (FR-140). Grows
// with what really comes, up to its limit and as far as the budget shared by all rings allows; then the
// oldest bytes after the head go. Up to `limit` bytes nothing is lost. Single-threaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandglass::sandbox_runtime::init {

/// Memory that all rings of this process may hold together.
struct RingBudget {
  std::size_t left = 0;
};

class OutputRing {
 public:
  OutputRing(std::size_t limit, RingBudget& budget);
  ~OutputRing() { release(); }
  OutputRing(const OutputRing&) = delete;
  OutputRing& operator=(const OutputRing&) = delete;

  void append(std::string_view bytes);
  /// The longest piece that starts at `offset` and lies together; empty at the end, and where bytes were
  /// dropped.
  std::string_view at(std::uint64_t offset) const;
  /// The least offset from `offset` on that is kept.
  std::uint64_t next_kept(std::uint64_t offset) const;

  std::uint64_t total() const { return total_; }
  /// Bytes that are kept nowhere any more.
  std::uint64_t dropped() const { return total_ - held_ > head_.size() ? total_ - held_ - head_.size() : 0; }
  /// So many bytes that were not yet sent may wait without a loss.
  std::size_t room() const { return tail_limit_; }
  /// Bytes of memory behind this ring.
  std::size_t memory() const { return tail_.size() + head_.size(); }
  /// Lets everything go that it holds; total() stays.
  void release();

 private:
  void grow(std::size_t wanted);

  std::size_t head_limit_;
  std::size_t tail_limit_;
  RingBudget& budget_;
  std::string head_;
  std::vector<char> tail_;
  std::uint64_t total_ = 0;
  std::size_t held_ = 0;  // in tail_
  std::size_t end_ = 0;   // where the next byte goes
};

}  // namespace sandglass::sandbox_runtime::init
