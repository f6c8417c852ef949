#include "sandbox-runtime/egress/egress.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/base/socket_path.h"
#include "engine/base/system_ports.h"
#include "engine/net/codec/network_codec.h"
#include "engine/net/dialer.h"
#include "sandbox-runtime/egress/control.h"
#include "sandbox-runtime/egress/proxy.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

namespace asio = boost::asio;
using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::UniqueFd;

ProxyLimits to_limits(const frame::v1::EgressLimits& frame) {
  ProxyLimits limits;
  const auto take = [](auto value, auto& target) {
    if (value > 0) target = static_cast<std::remove_reference_t<decltype(target)>>(value);
  };
  take(frame.max_connections(), limits.max_connections);
  take(frame.max_head_bytes(), limits.head.max_bytes);
  take(frame.max_header_count(), limits.head.max_count);
  take(frame.max_body_bytes(), limits.max_body_bytes);
  take(frame.max_lease_bytes(), limits.max_lease_bytes);
  take(frame.max_host_bytes(), limits.max_host_bytes);
  take(frame.head_timeout_ms(), limits.head_timeout_ms);
  take(frame.request_timeout_ms(), limits.request_timeout_ms);
  take(frame.idle_timeout_ms(), limits.idle_timeout_ms);
  take(frame.tunnel_timeout_ms(), limits.tunnel_timeout_ms);
  return limits;
}

}  // namespace

// In this order: what comes later uses what comes before.
struct Egress::Parts {
  Parts(engine::net::NetworkSettings settings, ProxyLimits limits, UniqueFd socket,
        std::vector<uid_t> host_uids, UniqueFd resolver_changes)
      : gate(std::move(settings), clock),
        dialer(gate, clock, std::move(resolver_changes)),
        context{.io = io,
                .gate = gate,
                .dialer = dialer,
                .clock = clock,
                .limits = limits,
                .on_verdict = [this](const engine::net::Verdict& verdict) { control.send(verdict); },
                .on_usage = [this](const Usage& usage) { control.send(usage); }},
        proxy(context),
        control(io, std::move(socket), std::move(host_uids), proxy) {}

  ~Parts() { proxy.clear(); }  // its last words go through `control`

  engine::base::SystemClock clock;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  engine::net::Gate gate;
  engine::net::Dialer dialer;
  ProxyContext context;
  Proxy proxy;
  ControlServer control;
};

Egress::Egress(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Egress::~Egress() = default;

Result<std::unique_ptr<Egress>> Egress::make(const frame::v1::NetworkConfig& config, UniqueFd control,
                                             std::vector<uid_t> host_uids, UniqueFd resolver_changes) {
  auto settings = engine::net::codec::to_settings(config);
  if (!settings) return std::unexpected(settings.error());
  return std::unique_ptr<Egress>(
      new Egress(std::make_unique<Parts>(std::move(*settings), to_limits(config.egress()), std::move(control),
                                         std::move(host_uids), std::move(resolver_changes))));
}

void Egress::run() {
  parts_->io.run();
}

void Egress::stop() {
  parts_->io.stop();
}

Result<UniqueFd> listen_on_path(const std::string& path) {
  const auto address = engine::base::SocketPath::make(path);
  if (!address) return std::unexpected(address.error());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat found{};
  if (::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) ::unlink(path.c_str());
  const mode_t mask = ::umask(0177);
  const bool bound = socket && ::bind(socket.get(), address->address(), address->size()) == 0;
  const int error = errno;
  ::umask(mask);
  if (!bound || ::listen(socket.get(), 8) != 0) {
    return fail(Code::io_error, "cannot listen at " + path + ": " + std::strerror(bound ? errno : error));
  }
  return socket;
}

}  // namespace sandglass::sandbox_runtime::egress
