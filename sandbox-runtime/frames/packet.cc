#include "sandbox-runtime/frames/packet.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace sandglass::sandbox_runtime::frames {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;

Result<Received> receive_packet(int fd, std::span<char> buffer) {
  while (true) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received{};
    if (got < 0 && errno == ECONNRESET) return Received{Receive::closed, {}};
    if (got < 0) return fail(Code::io_error, std::string("recv: ") + std::strerror(errno));
    if (got == 0) return Received{Receive::closed, {}};
    const auto size = static_cast<std::size_t>(got);
    if (size > buffer.size()) {
      return fail(Code::frame_malformed, "a packet of " + std::to_string(size) +
                                             " bytes is over the limit of " + std::to_string(buffer.size()));
    }
    return Received{Receive::packet, std::string_view(buffer.data(), size)};
  }
}

Status PacketWriter::push(std::string packet) {
  if (queued_ + packet.size() > max_queued_ && !queue_.empty()) {
    return fail(Code::overloaded,
                "the peer does not read; " + std::to_string(queued_) + " bytes wait for it");
  }
  queued_ += packet.size();
  queue_.push_back(std::move(packet));
  return {};
}

Result<bool> PacketWriter::flush(int fd) {
  while (!queue_.empty()) {
    const std::string& packet = queue_.front();
    if (::send(fd, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
      if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
        return fail(Code::unavailable, "the peer has closed the connection");
      }
      return fail(Code::io_error, std::string("send: ") + std::strerror(errno));
    }
    queued_ -= packet.size();
    queue_.pop_front();
  }
  return true;
}

void PacketWriter::clear() {
  queue_.clear();
  queued_ = 0;
}

}  // namespace sandglass::sandbox_runtime::frames
