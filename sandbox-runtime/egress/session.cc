#include "sandbox-runtime/egress/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <optional>

#include "engine/base/log.h"
#include "sandbox-runtime/egress/chunk_scanner.h"
#include "sandbox-runtime/egress/refusal.h"
#include "sandbox-runtime/egress/request_check.h"
#include "sandbox-runtime/egress/tls_hello.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

namespace asio = boost::asio;
namespace net = engine::net;
using asio::awaitable;
using engine::base::Code;
using Socket = asio::generic::stream_protocol::socket;
using SteadyClock = std::chrono::steady_clock;

constexpr auto as_values = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t piece_bytes = 16 << 10;
constexpr std::int64_t farewell_ms = 1000;

/// One direction's bytes that have come and are not used up.
struct Inbox {
  std::string bytes;
  std::string_view view() const { return bytes; }
  void drop(std::size_t count) { bytes.erase(0, count); }
};

class HttpSession final : public Session, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(const ProxyContext& context, Socket client, std::shared_ptr<Lease> lease,
              std::function<void(Session*)> on_end)
      : context_(context),
        client_(std::move(client)),
        upstream_(context.io),
        timer_(context.io),
        pump_ended_(context.io),
        lease_(std::move(lease)),
        on_end_(std::move(on_end)) {}

  void start() { asio::co_spawn(context_.io, run(shared_from_this()), asio::detached); }

  void close() override {
    if (closed_) return;
    closed_ = true;
    boost::system::error_code ignored;
    client_.close(ignored);
    upstream_.close(ignored);
    timer_.cancel();
    pump_ended_.cancel();
    finish_exchange();
    if (on_end_)
      asio::post(context_.io, [self = shared_from_this(), end = std::move(on_end_)] { end(self.get()); });
  }

  void recheck() override {
    if (exchange_ && !lease_->rules.match(exchange_->target, exchange_->method)) close();
  }

 private:
  /// The request or tunnel that is going on.
  struct Exchange {
    net::HostPort target;
    std::string method;
    SteadyClock::time_point begun;
    std::uint64_t bytes_out = 0;
    std::uint64_t bytes_in = 0;
    int status = 0;
    bool connected = false;
  };
  struct Piece {
    bool open = false;  // false: the peer has ended its direction, or the socket failed
    bool failed = false;
  };

  // The order in which things happen.
  awaitable<void> run(std::shared_ptr<HttpSession> self);
  awaitable<bool> serve(std::string_view text);
  awaitable<void> serve_tunnel(const RequestHead& head);
  awaitable<bool> serve_plain(RequestHead head);
  awaitable<bool> reach(const net::HostPort& target, const std::string& method, net::NameDecision& decision);

  // Tunnels.
  awaitable<bool> check_hello(const net::NameDecision& decision);
  awaitable<void> carry(std::shared_ptr<HttpSession> self, bool outwards);

  // Plain requests.
  awaitable<void> pump_body(std::shared_ptr<HttpSession> self, Framing framing);
  awaitable<bool> relay_response(const RequestHead& request);
  awaitable<std::optional<ResponseHead>> final_response_head(const RequestHead& request);
  awaitable<bool> relay_body(Framing framing);

  // Bytes.
  awaitable<std::optional<std::string>> read_head(Socket& from, Inbox& inbox, std::string& fault);
  awaitable<Piece> read_more(Socket& from, Inbox& inbox);
  awaitable<bool> send(Socket& to, std::string_view bytes);
  awaitable<bool> send_out(std::string_view bytes);
  awaitable<bool> send_back(std::string_view bytes);
  awaitable<void> refuse(std::string response);
  awaitable<void> farewell();
  awaitable<void> malformed(std::string_view target, std::string_view method, engine::base::Error error);
  awaitable<net::DialResult> dial(net::NameDecision decision);

  // Time: the connection is closed at the earlier of two moments.
  void limit_ms(std::int64_t whole_ms, std::int64_t idle_ms);
  void touch() { idle_until_ = SteadyClock::now() + std::chrono::milliseconds(idle_ms_); }
  void watch();

  void tell(net::Verdict verdict);
  void finish_exchange();

  const ProxyContext& context_;
  Socket client_;
  Socket upstream_;
  asio::steady_timer timer_;
  asio::steady_timer pump_ended_;  // never expires; cancelled at that moment
  std::shared_ptr<Lease> lease_;
  std::function<void(Session*)> on_end_;
  Inbox from_client_;
  Inbox from_upstream_;
  std::optional<Exchange> exchange_;
  SteadyClock::time_point whole_until_;
  SteadyClock::time_point idle_until_;
  std::int64_t idle_ms_ = 0;
  int directions_ = 0;      // of a tunnel, still open
  bool body_sent_ = false;  // the whole request body has gone out
  bool body_malformed_ = false;
  bool pumping_ = false;   // pump_body is under way: it alone reads from the client
  bool discard_ = false;   // it reads on without sending
  bool keep_ = false;      // the client may send another request
  bool answered_ = false;  // the client has got the first byte of the final response
  bool closed_ = false;
};

