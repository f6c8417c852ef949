#include "sandbox-runtime/provider/linux/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "engine/base/check.h"
#include "sandbox-runtime/provider/launcher.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::UniqueFd;

int raise_loopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
}

int open_listener(UniqueFd& listener) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kProxyPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return errno;
  if (::listen(socket.get(), 128) != 0) return errno;
  listener = std::move(socket);
  return 0;
}

int make_network(bool with_listener, Network& made) {
  constexpr const char* kHere = "/proc/thread-self/ns/net";
  const UniqueFd home(::open(kHere, O_RDONLY | O_CLOEXEC));
  if (!home || ::unshare(CLONE_NEWNET) != 0) return errno;
  const auto build = [&]() -> int {
    made.space.reset(::open(kHere, O_RDONLY | O_CLOEXEC));
    if (!made.space) return errno;
    if (const int error = raise_loopback()) return error;
    return with_listener ? open_listener(made.listener) : 0;
  };
  const int error = build();
  SG_CHECK(::setns(home.get(), CLONE_NEWNET) == 0, "a thread cannot leave a sandbox's network namespace");
  return error;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
