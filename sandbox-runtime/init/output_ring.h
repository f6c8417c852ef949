// The last bytes of one output stream, by offset from the stream's beginning. Grows with what really comes,
// up to its limit and as far as the budget shared by all rings allows; then the oldest bytes go.
// Single-threaded.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sandglass::sandbox_runtime::init {

/// Memory that all rings of this process may hold together.
struct RingBudget {
  std::size_t left = 0;
};

class OutputRing {
 public:
  OutputRing(std::size_t limit, RingBudget& budget) : limit_(limit), budget_(budget) {}
  ~OutputRing() { release(); }
  OutputRing(const OutputRing&) = delete;
  OutputRing& operator=(const OutputRing&) = delete;

  void append(std::string_view bytes);
  /// The longest piece that starts at `offset` and lies together; empty at the end. `offset` must be in
  /// [oldest(), total()].
  std::string_view at(std::uint64_t offset) const;

  std::uint64_t total() const { return total_; }
  std::uint64_t oldest() const { return total_ - held_; }
  std::size_t limit() const { return limit_; }
  /// Bytes of memory behind this ring.
  std::size_t memory() const { return buffer_.size(); }
  /// Lets everything go that it holds; total() stays.
  void release();

 private:
  void grow(std::size_t wanted);

  std::size_t limit_;
  RingBudget& budget_;
  std::vector<char> buffer_;
  std::uint64_t total_ = 0;
  std::size_t held_ = 0;
  std::size_t end_ = 0;  // where the next byte goes
};

}  // namespace sandglass::sandbox_runtime::init
