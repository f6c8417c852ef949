// "Now running", written where a crash cannot take it: a small mapped file with a slot for each thread that
// runs workflow code or an in-process step (J13). A process that starts counts a strike against all that it
// finds in slots, one however many slots it is in: it was running when the former process ended. At three
// strikes it is a suspect, and its run is parked as stuck instead of running it again.
//
// Thread rule: open() first, by one thread; then as the port. Errors: io_error. The file survives SIGKILL
// (the page cache keeps a mapped write), not power loss, which no code causes. A damaged row is an empty one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/result.h"
#include "engine/core/ports/running.h"

namespace sandglass::engine::workflow {

inline constexpr std::uint8_t kMaxStrikes = 3;

class SlotFile final : public core::Running {
 public:
  static base::Result<std::unique_ptr<SlotFile>> open(const std::string& path);
  ~SlotFile() override;
  SlotFile(const SlotFile&) = delete;
  SlotFile& operator=(const SlotFile&) = delete;

  /// Of threads at once; what is entered beyond is not watched.
  static constexpr std::size_t kSlots = 256;

  std::size_t enter(const core::RunningCode& code) override;
  void leave(std::size_t slot) override;
  bool is_suspect(const core::RunningCode& code) const override;
  void clear(const core::RunningCode& code) override;

 private:
  struct Layout;

  explicit SlotFile(Layout* layout) : layout_(layout) {}
  void count_strikes();
  void write_strikes();

  Layout* layout_;
  std::atomic<bool> any_strikes_{false};  // so that nobody waits for the mutex when there are none
  mutable std::mutex mutex_;
  std::map<core::RunningCode, std::uint8_t> strikes_;
};

}  // namespace sandglass::engine::workflow
