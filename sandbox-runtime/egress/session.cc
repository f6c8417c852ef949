#include "sandbox-runtime/egress/session.h"

#include "engine/base/log.h"
#include "sandbox-runtime/egress/chunk_scanner.h"
#include "sandbox-runtime/egress/refusal.h"
#include "sandbox-runtime/egress/request_check.h"
#include "sandbox-runtime/egress/session_impl.h"
#include "sandbox-runtime/egress/tls_hello.h"

namespace sandglass::sandbox_runtime::egress {

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
  if (const std::string_view cap = cap_reached(target.host.text); !cap.empty()) {
    const net::Verdict refused = cap_verdict(cap, target, method);
    tell(refused);
    co_await refuse(verdict_response(refused, lease_->policy));
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