awaitable<void> HttpSession::run(std::shared_ptr<HttpSession> self) {
  for (bool again = true; again && !closed_;) {
    limit_ms(context_.limits.head_timeout_ms, context_.limits.head_timeout_ms);
    std::string fault;
    const auto head = co_await read_head(client_, from_client_, fault);
    if (closed_) break;
    if (head) {
      again = co_await serve(*head);
      continue;
    }
    if (!fault.empty()) co_await malformed("", "", {Code::invalid_argument, fault});
    break;
  }
  if (directions_ == 0) close();
}

awaitable<bool> HttpSession::serve(std::string_view text) {
  auto head = parse_request_head(text, context_.limits.head);
  if (!head) {
    co_await malformed("", "", head.error());
    co_return false;
  }
  if (head->method == "CONNECT") {
    co_await serve_tunnel(*head);
    co_return false;
  }
  co_return co_await serve_plain(std::move(*head));
}

/// Decides, tells, dials. False: the client has been refused. The one way to a connection.
awaitable<bool> HttpSession::reach(const net::HostPort& target, const std::string& method,
                                   net::NameDecision& decision) {
  decision = context_.gate.decide(lease_->rules, target, method);
  if (!decision.verdict.allowed) {
    tell(decision.verdict);
    co_await refuse(verdict_response(decision.verdict, lease_->policy));
    co_return false;
  }
  exchange_ = Exchange{.target = target, .method = method, .begun = SteadyClock::now()};
  const auto& settings = context_.gate.settings();
  const std::int64_t dial_ms = settings.resolve_timeout_ms + settings.connect_timeout_ms;
  limit_ms(dial_ms + farewell_ms, dial_ms + farewell_ms);
  net::DialResult result = co_await dial(decision);
  if (closed_) co_return false;  // the lease ended, or its rules changed, meanwhile
  tell(result.verdict);
  if (!result.connection) {
    exchange_.reset();
    co_await refuse(verdict_response(result.verdict, lease_->policy));
    co_return false;
  }
  int family = 0;
  socklen_t length = sizeof family;
  ::getsockopt(result.connection->get(), SOL_SOCKET, SO_DOMAIN, &family, &length);
  boost::system::error_code error;
  upstream_.assign({family, 0}, result.connection->get(), error);
  if (error) {
    close();
    co_return false;
  }
  result.connection->release();
  exchange_->connected = true;
  co_return true;
}

awaitable<void> HttpSession::serve_tunnel(const RequestHead& head) {
  auto target = net::parse_authority(head.target, 0);
  if (!target) co_return co_await malformed(head.target, head.method, target.error());
  if (const auto fault = tunnel_fault(head, *target)) {
    co_return co_await malformed(head.target, head.method, {Code::invalid_argument, fault->text});
  }
  net::NameDecision decision;
  if (!co_await reach(*target, head.method, decision)) co_return;
  limit_ms(context_.limits.head_timeout_ms, context_.limits.head_timeout_ms);
  if (!co_await send(client_, "HTTP/1.1 200 Connection established\r\n\r\n")) co_return;
  if (!decision.raw_tunnel && !co_await check_hello(decision)) co_return;
  limit_ms(context_.limits.tunnel_timeout_ms, context_.limits.idle_timeout_ms);
  directions_ = 2;
  asio::co_spawn(context_.io, carry(shared_from_this(), true), asio::detached);
  asio::co_spawn(context_.io, carry(shared_from_this(), false), asio::detached);
}

/// The first bytes must be a ClientHello for the name that was allowed (SPEC N2, FR-165).
awaitable<bool> HttpSession::check_hello(const net::NameDecision& decision) {
  ClientHello hello;
  for (;;) {
    hello = read_client_hello(from_client_.view());
    if (hello.state != ClientHello::State::incomplete) break;
    if (from_client_.bytes.size() > max_client_hello) break;
    if (!(co_await read_more(client_, from_client_)).open) co_return false;
  }
  const std::string fault = hello_fault(hello, decision.target.host);
  if (fault.empty()) co_return true;
  net::Verdict verdict = decision.verdict;
  verdict.allowed = false;
  verdict.rule = "server-name";
  verdict.reason = fault;
  verdict.code = Code::policy_denied;
  tell(std::move(verdict));
  co_return false;
}

