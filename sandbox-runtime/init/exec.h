// One command from its start until the host forgets it: process, pipes, output kept by offset (S11, FR-136 to
// FR-146). Driven by the supervisor's loop. Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "engine/base/ports.h"
#include "sandbox-runtime/frames/init_protocol.h"
#include "sandbox-runtime/init/output_ring.h"
#include "sandbox-runtime/init/spawn.h"

namespace sandglass::sandbox_runtime::init {

using engine::base::MonotonicNs;

/// One of the two output streams: what was read, what was sent, what may be sent.
struct Stream {
  Stream(std::size_t limit, RingBudget& budget) : ring(limit, budget) {}

  engine::base::UniqueFd pipe;
  OutputRing ring;
  std::uint64_t sent = 0;   // next offset to send
  std::uint64_t taken = 0;  // the reader has dealt with everything before this
  /// Bytes that were skipped beyond `taken`: where each gap ends, and its size.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> gaps;

  /// Goes on with the next byte that is still kept.
  void skip_dropped();
  void take(std::uint64_t offset);
  /// How many bytes may be sent now.
  std::uint64_t room() const;

  bool watched = false;  // the pipe is in the epoll set
  bool mark_due = true;  // an empty output at the end's offset has to be sent, once the command has ended
};

class Exec {
 public:
  /// `request.leave` given: the child in `spawned` has it.
  Exec(frames::ExecStart request, Spawned spawned, RingBudget& budget, MonotonicNs now);

  std::uint64_t number() const { return request_.number; }
  const std::string& key() const { return request_.key; }
  const frames::Digest& digest() const { return request_.digest; }
  /// Of the command; -1 before it is known (minded) and after its end.
  pid_t pid() const { return pid_; }
  /// The command runs or is about to.
  bool live() const { return !gone_; }
  /// Lives as long as anything of the exec does; -1: not minded, or nothing lives.
  pid_t minder() const { return minder_; }
  /// Let go past the barrier.
  bool started() const { return running_; }
  /// The command has ended and its output is drained, or no longer awaited.
  bool ended() const { return ended_; }

  void go(bool ok, MonotonicNs now);
  void add_stdin(std::string_view bytes);
  void process_ended(int status, MonotonicNs now);
  /// False: it did not end by itself. Whatever it held together is loose now.
  bool minder_ended(int status, MonotonicNs now);
  void attach(std::uint64_t out_offset, std::uint64_t err_offset, MonotonicNs now);
  void detach();
  void output_taken(int stream, std::uint64_t offset, MonotonicNs now);

  /// Descriptor work; each is called when its descriptor is ready.
  void read_output(int stream, MonotonicNs now);
  void write_stdin();
  void read_minder(MonotonicNs now);

  /// Settles what time decides. Returns when to call again, if ever.
  std::optional<MonotonicNs> settle(MonotonicNs now);
  /// The next packet of output that may go, if any.
  std::optional<std::string> next_output(MonotonicNs now);
  /// True once after the end came about, and again after each attach.
  bool take_end_due() { return ended_ && std::exchange(end_due_, false); }
  frames::ExecEnd end() const;
  frames::ExecState state(std::uint64_t asked, MonotonicNs now) const;

  /// Whether the loop should watch the descriptor now.
  bool wants_output(int stream) const;
  bool wants_stdin() const { return static_cast<bool>(in_) && !stdin_.empty(); }
  int output_fd(int stream) const { return stream == 1 ? out_.pipe.get() : err_.pipe.get(); }
  int stdin_fd() const { return in_.get(); }
  int minder_fd() const { return minder_words_.get(); }
  Stream& stream(int number) { return number == 1 ? out_ : err_; }
  bool stdin_watched = false;
  bool minder_watched = false;

  /// Gives the rings' memory back; only of an ended exec.
  void release_output();
  std::size_t memory() const { return out_.ring.memory() + err_.ring.memory(); }
  MonotonicNs ended_at() const { return ended_at_; }

 private:
  bool slowed(const Stream& stream) const;
  std::size_t readable(const Stream& stream, std::size_t most) const;
  void finish(MonotonicNs now);
  void read_failure();

  frames::ExecStart request_;
  pid_t pid_;
  pid_t minder_ = -1;
  engine::base::UniqueFd in_, command_, failure_, minder_words_;
  Stream out_, err_;
  std::string stdin_;        // not yet written
  std::uint64_t stdin_due_;  // not yet come
  bool attached_ = true;
  bool gone_ = false;  // the process has ended
  bool ended_ = false;
  bool end_due_ = false;
  bool running_ = false;  // let go
  std::int32_t exit_code_ = -1;
  std::int32_t signal_ = 0;
  std::uint64_t cpu_ns_ = 0;
  StartFailure start_failure_;
  MonotonicNs started_at_;
  MonotonicNs gone_at_ = 0;
  MonotonicNs ended_at_ = 0;
  MonotonicNs progress_at_;  // the reader of the output last did something
  bool stalled_ = false;
  bool pipes_open_ = false;
};

}  // namespace sandglass::sandbox_runtime::init
