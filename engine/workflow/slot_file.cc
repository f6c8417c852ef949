#include "engine/workflow/slot_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>

#include "engine/base/crc32c.h"

namespace sandglass::engine::workflow {

namespace {

constexpr std::size_t kStrikeRows = 256;
constexpr char kMagic[8] = {'s', 'g', 's', 'l', 'o', 't', 's', '2'};

constexpr std::uint8_t kFree = 0;
constexpr std::uint8_t kTaken = 0xFF;  // by a thread that has not written it yet

/// 32 bytes. `value` is written last: a kill in between leaves a row without meaning.
struct Row {
  std::uint8_t value;  // kFree, kTaken, or in use; of a strike row the strikes
  char stream[core::StreamId::kBytes];
  char zero[2];
  std::uint32_t step;
  std::uint32_t sum;  // of what is above
  std::uint32_t spare;
};
static_assert(sizeof(Row) == 32);

std::uint32_t sum_of(Row row) {
  return base::crc32c({reinterpret_cast<const char*>(&row), offsetof(Row, sum)});
}

void put(Row& row, std::uint8_t value, const core::RunningCode& code) {
  Row made{};
  made.value = value;
  const std::string bytes = code.stream.bytes();
  std::memcpy(made.stream, bytes.data(), bytes.size());
  made.step = code.step;
  made.sum = sum_of(made);
  std::memcpy(reinterpret_cast<char*>(&row) + 1, reinterpret_cast<const char*>(&made) + 1, sizeof row - 1);
  __atomic_store_n(&row.value, value, __ATOMIC_RELEASE);
}

/// What the row says; nullopt: nothing, or it is damaged.
std::optional<core::RunningCode> code_of(const Row& row) {
  if (row.value == kFree || sum_of(row) != row.sum) return std::nullopt;
  const auto stream = core::StreamId::from_bytes({row.stream, sizeof row.stream});
  if (!stream) return std::nullopt;
  return core::RunningCode{*stream, row.step};
}

}  // namespace

struct SlotFile::Layout {
  char magic[8];
  Row slots[kSlots];
  Row strikes[kStrikeRows];
};

base::Result<std::unique_ptr<SlotFile>> SlotFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Layout)) != 0) {
    const std::string reason = std::strerror(errno);
    if (file >= 0) ::close(file);
    return base::fail(base::Code::io_error, path + ": " + reason);
  }
  void* mapped = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const std::string reason = std::strerror(errno);
  ::close(file);
  if (mapped == MAP_FAILED) return base::fail(base::Code::io_error, path + ": " + reason);
  auto* layout = static_cast<Layout*>(mapped);
  if (std::memcmp(layout->magic, kMagic, sizeof kMagic) != 0) {
    std::memset(mapped, 0, sizeof(Layout));
    std::memcpy(layout->magic, kMagic, sizeof kMagic);
  }
  std::unique_ptr<SlotFile> made(new SlotFile(layout));
  made->count_strikes();
  return made;
}

SlotFile::~SlotFile() {
  ::munmap(layout_, sizeof(Layout));
}

void SlotFile::count_strikes() {
  for (const Row& row : layout_->strikes) {
    if (const auto code = code_of(row)) strikes_[*code] = std::min(row.value, kMaxStrikes);
  }
  // One death is one strike: a step is in two slots while the loop that starts it and a thread of the pool
  // are both at it.
  std::set<core::RunningCode> found;
  for (Row& row : layout_->slots) {
    if (const auto code = code_of(row)) found.insert(*code);
    row.value = kFree;
  }
  for (const core::RunningCode& code : found) {
    std::uint8_t& strikes = strikes_[code];
    if (strikes < kMaxStrikes) ++strikes;
  }
  write_strikes();
}

/// What does not fit is forgotten: the file is an aid, and code that crashes a process is rare.
void SlotFile::write_strikes() {
  std::size_t next = 0;
  for (const auto& [code, strikes] : strikes_) {
    if (next == kStrikeRows) break;
    put(layout_->strikes[next++], strikes, code);
  }
  for (; next < kStrikeRows; ++next) layout_->strikes[next].value = kFree;
  any_strikes_ = !strikes_.empty();
}

std::size_t SlotFile::enter(const core::RunningCode& code) {
  thread_local std::size_t last = 0;  // a thread nearly always gets the slot that it had
  for (std::size_t tried = 0; tried < kSlots; ++tried) {
    const std::size_t slot = (last + tried) % kSlots;
    std::uint8_t expected = kFree;
    if (!__atomic_compare_exchange_n(&layout_->slots[slot].value, &expected, kTaken, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
      continue;
    }
    put(layout_->slots[slot], 1, code);
    last = slot;
    return slot;
  }
  return kSlots;
}

void SlotFile::leave(std::size_t slot) {
  if (slot < kSlots) __atomic_store_n(&layout_->slots[slot].value, kFree, __ATOMIC_RELEASE);
}

bool SlotFile::is_suspect(const core::RunningCode& code) const {
  if (!any_strikes_) return false;
  const std::lock_guard lock(mutex_);
  const auto found = strikes_.find(code);
  return found != strikes_.end() && found->second >= kMaxStrikes;
}

void SlotFile::clear(const core::RunningCode& code) {
  if (!any_strikes_) return;
  const std::lock_guard lock(mutex_);
  if (strikes_.erase(code) > 0) write_strikes();
}

}  // namespace sandglass::engine::workflow