awaitable<void> HttpSession::carry(std::shared_ptr<HttpSession> self, bool outwards) {
  Socket& from = outwards ? client_ : upstream_;
  Socket& to = outwards ? upstream_ : client_;
  Inbox& inbox = outwards ? from_client_ : from_upstream_;
  for (;;) {
    if (!inbox.bytes.empty()) {
      const bool sent = outwards ? co_await send_out(inbox.view()) : co_await send_back(inbox.view());
      if (!sent) break;
      inbox.bytes.clear();
    }
    const Piece piece = co_await read_more(from, inbox);
    if (piece.open) continue;
    boost::system::error_code error;
    if (!piece.failed && !closed_) to.shutdown(Socket::shutdown_send, error);
    if (piece.failed || error || --directions_ == 0) break;
    co_return;  // half closed: the other direction goes on
  }
  close();
}

awaitable<bool> HttpSession::serve_plain(RequestHead head) {
  const auto url = net::parse_http_url(head.target);
  if (!url) {
    co_await malformed(head.target.substr(0, head.target.find('?')), head.method, url.error());
    co_return false;
  }
  if (const auto fault = plain_fault(head, *url, context_.limits.max_body_bytes)) {
    if (fault->status == 400) {
      co_await malformed(url->target.text(), head.method, {Code::invalid_argument, fault->text});
    } else {
      co_await refuse(plain_response(fault->status, fault->text));
    }
    co_return false;
  }
  if (head.headers.count("Upgrade") != 0 || head.headers.has_token("Connection", "upgrade")) {  // ADV-C25
    net::Verdict verdict = context_.gate.decide(net::RuleSet(), url->target, head.method).verdict;
    verdict.rule = "no-upgrade";
    verdict.reason = "changing to another protocol (WebSocket, HTTP/2) is not allowed";
    tell(verdict);
    co_await refuse(verdict_response(verdict, lease_->policy));
    co_return false;
  }
  keep_ = head.minor == 1 && !head.headers.has_token("Connection", "close") &&
          !head.headers.has_token("Proxy-Connection", "close");
  const Framing framing = *request_framing(head);
  if (auto stripped = remove_hop_headers(head.headers); !stripped) {
    co_await malformed(url->target.text(), head.method, stripped.error());
    co_return false;
  }
  net::NameDecision decision;
  if (!co_await reach(url->target, head.method, decision)) co_return false;

  limit_ms(context_.limits.request_timeout_ms, context_.limits.idle_timeout_ms);
  head.target = url->path;
  if (head.headers.count("Host") == 0) {
    const std::string host = url->target.port == 80 ? url->target.host.bracketed() : url->target.text();
    head.headers.lines.insert(head.headers.lines.begin(), {"Host", host});
  }
  head.headers.lines.push_back({"Connection", "close"});
  body_malformed_ = answered_ = false;
  body_sent_ =
      framing.kind == Framing::Kind::none || (framing.kind == Framing::Kind::length && framing.length == 0);
  if (!co_await send_out(head.text())) co_return false;
  discard_ = false;
  if (!body_sent_) {
    pumping_ = true;
    pump_ended_.expires_at(SteadyClock::time_point::max());
    asio::co_spawn(context_.io, pump_body(shared_from_this(), framing), asio::detached);
  }
  const bool whole = co_await relay_response(head);
  if (closed_) co_return false;
  if (answered_ && !whole) co_return false;  // cut short: the client must see that
  if (!answered_) {
    co_await refuse(body_malformed_ ? plain_response(400, "the chunked body is malformed")
                                    : plain_response(502, "the target did not give a usable answer"));
    co_return false;
  }
  boost::system::error_code ignored;
  upstream_.close(ignored);
  from_upstream_.bytes.clear();
  finish_exchange();
  if (keep_) co_return true;
  co_await farewell();
  co_return false;
}

/// Carries the request's body to the target, in a coroutine of its own: an answer may come before the body's
/// end.
awaitable<void> HttpSession::pump_body(std::shared_ptr<HttpSession> self, Framing framing) {
  ChunkScanner chunks;
  std::uint64_t left = framing.length;
  for (;;) {
    std::size_t ours = 0;
    if (framing.kind == Framing::Kind::length) {
      ours = static_cast<std::size_t>(std::min<std::uint64_t>(left, from_client_.bytes.size()));
      left -= ours;
    } else {
      const auto fed = chunks.feed(from_client_.view());
      body_malformed_ = !fed || chunks.data_bytes() > context_.limits.max_body_bytes;
      if (body_malformed_) break;
      ours = *fed;
    }
    if (ours > 0) {
      const std::string piece = from_client_.bytes.substr(0, ours);
      from_client_.drop(ours);
      if (!discard_ && !co_await send_out(piece)) discard_ = true;
    }
    body_sent_ = framing.kind == Framing::Kind::length ? left == 0 : chunks.finished();
    if (body_sent_) break;
    if (!(co_await read_more(client_, from_client_)).open) {
      close();
      break;
    }
  }
  pumping_ = false;
  pump_ended_.cancel();
  // The other coroutine waits for the target: end that, so that it can answer.
  boost::system::error_code ignored;
  if (body_malformed_ && !closed_) upstream_.close(ignored);
}

