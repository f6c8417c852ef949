#include "sandbox-runtime/init/output_ring.h"

#include <algorithm>
#include <cstring>

namespace sandglass::sandbox_runtime::init {

namespace {
constexpr std::size_t kFirst = 4096;
}

void OutputRing::grow(std::size_t wanted) {
  if (wanted <= buffer_.size() || buffer_.size() >= limit_) return;
  std::size_t size = std::max(buffer_.size(), kFirst);
  while (size < wanted && size < limit_) size *= 2;
  size = std::min(size, limit_);
  size = std::min(size, buffer_.size() + budget_.left);
  if (size <= buffer_.size()) return;
  std::vector<char> larger(size);
  std::size_t copied = 0;
  while (copied < held_) {
    const std::string_view piece = at(oldest() + copied);
    std::memcpy(larger.data() + copied, piece.data(), piece.size());
    copied += piece.size();
  }
  budget_.left -= size - buffer_.size();
  buffer_.swap(larger);
  end_ = held_ % buffer_.size();
}

void OutputRing::append(std::string_view bytes) {
  if (bytes.empty()) return;
  grow(std::min(limit_, held_ + bytes.size()));
  total_ += bytes.size();
  if (buffer_.empty()) return;
  if (bytes.size() > buffer_.size()) bytes.remove_prefix(bytes.size() - buffer_.size());
  held_ = std::min(buffer_.size(), held_ + bytes.size());
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), buffer_.size() - end_);
    std::memcpy(buffer_.data() + end_, bytes.data(), part);
    end_ = (end_ + part) % buffer_.size();
    bytes.remove_prefix(part);
  }
}

std::string_view OutputRing::at(std::uint64_t offset) const {
  const std::uint64_t after = total_ - offset;  // bytes from `offset` to the end
  if (after == 0 || after > held_) return {};
  const std::size_t begin = (end_ + buffer_.size() - static_cast<std::size_t>(after)) % buffer_.size();
  return {buffer_.data() + begin, std::min(static_cast<std::size_t>(after), buffer_.size() - begin)};
}

void OutputRing::release() {
  budget_.left += buffer_.size();
  buffer_ = {};
  held_ = 0;
  end_ = 0;
}

}  // namespace sandglass::sandbox_runtime::init
