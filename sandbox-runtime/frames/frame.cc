#include "sandbox-runtime/frames/frame.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace sandglass::sandbox_runtime::frames {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

namespace {

constexpr std::size_t kReadStep = std::size_t{64} << 10;
constexpr std::size_t kMaxDescriptors = 16;
constexpr std::size_t kCoalesce = std::size_t{64} << 10;

std::uint32_t load_length(const char* at) {
  std::array<unsigned char, kFrameHeader> raw;
  std::memcpy(raw.data(), at, raw.size());
  return std::uint32_t{raw[0]} << 24 | std::uint32_t{raw[1]} << 16 | std::uint32_t{raw[2]} << 8 | raw[3];
}

std::string errno_text(const char* what, int error) {
  return std::string(what) + ": " + std::strerror(error);
}

/// Takes the descriptors out of a received message. False: more came than anyone may send.
bool collect(const msghdr& message, std::deque<UniqueFd>& held) {
  for (const cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(item))) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof fd);
      held.emplace_back(fd);
    }
  }
  return held.size() <= kMaxDescriptors && (message.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace

Status FrameReader::check_length() const {
  if (buffer_.size() - begin_ < kFrameHeader) return {};
  const std::uint32_t length = load_length(buffer_.data() + begin_);
  if (length <= max_payload_) return {};
  return fail(Code::frame_malformed, "a frame of " + std::to_string(length) + " bytes is over the limit of " +
                                         std::to_string(max_payload_) + "; the connection is closed");
}

void FrameReader::compact() {
  begin_ += consumed_;
  consumed_ = 0;
  if (begin_ == buffer_.size()) {
    buffer_.clear();
    begin_ = 0;
  } else if (begin_ >= kReadStep) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
}

Result<Io> FrameReader::fill(int fd, std::size_t budget) {
  compact();
  while (budget > 0) {
    // Never hold more than one frame at its limit and one step of what follows it.
    if (buffered() > max_payload_ + kFrameHeader) return Io::again;
    const std::size_t step = std::min(budget, kReadStep);
    const std::size_t before = buffer_.size();
    // without writing zeros over what is about to be read
    buffer_.resize_and_overwrite(before + step, [](char*, std::size_t size) { return size; });
    iovec part{buffer_.data() + before, step};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptors_ == Descriptors::accept) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
    }
    ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const int error = errno;
    if (got < 0 && error == ECONNRESET) got = 0;  // an end too: what we had sent was left unread
    buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) {
      if (error == EINTR) continue;
      if (error == EAGAIN || error == EWOULDBLOCK) return Io::again;
      return fail(Code::io_error, errno_text("recvmsg", error));
    }
    if (descriptors_ == Descriptors::accept && !collect(message, descriptors_held_)) {
      return fail(Code::frame_malformed, "the peer sent too many descriptors; the connection is closed");
    }
    if (got == 0) {
      if (!partial()) return Io::closed;
      // Whole frames may still wait in the buffer; the end is reported again once they are taken.
      if (buffered() >= kFrameHeader && buffered() >= kFrameHeader + load_length(buffer_.data() + begin_)) {
        return Io::again;
      }
      return fail(Code::frame_malformed, "the peer closed the connection inside a frame");
    }
    if (auto status = check_length(); !status) return std::unexpected(status.error());
    budget -= static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) < step && descriptors_ == Descriptors::drop) return Io::again;
  }
  return Io::again;
}

Result<std::optional<std::string_view>> FrameReader::next() {
  begin_ += consumed_;
  consumed_ = 0;
  if (buffered() < kFrameHeader) return std::nullopt;
  if (auto status = check_length(); !status) return std::unexpected(status.error());
  const std::size_t length = load_length(buffer_.data() + begin_);
  if (buffered() < kFrameHeader + length) return std::nullopt;
  consumed_ = kFrameHeader + length;
  return std::string_view(buffer_).substr(begin_ + kFrameHeader, length);
}

UniqueFd FrameReader::take_descriptor() {
  if (descriptors_held_.empty()) return {};
  UniqueFd first = std::move(descriptors_held_.front());
  descriptors_held_.pop_front();
  return first;
}

Status FrameWriter::push(std::string_view payload) {
  return push(payload, {});
}

Status FrameWriter::push(std::string_view payload, const std::vector<int>& descriptors) {
  if (payload.size() > max_payload_) {
    return fail(Code::invalid_argument, "a frame of " + std::to_string(payload.size()) +
                                            " bytes is over the limit of " + std::to_string(max_payload_));
  }
  if (queued_ + payload.size() > max_queued_ && !queue_.empty()) {
    return fail(Code::overloaded,
                "the peer does not read; " + std::to_string(queued_) + " bytes wait for it");
  }
  std::vector<UniqueFd> copies;
  for (int fd : descriptors) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!copies.back()) return fail(Code::io_error, errno_text("duplicating a descriptor", errno));
  }
  const auto length = static_cast<std::uint32_t>(payload.size());
  const char header[kFrameHeader] = {static_cast<char>(length >> 24), static_cast<char>(length >> 16),
                                     static_cast<char>(length >> 8), static_cast<char>(length)};
  // A piece in the middle of being sent may grow: only its end moves.
  if (queue_.empty() || !copies.empty() || queue_.back().bytes.size() >= kCoalesce) {
    queue_.push_back(Piece{{}, std::move(copies)});
  }
  queue_.back().bytes.append(header, kFrameHeader).append(payload);
  queued_ += kFrameHeader + payload.size();
  return {};
}

Result<std::size_t> FrameWriter::send_front(int fd) {
  Piece& piece = queue_.front();
  iovec part{piece.bytes.data() + sent_, piece.bytes.size() - sent_};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> control{};
  if (sent_ == 0 && !piece.descriptors.empty()) {
    const std::size_t bytes = sizeof(int) * piece.descriptors.size();
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(bytes);
    for (std::size_t i = 0; i < piece.descriptors.size(); ++i) {
      const int raw = piece.descriptors[i].get();
      std::memcpy(CMSG_DATA(item) + i * sizeof(int), &raw, sizeof raw);
    }
  }
  const ssize_t put = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (put >= 0) return static_cast<std::size_t>(put);
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
  if (errno == EPIPE || errno == ECONNRESET)
    return fail(Code::unavailable, "the peer has closed the connection");
  return fail(Code::io_error, errno_text("sendmsg", errno));
}

Result<bool> FrameWriter::flush(int fd) {
  while (!queue_.empty()) {
    auto put = send_front(fd);
    if (!put) return std::unexpected(put.error());
    if (*put == 0) return false;
    queue_.front().descriptors.clear();
    sent_ += *put;
    queued_ -= *put;
    if (sent_ < queue_.front().bytes.size()) continue;
    queue_.pop_front();
    sent_ = 0;
  }
  return true;
}

}  // namespace sandglass::sandbox_runtime::frames
