#include "sandbox-runtime/egress/control.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <optional>
#include <string>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/net/codec/network_codec.h"
#include "sandbox-runtime/frames/frame.h"
#include "schemas/sandglass/frame/v1/egress.pb.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

namespace asio = boost::asio;
namespace pb = ::sandglass::frame::v1;
using engine::base::Code;
using engine::base::LogLevel;
using engine::base::UniqueFd;
using Descriptor = asio::posix::stream_descriptor;

constexpr std::size_t max_frame = 1 << 20;
constexpr std::size_t max_queued = 4 << 20;
constexpr std::size_t max_events = max_queued / 2;  // however many there are, replies find room

void fill(const ProxyCounters& counters, pb::EgressCounters& frame) {
  frame.set_accepted(counters.accepted);
  frame.set_allowed(counters.allowed);
  frame.set_refused(counters.refused);
  frame.set_open_connections(counters.open_connections);
  frame.set_bytes_out(counters.bytes_out);
  frame.set_bytes_in(counters.bytes_in);
}

bool is_from(const UniqueFd& connection, const std::vector<uid_t>& uids) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return std::ranges::find(uids, peer.uid) != uids.end();
}

}  // namespace

struct ControlServer::Impl : std::enable_shared_from_this<Impl> {
  /// A connected host.
  struct Host {
    explicit Host(asio::io_context& io) : descriptor(io) {}
    Descriptor descriptor;
    frames::FrameReader reader{max_frame, frames::Descriptors::accept};
    frames::FrameWriter writer{max_frame, max_queued};
    bool writing = false;
  };

  Impl(asio::io_context& the_io, std::vector<uid_t> uids, Proxy& the_proxy)
      : io(the_io), listener(the_io), allowed_uids(std::move(uids)), proxy(the_proxy) {}

  void wait_for_host();
  void read(const std::shared_ptr<Host>& of);
  void push(const pb::EgressMessage& message);
  void flush(const std::shared_ptr<Host>& of);
  void lose_host(const std::string& why);
  void carry_out(const pb::EgressRequest& request, UniqueFd descriptor);
  engine::base::Status dispatch(const pb::EgressRequest& request, UniqueFd descriptor,
                                pb::EgressReply& reply);
  engine::base::Status begin_lease(const pb::EgressBeginLease& wanted);

  asio::io_context& io;
  Descriptor listener;
  std::vector<uid_t> allowed_uids;
  Proxy& proxy;
  std::shared_ptr<Host> host;
  std::uint64_t dropped = 0;
};

ControlServer::ControlServer(asio::io_context& io, UniqueFd socket, std::vector<uid_t> allowed_uids,
                             Proxy& proxy)
    : impl_(std::make_shared<Impl>(io, std::move(allowed_uids), proxy)) {
  boost::system::error_code error;
  impl_->listener.assign(socket.release(), error);
  impl_->listener.non_blocking(true, error);
  impl_->wait_for_host();
}

ControlServer::~ControlServer() {
  boost::system::error_code ignored;
  impl_->listener.close(ignored);
  if (impl_->host) impl_->host->descriptor.close(ignored);
  impl_->host = nullptr;
}

void ControlServer::send(const engine::net::Verdict& verdict) {
  pb::EgressMessage message;
  *message.mutable_verdict() = engine::net::codec::to_frame(verdict);
  impl_->push(message);
}

void ControlServer::send(const Usage& usage) {
  pb::EgressMessage message;
  auto& frame = *message.mutable_usage();
  frame.set_sandbox(usage.sandbox);
  frame.set_token(usage.token);
  frame.set_host(usage.target.host.text);
  frame.set_port(usage.target.port);
  frame.set_method(usage.method);
  frame.set_bytes_out(usage.bytes_out);
  frame.set_bytes_in(usage.bytes_in);
  frame.set_duration_ms(usage.duration_ms);
  frame.set_http_status(static_cast<std::uint32_t>(usage.http_status));
  impl_->push(message);
}

