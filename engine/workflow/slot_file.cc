#include "engine/workflow/slot_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace sandglass::engine::workflow {

namespace {

constexpr std::size_t kStrikeRows = 256;
constexpr char kMagic[8] = {'s', 'g', 's', 'l', 'o', 't', 's', '1'};

/// 24 bytes: used (or strikes), stream, zeros.
struct Row {
  std::uint8_t value;
  char stream[core::StreamId::kBytes];
  char padding[6];
};
static_assert(sizeof(Row) == 24);

void put(Row& row, std::uint8_t value, const core::StreamId& stream) {
  const std::string bytes = stream.bytes();
  std::memcpy(row.stream, bytes.data(), bytes.size());
  // The value last: a kill in between leaves a free row.
  __atomic_store_n(&row.value, value, __ATOMIC_RELEASE);
}

std::optional<core::StreamId> stream_of(const Row& row) {
  return core::StreamId::from_bytes({row.stream, sizeof row.stream});
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
    const auto stream = stream_of(row);
    if (row.value != 0 && stream) strikes_[*stream] = row.value;
  }
  for (Row& row : layout_->slots) {
    const auto stream = stream_of(row);
    if (row.value != 0 && stream) {
      std::uint8_t& strikes = strikes_[*stream];
      if (strikes < kMaxStrikes) ++strikes;
    }
    row.value = 0;
  }
  write_strikes();
}

/// What does not fit is forgotten: the file is an aid, and runs that crash a process are few.
void SlotFile::write_strikes() {
  std::size_t next = 0;
  for (const auto& [stream, strikes] : strikes_) {
    if (next == kStrikeRows) break;
    put(layout_->strikes[next++], strikes, stream);
  }
  for (; next < kStrikeRows; ++next) layout_->strikes[next].value = 0;
}

void SlotFile::enter(std::size_t slot, const core::StreamId& stream) {
  put(layout_->slots[slot % kSlots], 1, stream);
}

void SlotFile::leave(std::size_t slot, const core::StreamId& stream) {
  __atomic_store_n(&layout_->slots[slot % kSlots].value, std::uint8_t{0}, __ATOMIC_RELEASE);
  clear_strikes(stream);
}

bool SlotFile::is_suspect(const core::StreamId& stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = strikes_.find(stream);
  return found != strikes_.end() && found->second >= kMaxStrikes;
}

void SlotFile::clear_strikes(const core::StreamId& stream) {
  const std::lock_guard lock(mutex_);
  if (strikes_.erase(stream) > 0) write_strikes();
}

}  // namespace sandglass::engine::workflow
