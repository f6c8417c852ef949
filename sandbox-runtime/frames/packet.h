// Packets on a SOCK_SEQPACKET pair: whole messages or nothing. Non-blocking; the descriptor is the caller's.
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::sandbox_runtime::frames {

/// Room for a packet. It takes memory where bytes have come, and no time before.
class PacketBuffer {
 public:
  explicit PacketBuffer(std::size_t size)
      : bytes_(std::make_unique_for_overwrite<char[]>(size)), size_(size) {}
  operator std::span<char>() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

enum class Receive : std::uint8_t { packet, again, closed };

struct Received {
  Receive what = Receive::again;
  std::string_view packet;  // lies in the buffer that was given
};

/// One packet, if there is one. frame_malformed: it was larger than the buffer. Descriptors that come with it
/// are dropped by the kernel (ADV-B22).
engine::base::Result<Received> receive_packet(int fd, std::span<char> buffer);

/// Packets on their way out, in order; small ones wait here when the socket is full.
class PacketWriter {
 public:
  explicit PacketWriter(std::size_t max_queued) : max_queued_(max_queued) {}

  /// overloaded: too many bytes wait already, nothing was queued.
  engine::base::Status push(std::string packet);
  /// Sends until all is out or the socket is full. True: all is out. unavailable: the peer has gone.
  engine::base::Result<bool> flush(int fd);
  bool empty() const { return queue_.empty(); }
  std::size_t queued() const { return queued_; }
  void clear();

 private:
  std::size_t max_queued_;
  std::deque<std::string> queue_;
  std::size_t queued_ = 0;
};

}  // namespace sandglass::sandbox_runtime::frames
