#include "sandbox-runtime/egress/proxy.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>

#include "engine/base/log.h"
#include "sandbox-runtime/egress/refusal.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

namespace asio = boost::asio;
using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

constexpr auto accept_pause = std::chrono::milliseconds(100);
constexpr int accepts_in_a_row = 16;

struct Sandbox {
  explicit Sandbox(asio::io_context& io) : listener(io), pause(io) {}

  std::string name;
  asio::posix::stream_descriptor listener;
  asio::steady_timer pause;
  std::shared_ptr<Lease> lease;
  std::uint64_t highest_token = 0;
  bool accepting = false;  // from the first lease on; what came to a kept listener before waits for it (N8)
  std::set<std::shared_ptr<Session>> sessions;
};

bool is_listening_stream(int fd) {
  int listening = 0;
  int type = 0;
  socklen_t length = sizeof listening;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0) return false;
  length = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && listening == 1 && type == SOCK_STREAM;
}

void add(ProxyCounters& sum, const ProxyCounters& part) {
  sum.accepted += part.accepted;
  sum.allowed += part.allowed;
  sum.refused += part.refused;
  sum.bytes_out += part.bytes_out;
  sum.bytes_in += part.bytes_in;
}

/// A new connection that gets no session. A fresh socket's buffer takes these few bytes at once.
void turn_away(const UniqueFd& connection, const std::string& response) {
  ::send(connection.get(), response.data(), response.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(connection.get(), SHUT_WR);
}

}  // namespace

struct Proxy::Impl : std::enable_shared_from_this<Impl> {
  explicit Impl(const ProxyContext& the_context) : context(the_context) {}

  void wait(const std::shared_ptr<Sandbox>& sandbox);
  void accept_some(const std::shared_ptr<Sandbox>& sandbox);
  void take(const std::shared_ptr<Sandbox>& sandbox, UniqueFd connection);
  void close_sessions(Sandbox& sandbox);
  void drop_lease(Sandbox& sandbox);
  void tell_rest(Lease& lease) const;
  Result<std::shared_ptr<Sandbox>> find(const std::string& name) const;

  const ProxyContext& context;
  std::map<std::string, std::shared_ptr<Sandbox>> sandboxes;
  ProxyCounters past;  // of ended leases
};

Proxy::Proxy(const ProxyContext& context) : impl_(std::make_shared<Impl>(context)) {}

Proxy::~Proxy() {
  clear();
}

Result<std::shared_ptr<Sandbox>> Proxy::Impl::find(const std::string& name) const {
  const auto found = sandboxes.find(name);
  if (found == sandboxes.end()) return fail(Code::not_found, "the proxy has no listener of sandbox " + name);
  return found->second;
}

Status Proxy::add_listener(const std::string& name, UniqueFd listener) {
  if (name.empty()) return fail(Code::invalid_argument, "a listener needs its sandbox's name");
  if (!listener.valid() || !is_listening_stream(listener.get())) {
    return fail(Code::invalid_argument, "the descriptor is not a listening stream socket");
  }
  std::uint64_t highest = 0;
  if (const auto former = impl_->find(name)) {
    highest = (*former)->highest_token;
    (void)remove_listener(name);
  }
  auto sandbox = std::make_shared<Sandbox>(impl_->context.io);
  sandbox->name = name;
  sandbox->highest_token = highest;
  boost::system::error_code error;
  sandbox->listener.assign(listener.get(), error);
  if (error) return fail(Code::io_error, "the listener cannot be watched: " + error.message());
  listener.release();
  sandbox->listener.non_blocking(true, error);
  impl_->sandboxes[name] = sandbox;
  return {};
}

Status Proxy::remove_listener(const std::string& name) {
  const auto sandbox = impl_->find(name);
  if (!sandbox) return std::unexpected(sandbox.error());
  boost::system::error_code ignored;
  (*sandbox)->listener.close(ignored);
  (*sandbox)->pause.cancel();
  impl_->drop_lease(**sandbox);
  impl_->sandboxes.erase(name);
  return {};
}

Status Proxy::begin_lease(Lease lease) {
  const auto sandbox = impl_->find(lease.sandbox);
  if (!sandbox) return std::unexpected(sandbox.error());
  if (lease.token <= (*sandbox)->highest_token) {
    return fail(Code::lease_fenced, "sandbox " + lease.sandbox + " has had token " +
                                        std::to_string((*sandbox)->highest_token) +
                                        "; a lease needs a higher one");
  }
  impl_->drop_lease(**sandbox);
  (*sandbox)->highest_token = lease.token;
  (*sandbox)->lease = std::make_shared<Lease>(std::move(lease));
  if (!std::exchange((*sandbox)->accepting, true)) impl_->wait(*sandbox);
  return {};
}

