// Port: what runs in this process right now, kept where a crash cannot take it (J13). Code that ended the
// process three times is a suspect: it is not run again before an operator resumes its run.
//
// Thread rule: any thread; a slot is left by the thread that entered it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/codes.h"
#include "engine/core/stream_id.h"

namespace sandglass::engine::core {

/// What a run is stuck with whose code is a suspect.
inline constexpr base::Code kCrashesCode = base::Code::activation_blocked;

/// Workflow code of a run, or one of its in-process steps.
struct RunningCode {
  StreamId stream;
  std::uint32_t step = 0;  // 0: workflow code; else a hash of the step's path

  static RunningCode of_step(const StreamId& stream, std::string_view path) {
    std::uint32_t hash = 0x811C9DC5;  // FNV-1a
    for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
    return {stream, hash == 0 ? 1 : hash};
  }
  friend auto operator<=>(const RunningCode&, const RunningCode&) = default;
};

class Running {
 public:
  virtual ~Running() = default;
  /// The slot that it got, for leave().
  virtual std::size_t enter(const RunningCode& code) = 0;
  virtual void leave(std::size_t slot) = 0;

  /// The process has ended while it ran as often as is borne.
  virtual bool is_suspect(const RunningCode& code) const = 0;
  /// It came back, or was parked for an operator to resume: it has its restarts again.
  virtual void clear(const RunningCode& code) = 0;
};

}  // namespace sandglass::engine::core
