// "Now running", written where a crash cannot take it: a small mapped file with a slot for each thread that
// runs workflow code or an in-process step (J13). A process that starts counts a strike against each run that
// it finds in a slot: it was running when the former process ended. At three strikes the run is a suspect and
// is parked as stuck instead of being run again.
//
// Thread rule: open() first, by one thread; then each slot belongs to one thread, and is_suspect() and
// clear_strikes() are callable from any. Errors: io_error. The file survives SIGKILL (the page cache keeps a
// mapped write), not power loss, which no workflow code causes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/result.h"
#include "engine/core/stream_id.h"

namespace sandglass::engine::workflow {

inline constexpr std::uint8_t kMaxStrikes = 3;

class SlotFile {
 public:
  static base::Result<std::unique_ptr<SlotFile>> open(const std::string& path);
  ~SlotFile();
  SlotFile(const SlotFile&) = delete;
  SlotFile& operator=(const SlotFile&) = delete;

  static constexpr std::size_t kSlots = 64;

  void enter(std::size_t slot, const core::StreamId& stream);
  /// The run came back: it is cleared of what it was suspected of.
  void leave(std::size_t slot, const core::StreamId& stream);
  bool is_suspect(const core::StreamId& stream) const;
  /// An operator resumed it.
  void clear_strikes(const core::StreamId& stream);

 private:
  struct Layout;

  explicit SlotFile(Layout* layout) : layout_(layout) {}
  void count_strikes();
  void write_strikes();

  Layout* layout_;
  mutable std::mutex mutex_;
  std::map<core::StreamId, std::uint8_t> strikes_;
};

}  // namespace sandglass::engine::workflow
