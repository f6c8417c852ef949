// A listener on the loopback interface that accepts connections and never says a word.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "engine/base/check.h"
#include "engine/base/unique_fd.h"

namespace sandglass::tests::support {

class SilentListener {
 public:
  SilentListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    auto* address = reinterpret_cast<sockaddr*>(&at);
    socklen_t length = sizeof at;
    SG_CHECK(::bind(socket_.get(), address, length) == 0 && ::listen(socket_.get(), 64) == 0, "bind");
    SG_CHECK(::getsockname(socket_.get(), address, &length) == 0, "getsockname");
    port_ = ntohs(at.sin_port);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  engine::base::UniqueFd socket_;
  int port_ = 0;
};

}  // namespace sandglass::tests::support
