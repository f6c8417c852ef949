#include "engine/server/control.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace sandglass::engine::server {

namespace {

constexpr std::size_t kMaxMessage = 4096;

std::unexpected<base::Error> failed(const char* what) {
  return base::fail(base::Code::unavailable, std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

base::Result<std::pair<base::UniqueFd, base::UniqueFd>> ControlChannel::make_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return failed("socketpair");
  return std::pair(base::UniqueFd(ends[0]), base::UniqueFd(ends[1]));
}

base::Status ControlChannel::send(std::string_view text, int fd) {
  text = text.substr(0, kMaxMessage);
  iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  msghdr message{.msg_iov = &part, .msg_iovlen = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  if (fd >= 0) {
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  while (sendmsg(fd_.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return failed("sendmsg");
  }
  return {};
}

base::Result<std::optional<ControlMessage>> ControlChannel::receive() {
  std::array<char, kMaxMessage> text{};
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.data(), .msg_controllen = space.size()};
  ssize_t got = 0;
  while ((got = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) return failed("recvmsg");
  }
  if (got == 0) return base::fail(base::Code::unavailable, "the other end has closed");
  ControlMessage received{.text = std::string(text.data(), static_cast<std::size_t>(got))};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
    received.fd.reset(fd);
  }
  return received;
}

}  // namespace sandglass::engine::server
