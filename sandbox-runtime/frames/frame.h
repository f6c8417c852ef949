// Frames on a Unix stream socket: 4 bytes of length, big-endian, then that many bytes. Reader and writer are
// state machines over a non-blocking descriptor that they do not own; the caller's epoll loop says when to go
// on. Everything is bounded: a length over the limit is refused as soon as it is read, memory grows only with
// bytes that really came, and partial() lets the loop end a peer that never finishes a frame (ADV-B26).
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::frames {

constexpr std::size_t kFrameHeader = 4;
constexpr std::size_t kDefaultMaxFrame = std::size_t{1} << 20;

/// What one pass over the socket did.
enum class Io : std::uint8_t {
  again,   // nothing more now; wait for the descriptor
  closed,  // the peer closed between two frames
};

/// Whether descriptors that arrive are kept. Dropping is the kernel's work: without room for them they are
/// never installed in this process (ADV-B22).
enum class Descriptors : std::uint8_t { drop, accept };

class FrameReader {
 public:
  explicit FrameReader(std::size_t max_payload = kDefaultMaxFrame,
                       Descriptors descriptors = Descriptors::drop)
      : max_payload_(max_payload), descriptors_(descriptors) {}

  /// Reads until the socket is empty or `budget` bytes came (fairness: the rest waits for the next pass).
  /// frame_malformed: a length over the limit, too many descriptors, or an end inside a frame. io_error: the
  /// socket failed. After an error the reader is of no more use.
  engine::base::Result<Io> fill(int fd, std::size_t budget = std::size_t{256} << 10);

  /// The next whole frame's payload; valid until the next call of fill() or next(). Nothing: more bytes are
  /// needed. frame_malformed when the next frame's length is over the limit.
  engine::base::Result<std::optional<std::string_view>> next();

  /// Descriptors that came, oldest first. A message that carries one takes it here; empty when none came with
  /// it.
  engine::base::UniqueFd take_descriptor();

  /// True while a frame has begun and is not whole.
  bool partial() const { return buffer_.size() > begin_; }
  /// Bytes held now.
  std::size_t buffered() const { return buffer_.size() - begin_; }

 private:
  engine::base::Status check_length() const;
  void compact();

  std::size_t max_payload_;
  Descriptors descriptors_;
  std::string buffer_;
  std::size_t begin_ = 0;     // first byte that belongs to the next frame
  std::size_t consumed_ = 0;  // bytes of the frame handed out by next(), dropped at the following call
  std::deque<engine::base::UniqueFd> descriptors_held_;
};

class FrameWriter {
 public:
  /// `max_queued` bounds what push() accepts while the peer does not read.
  explicit FrameWriter(std::size_t max_payload = kDefaultMaxFrame,
                       std::size_t max_queued = std::size_t{8} << 20)
      : max_payload_(max_payload), max_queued_(max_queued) {}

  /// Queues one frame. overloaded: the queue is full, nothing was queued. invalid_argument: over the frame
  /// limit.
  engine::base::Status push(std::string_view payload);
  /// As push; a duplicate of each descriptor travels with the frame, so the caller keeps its own.
  engine::base::Status push(std::string_view payload, const std::vector<int>& descriptors);

  /// Writes until all is out or the socket is full. True: all is out. unavailable: the peer has gone.
  engine::base::Result<bool> flush(int fd);

  bool empty() const { return queue_.empty(); }
  std::size_t queued() const { return queued_; }

 private:
  struct Piece {
    std::string bytes;  // one or several whole frames; those with descriptors begin a piece
    std::vector<engine::base::UniqueFd> descriptors;
  };
  engine::base::Result<std::size_t> send_front(int fd);

  std::size_t max_payload_;
  std::size_t max_queued_;
  std::deque<Piece> queue_;
  std::size_t sent_ = 0;  // of the front piece
  std::size_t queued_ = 0;
};

}  // namespace sandglass::sandbox_runtime::frames