awaitable<std::optional<ResponseHead>> HttpSession::final_response_head(const RequestHead& request) {
  for (;;) {
    std::string fault;
    const auto text = co_await read_head(upstream_, from_upstream_, fault);
    if (!text || closed_) co_return std::nullopt;
    auto head = parse_response_head(*text, context_.limits.head);
    if (!head || head->status == 101) co_return std::nullopt;
    if (head->status >= 200) co_return std::move(*head);
    if (request.minor == 0 || !remove_hop_headers(head->headers)) continue;
    head->minor = 1;
    if (!co_await send_back(head->text())) co_return std::nullopt;
  }
}

/// True when the answer has gone back whole.
awaitable<bool> HttpSession::relay_response(const RequestHead& request) {
  auto head = co_await final_response_head(request);
  if (!head) co_return false;
  const auto framing = response_framing(*head, request.method);
  if (!framing || !remove_hop_headers(head->headers)) co_return false;
  const bool marked = framing->kind != Framing::Kind::until_close;
  head->minor = 1;
  keep_ = keep_ && marked && body_sent_;
  if (!keep_) head->headers.lines.push_back({"Connection", "close"});
  if (exchange_) exchange_->status = head->status;
  answered_ = true;
  if (!co_await send_back(head->text())) co_return false;
  co_return co_await relay_body(*framing);
}

awaitable<bool> HttpSession::relay_body(Framing framing) {
  ChunkScanner chunks;
  std::uint64_t left = framing.length;
  const auto finished = [&] {
    return framing.kind == Framing::Kind::none || (framing.kind == Framing::Kind::length && left == 0) ||
           (framing.kind == Framing::Kind::chunked && chunks.finished());
  };
  while (!finished()) {
    std::size_t ours = from_upstream_.bytes.size();
    if (framing.kind == Framing::Kind::length) {
      ours = static_cast<std::size_t>(std::min<std::uint64_t>(left, ours));
      left -= ours;
    } else if (framing.kind == Framing::Kind::chunked) {
      const auto fed = chunks.feed(from_upstream_.view());
      if (!fed) co_return false;
      ours = *fed;
    }
    if (ours > 0 && !co_await send_back(from_upstream_.view().substr(0, ours))) co_return false;
    from_upstream_.drop(ours);
    if (finished()) break;
    const Piece piece = co_await read_more(upstream_, from_upstream_);
    if (!piece.open) co_return framing.kind == Framing::Kind::until_close && !piece.failed;
  }
  co_return true;
}

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

awaitable<bool> HttpSession::send_out(std::string_view bytes) {
  lease_->counters.bytes_out += bytes.size();
  if (exchange_) exchange_->bytes_out += bytes.size();
  if (lease_->counters.bytes_out > context_.limits.max_lease_bytes) {
    net::Verdict verdict{.method = exchange_ ? exchange_->method : "", .rule = "lease-byte-cap"};
    if (exchange_) verdict.host = exchange_->target.host.text;
    if (exchange_) verdict.port = exchange_->target.port;
    verdict.reason = "the lease has sent as many bytes as it may";
    verdict.code = Code::quota_exceeded;
    verdict.time_ms = context_.clock.wall_ms();
    tell(std::move(verdict));
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
  context_.on_verdict(verdict);
}

void HttpSession::finish_exchange() {
  if (!exchange_) return;
  const Exchange done = *std::exchange(exchange_, std::nullopt);
  if (!done.connected) return;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - done.begun);
  context_.on_usage({lease_->sandbox, lease_->token, done.target, done.method, done.bytes_out, done.bytes_in,
                     took.count(), done.status});
}

}  // namespace

std::shared_ptr<Session> start_session(const ProxyContext& context, engine::base::UniqueFd connection,
                                       std::shared_ptr<Lease> lease, std::function<void(Session*)> on_end) {
  int family = 0;
  socklen_t length = sizeof family;
  ::getsockopt(connection.get(), SOL_SOCKET, SO_DOMAIN, &family, &length);
  boost::system::error_code error;
  Socket client(context.io);
  client.assign({family, 0}, connection.get(), error);
  if (error) return nullptr;
  connection.release();
  auto session =
      std::make_shared<HttpSession>(context, std::move(client), std::move(lease), std::move(on_end));
  session->start();
  return session;
}

}  // namespace sandglass::sandbox_runtime::egress
