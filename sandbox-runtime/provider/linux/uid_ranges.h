// Ranges of 65,536 numbers, one for each sandbox made as root (V3). Thread rule: any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace sandglass::sandbox_runtime::provider::linux_jail {

inline constexpr std::uint32_t kUidRange = 65536;
inline constexpr std::uint32_t kFirstUid = 1u << 19;
inline constexpr std::uint32_t kLastUid = 1u << 31;

class UidRanges {
 public:
  /// Ranges that /etc/subuid or /etc/subgid gives to users are never taken. `start` spreads the data folders
  /// of one machine over the numbers.
  explicit UidRanges(std::uint32_t start);

  /// A base that this object has not given out; none if there is none left.
  std::optional<std::uint32_t> take();
  /// A base that an adopted sandbox has already.
  void mark(std::uint32_t base);
  void give_back(std::uint32_t base);

 private:
  struct Taken {
    std::uint64_t first;
    std::uint64_t count;
  };
  bool is_foreign(std::uint32_t base) const;

  std::mutex mutex_;
  std::set<std::uint32_t> used_;
  std::vector<Taken> foreign_;
  std::uint32_t next_;
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