void ControlServer::Impl::wait_for_host() {
  listener.async_wait(Descriptor::wait_read, [self = shared_from_this()](boost::system::error_code error) {
    if (error) return;
    UniqueFd connection(
        ::accept4(self->listener.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) return self->wait_for_host();
    if (!is_from(connection, self->allowed_uids)) {
      engine::base::log(LogLevel::warning, "egress_peer_refused", {});
      return self->wait_for_host();
    }
    self->host = std::make_shared<Host>(self->io);
    boost::system::error_code assigned;
    self->host->descriptor.assign(connection.release(), assigned);
    engine::base::log(LogLevel::info, "egress_host_connected", {});
    self->read(self->host);  // the next host is accepted when this one has gone
  });
}

void ControlServer::Impl::read(const std::shared_ptr<Host>& of) {
  of->descriptor.async_wait(
      Descriptor::wait_read, [self = shared_from_this(), of](boost::system::error_code error) {
        if (error || self->host != of) return;
        const auto filled = of->reader.fill(of->descriptor.native_handle());
        if (!filled) return self->lose_host(filled.error().message);
        for (;;) {
          auto frame = of->reader.next();
          if (!frame) return self->lose_host(frame.error().message);
          if (!*frame) break;
          pb::EgressRequest request;
          if (!request.ParseFromArray((*frame)->data(), static_cast<int>((*frame)->size()))) {
            return self->lose_host("a frame is not an EgressRequest");
          }
          UniqueFd descriptor;
          if (request.has_add_listener()) descriptor = of->reader.take_descriptor();
          self->carry_out(request, std::move(descriptor));
          if (self->host != of) return;
        }
        if (*filled == frames::Io::closed) return self->lose_host("");
        self->read(of);
      });
}

void ControlServer::Impl::lose_host(const std::string& why) {
  engine::base::log(why.empty() ? LogLevel::info : LogLevel::warning, "egress_host_gone", {{"reason", why}});
  boost::system::error_code ignored;
  host->descriptor.close(ignored);
  host = nullptr;
  proxy.clear();
  wait_for_host();
}

void ControlServer::Impl::carry_out(const pb::EgressRequest& request, UniqueFd descriptor) {
  pb::EgressMessage message;
  pb::EgressReply& reply = *message.mutable_reply();
  reply.set_id(request.id());
  if (const auto status = dispatch(request, std::move(descriptor), reply); !status) {
    reply.set_code(static_cast<std::uint32_t>(status.error().code));
    reply.set_message(status.error().message);
  }
  if (request.has_add_listener()) SG_CRASH_POINT("egress.listener_added");
  if (request.has_begin_lease()) SG_CRASH_POINT("egress.lease_begun");
  if (request.has_end_lease()) SG_CRASH_POINT("egress.lease_ended");
  push(message);
}

engine::base::Status ControlServer::Impl::dispatch(const pb::EgressRequest& request, UniqueFd descriptor,
                                                   pb::EgressReply& reply) {
  switch (request.body_case()) {
    case pb::EgressRequest::kAddListener:
      return proxy.add_listener(request.add_listener().sandbox(), std::move(descriptor));
    case pb::EgressRequest::kRemoveListener:
      return proxy.remove_listener(request.remove_listener().sandbox());
    case pb::EgressRequest::kBeginLease:
      return begin_lease(request.begin_lease());
    case pb::EgressRequest::kSetRules: {
      auto rules = engine::net::codec::to_rules(request.set_rules().rules());
      if (!rules) return std::unexpected(rules.error());
      return proxy.set_rules(request.set_rules().sandbox(), request.set_rules().token(), std::move(*rules));
    }
    case pb::EgressRequest::kEndLease: {
      const auto ended = proxy.end_lease(request.end_lease().sandbox(), request.end_lease().token());
      if (!ended) return std::unexpected(ended.error());
      fill(*ended, *reply.mutable_counters());
      return {};
    }
    case pb::EgressRequest::kStatus:
      fill(proxy.counters(), *reply.mutable_counters());
      reply.mutable_counters()->set_events_dropped(dropped);
      return {};
    case pb::EgressRequest::BODY_NOT_SET:
      break;
  }
  return engine::base::fail(Code::invalid_argument, "a request that this proxy does not know");
}

engine::base::Status ControlServer::Impl::begin_lease(const pb::EgressBeginLease& wanted) {
  auto rules = engine::net::codec::to_rules(wanted.rules());
  if (!rules) return std::unexpected(rules.error());
  return proxy.begin_lease({.sandbox = wanted.sandbox(),
                            .token = wanted.token(),
                            .run = wanted.run(),
                            .policy = wanted.policy(),
                            .rules = std::move(*rules)});
}

void ControlServer::Impl::push(const pb::EgressMessage& message) {
  if (!host) {
    ++dropped;
    return;
  }
  const bool room = message.has_reply() || host->writer.queued() < max_events;
  if (!room || !host->writer.push(message.SerializeAsString())) {
    ++dropped;
    if (message.has_reply()) lose_host("it does not read its replies");
    return;
  }
  if (!host->writing) flush(host);
}

void ControlServer::Impl::flush(const std::shared_ptr<Host>& of) {
  const auto flushed = of->writer.flush(of->descriptor.native_handle());
  of->writing = flushed && !*flushed;  // a peer that has gone is noticed by the reading side
  if (!of->writing) return;
  of->descriptor.async_wait(Descriptor::wait_write,
                            [self = shared_from_this(), of](boost::system::error_code error) {
                              if (!error && self->host == of) self->flush(of);
                            });
}

}  // namespace sandglass::sandbox_runtime::egress