Status Proxy::set_rules(const std::string& name, std::uint64_t token, engine::net::RuleSet rules) {
  const auto sandbox = impl_->find(name);
  if (!sandbox) return std::unexpected(sandbox.error());
  const auto& lease = (*sandbox)->lease;
  if (!lease || lease->token != token)
    return fail(Code::lease_fenced, "the token is not that of the current lease");
  lease->rules = std::move(rules);
  const auto sessions = (*sandbox)->sessions;  // a session that closes leaves the set
  for (const auto& session : sessions) session->recheck();
  return {};
}

Result<ProxyCounters> Proxy::end_lease(const std::string& name, std::uint64_t token) {
  const auto sandbox = impl_->find(name);
  if (!sandbox) return ProxyCounters{};  // gone with its lease
  const auto lease = (*sandbox)->lease;
  if (token < (*sandbox)->highest_token) return fail(Code::lease_fenced, "a newer lease has begun");
  if (!lease) return ProxyCounters{};
  impl_->drop_lease(**sandbox);
  return lease->counters;
}

ProxyCounters Proxy::counters() const {
  ProxyCounters sum = impl_->past;
  for (const auto& [name, sandbox] : impl_->sandboxes) {
    if (sandbox->lease) add(sum, sandbox->lease->counters);
    sum.open_connections += sandbox->sessions.size();
  }
  return sum;
}

void Proxy::clear() {
  while (!impl_->sandboxes.empty()) {
    const std::string name = impl_->sandboxes.begin()->first;
    (void)remove_listener(name);
  }
}

void Proxy::Impl::drop_lease(Sandbox& sandbox) {
  close_sessions(sandbox);
  if (sandbox.lease) {
    add(past, sandbox.lease->counters);
    tell_rest(*sandbox.lease);
  }
  sandbox.lease = nullptr;
}

/// Of the decisions that came too fast to be told one by one.
void Proxy::Impl::tell_rest(Lease& lease) const {
  const std::uint64_t untold = lease.log.take_untold();
  if (untold == 0) return;
  context.on_verdict({.sandbox = lease.sandbox,
                      .token = lease.token,
                      .run = lease.run,
                      .rule = "end-of-lease",
                      .reason = "the lease has ended; its last decisions were counted only",
                      .time_ms = context.clock.wall_ms(),
                      .untold = untold});
}

void Proxy::Impl::close_sessions(Sandbox& sandbox) {
  const auto sessions = std::exchange(sandbox.sessions, {});
  for (const auto& session : sessions) session->close();
}

void Proxy::Impl::wait(const std::shared_ptr<Sandbox>& sandbox) {
  sandbox->listener.async_wait(asio::posix::stream_descriptor::wait_read,
                               [self = shared_from_this(), sandbox](boost::system::error_code error) {
                                 if (!error) self->accept_some(sandbox);
                               });
}

void Proxy::Impl::accept_some(const std::shared_ptr<Sandbox>& sandbox) {
  for (int i = 0; i < accepts_in_a_row; ++i) {
    UniqueFd connection(
        ::accept4(sandbox->listener.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) {
      take(sandbox, std::move(connection));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      sandbox->pause.expires_after(accept_pause);  // waiting for the socket would spin
      sandbox->pause.async_wait([self = shared_from_this(), sandbox](boost::system::error_code error) {
        if (!error) self->wait(sandbox);
      });
      return;
    }
    if (errno != EINTR && errno != ECONNABORTED) break;
  }
  wait(sandbox);
}

void Proxy::Impl::take(const std::shared_ptr<Sandbox>& sandbox, UniqueFd connection) {
  if (!sandbox->lease) {
    turn_away(connection, plain_response(503, "this sandbox has no lease now"));
    return;
  }
  ++sandbox->lease->counters.accepted;
  if (sandbox->sessions.size() >= context.limits.max_connections) {  // ADV-C29
    ++sandbox->lease->counters.refused;
    turn_away(connection,
              plain_response(503, "this sandbox has " + std::to_string(context.limits.max_connections) +
                                      " connections open, as many as it may"));
    return;
  }
  const std::weak_ptr<Sandbox> weak = sandbox;
  auto session = start_session(context, std::move(connection), sandbox->lease, [weak](Session* ended) {
    const auto owner = weak.lock();
    if (!owner) return;
    std::erase_if(owner->sessions, [ended](const auto& open) { return open.get() == ended; });
  });
  if (session) sandbox->sessions.insert(std::move(session));
}

}  // namespace sandglass::sandbox_runtime::egress
