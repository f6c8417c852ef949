#include "sandbox-runtime/egress/refusal.h"
#include "sandbox-runtime/egress/session_impl.h"

namespace sandglass::sandbox_runtime::egress {

/// Null with an empty `fault`: the peer ended or failed.
awaitable<std::optional<std::string>> HttpSession::read_head(Socket& from, Inbox& inbox, std::string& fault) {
  for (std::size_t seen = 0;;) {
    const auto end = find_head_end(inbox.view(), context_.limits.head, seen);
    if (!end) {
      fault = end.error().message;
      co_return std::nullopt;
    }
    if (*end) {
      std::string head = inbox.bytes.substr(0, **end);
      inbox.drop(**end);
      co_return head;
    }
    seen = inbox.bytes.size();
    if (!(co_await read_more(from, inbox)).open) co_return std::nullopt;
  }
}

awaitable<HttpSession::Piece> HttpSession::read_more(Socket& from, Inbox& inbox) {
  const std::size_t before = inbox.bytes.size();
  inbox.bytes.resize(before + piece_bytes);
  const auto [error, count] =
      co_await from.async_read_some(asio::buffer(inbox.bytes.data() + before, piece_bytes), as_values);
  inbox.bytes.resize(before + count);
  touch();
  co_return Piece{.open = !error && !closed_, .failed = error && error != asio::error::eof};
}

awaitable<bool> HttpSession::send(Socket& to, std::string_view bytes) {
  const auto [error, count] =
      co_await asio::async_write(to, asio::buffer(bytes.data(), bytes.size()), as_values);
  touch();
  co_return !error && !closed_;
}

std::string_view HttpSession::count_out(std::size_t bytes) {
  lease_->counters.bytes_out += bytes;
  if (lease_->counters.bytes_out > context_.limits.max_lease_bytes) return "lease-byte-cap";
  if (!exchange_) return {};
  exchange_->bytes_out += bytes;
  // A wildcard rule may have names without end; those beyond the table share one count.
  const bool own =
      lease_->sent_to.size() < max_counted_hosts || lease_->sent_to.contains(exchange_->target.host.text);
  std::uint64_t& sent = lease_->sent_to[own ? exchange_->target.host.text : ""];
  return (sent += bytes) > context_.limits.max_host_bytes ? "host-byte-cap" : "";
}

std::string_view HttpSession::cap_reached(const std::string& host) const {
  if (lease_->counters.bytes_out >= context_.limits.max_lease_bytes) return "lease-byte-cap";
  const auto sent = lease_->sent_to.find(host);
  return sent != lease_->sent_to.end() && sent->second >= context_.limits.max_host_bytes ? "host-byte-cap"
                                                                                         : "";
}

net::Verdict HttpSession::cap_verdict(std::string_view cap, const net::HostPort& target,
                                      const std::string& method) const {
  return {.host = target.host.text,
          .port = target.port,
          .method = method,
          .rule = std::string(cap),
          .reason = cap == "lease-byte-cap" ? "the lease has sent as many bytes as it may"
                                            : "the lease has sent as many bytes to this host as it may",
          .time_ms = context_.clock.wall_ms(),
          .code = Code::quota_exceeded};
}

awaitable<bool> HttpSession::send_out(std::string_view bytes) {
  const std::string_view cap = count_out(bytes.size());
  if (!cap.empty()) {
    tell(cap_verdict(cap, exchange_ ? exchange_->target : net::HostPort{},
                     exchange_ ? exchange_->method : ""));
    close();
    co_return false;
  }
  co_return co_await send(upstream_, bytes);
}

awaitable<bool> HttpSession::send_back(std::string_view bytes) {
  lease_->counters.bytes_in += bytes.size();
  if (exchange_) exchange_->bytes_in += bytes.size();
  co_return co_await send(client_, bytes);
}

awaitable<void> HttpSession::refuse(std::string response) {
  limit_ms(farewell_ms, farewell_ms);
  if (co_await send(client_, response)) co_await farewell();
}

/// Ends without a reset that could eat the answer: what the client still sends is read for a moment.
awaitable<void> HttpSession::farewell() {
  limit_ms(farewell_ms, farewell_ms);
  boost::system::error_code ignored;
  client_.shutdown(Socket::shutdown_send, ignored);
  if (pumping_) {
    discard_ = true;
    co_await pump_ended_.async_wait(as_values);
  }
  for (std::size_t total = 0; total < (std::size_t{1} << 20) && !closed_;
       total += from_client_.bytes.size()) {
    from_client_.bytes.clear();
    if (!(co_await read_more(client_, from_client_)).open) break;
  }
}

awaitable<void> HttpSession::malformed(std::string_view target, std::string_view method,
                                       engine::base::Error error) {
  tell(net::malformed_verdict(target, method, error, context_.clock));
  co_await refuse(plain_response(400, error.message));
}

awaitable<net::DialResult> HttpSession::dial(net::NameDecision decision) {
  using Signature = void(std::shared_ptr<net::DialResult>);
  const auto result = co_await asio::async_initiate<const asio::use_awaitable_t<>&, Signature>(
      [this, &decision](auto handler) {
        context_.dialer.dial(
            std::move(decision), 0,
            [&io = context_.io, handler = std::move(handler)](net::DialResult made) mutable {
              asio::post(io, [handler = std::move(handler),
                              shared = std::make_shared<net::DialResult>(std::move(made))]() mutable {
                std::move(handler)(std::move(shared));
              });
            });
      },
      asio::use_awaitable);
  co_return std::move(*result);
}

void HttpSession::limit_ms(std::int64_t whole_ms, std::int64_t idle_ms) {
  idle_ms_ = idle_ms;
  whole_until_ = SteadyClock::now() + std::chrono::milliseconds(whole_ms);
  touch();
  watch();
}

void HttpSession::watch() {
  if (closed_) return;
  timer_.expires_at(std::min(whole_until_, idle_until_));
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self || self->closed_) return;
    if (SteadyClock::now() >= std::min(self->whole_until_, self->idle_until_)) {
      self->close();
    } else {
      self->watch();
    }
  });
}

void HttpSession::tell(net::Verdict verdict) {
  verdict.sandbox = lease_->sandbox;
  verdict.token = lease_->token;
  verdict.run = lease_->run;
  ++(verdict.allowed ? lease_->counters.allowed : lease_->counters.refused);
  if (lease_->log.admit(verdict, context_.clock.monotonic_ns())) context_.on_verdict(verdict);
}

void HttpSession::finish_exchange() {
  if (!exchange_) return;
  const Exchange done = *std::exchange(exchange_, std::nullopt);
  if (!done.connected) return;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - done.begun);
  context_.on_usage({lease_->sandbox, lease_->token, done.target, done.method, done.bytes_out, done.bytes_in,
                     took.count(), done.status});
}

}  // namespace sandglass::sandbox_runtime::egress
