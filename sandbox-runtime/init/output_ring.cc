#include "sandbox-runtime/init/output_ring.h"

#include <algorithm>
#include <cstring>

namespace sandglass::sandbox_runtime::init {

namespace {
constexpr std::size_t kFirst = 4096;
constexpr std::size_t kMostHead = std::size_t{16} << 10;
}  // namespace

OutputRing::OutputRing(std::size_t limit, RingBudget& budget)
    : head_limit_(std::min(kMostHead, limit / 4)), tail_limit_(limit - head_limit_), budget_(budget) {}

void OutputRing::grow(std::size_t wanted) {
  if (wanted <= tail_.size() || tail_.size() >= tail_limit_) return;
  std::size_t size = std::max(tail_.size(), kFirst);
  while (size < wanted && size < tail_limit_) size *= 2;
  size = std::min(size, tail_limit_);
  size = std::min(size, tail_.size() + budget_.left);
  if (size <= tail_.size()) return;
  std::vector<char> larger(size);
  std::size_t copied = 0;
  while (copied < held_) {
    const std::size_t begin = (end_ + tail_.size() - (held_ - copied)) % tail_.size();
    const std::size_t part = std::min(held_ - copied, tail_.size() - begin);
    std::memcpy(larger.data() + copied, tail_.data() + begin, part);
    copied += part;
  }
  budget_.left -= size - tail_.size();
  tail_.swap(larger);
  end_ = held_ % tail_.size();
}

void OutputRing::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (head_.size() == total_ && head_.size() < head_limit_) {
    const std::size_t part = std::min({bytes.size(), head_limit_ - head_.size(), budget_.left});
    head_.append(bytes.substr(0, part));
    budget_.left -= part;
    total_ += part;
    bytes.remove_prefix(part);
    if (bytes.empty()) return;
  }
  grow(std::min(tail_limit_, held_ + bytes.size()));
  total_ += bytes.size();
  if (tail_.empty()) return;
  if (bytes.size() > tail_.size()) bytes.remove_prefix(bytes.size() - tail_.size());
  held_ = std::min(tail_.size(), held_ + bytes.size());
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), tail_.size() - end_);
    std::memcpy(tail_.data() + end_, bytes.data(), part);
    end_ = (end_ + part) % tail_.size();
    bytes.remove_prefix(part);
  }
}

std::string_view OutputRing::at(std::uint64_t offset) const {
  if (offset < head_.size()) return std::string_view(head_).substr(static_cast<std::size_t>(offset));
  if (offset >= total_ || total_ - offset > held_) return {};
  const auto after = static_cast<std::size_t>(total_ - offset);  // bytes from `offset` to the end
  const std::size_t begin = (end_ + tail_.size() - after) % tail_.size();
  return {tail_.data() + begin, std::min(after, tail_.size() - begin)};
}

std::uint64_t OutputRing::next_kept(std::uint64_t offset) const {
  return offset < head_.size() ? offset : std::max(offset, total_ - held_);
}

void OutputRing::release() {
  budget_.left += memory();
  head_.clear();
  head_.shrink_to_fit();
  head_limit_ = 0;
  tail_ = {};
  held_ = 0;
  end_ = 0;
}

}  // namespace sandglass::sandbox_runtime::init
