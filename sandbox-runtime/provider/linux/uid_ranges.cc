#include "sandbox-runtime/provider/linux/uid_ranges.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

constexpr std::uint32_t kRanges = (kLastUid - kFirstUid) / kUidRange;

}  // namespace

UidRanges::UidRanges(std::uint32_t start) : next_(start % kRanges) {
  for (const char* path : {"/etc/subuid", "/etc/subgid"}) {
    std::istringstream lines(read_file(path).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::ranges::replace(line, ':', ' ');
      std::istringstream words(line);
      std::string user;
      Taken taken{};
      if (words >> user >> taken.first >> taken.count) foreign_.push_back(taken);
    }
  }
}

bool UidRanges::is_foreign(std::uint32_t base) const {
  return std::ranges::any_of(foreign_, [base](const Taken& taken) {
    return base < taken.first + taken.count && taken.first < std::uint64_t{base} + kUidRange;
  });
}

std::optional<std::uint32_t> UidRanges::take() {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t tried = 0; tried < kRanges; ++tried) {
    const std::uint32_t base = kFirstUid + next_ * kUidRange;
    next_ = (next_ + 1) % kRanges;
    if (!is_foreign(base) && used_.insert(base).second) return base;
  }
  return std::nullopt;
}

void UidRanges::mark(std::uint32_t base) {
  const std::lock_guard lock(mutex_);
  used_.insert(base);
}

void UidRanges::give_back(std::uint32_t base) {
  const std::lock_guard lock(mutex_);
  used_.erase(base);
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
