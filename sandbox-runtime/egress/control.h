// The host's side of the proxy: egress.proto on a Unix socket. One host at a time; when it goes, all that it
// had handed over is closed, and the next one sends it anew. Thread rule: everything on the thread that runs
// the io_context.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/egress/proxy.h"

namespace sandglass::sandbox_runtime::egress {

class ControlServer {
 public:
  /// `socket` listens. Peers of other uids than `allowed_uids` are turned away. The proxy outlives this.
  ControlServer(boost::asio::io_context& io, engine::base::UniqueFd socket, std::vector<uid_t> allowed_uids,
                Proxy& proxy);
  ~ControlServer();

  /// Sent to the host if there is one that reads; dropped and counted else.
  void send(const engine::net::Verdict& verdict);
  void send(const Usage& usage);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sandglass::sandbox_runtime::egress
