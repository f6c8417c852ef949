// The class behind session.h: its members by theme. Not for others. session.cc shows the order in which
// things happen, session_bytes.cc moves bytes and watches time and quantities.
#pragma once

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

#include "sandbox-runtime/egress/session.h"

namespace sandglass::sandbox_runtime::egress {

namespace asio = boost::asio;
namespace net = engine::net;
using asio::awaitable;
using engine::base::Code;
using Socket = asio::generic::stream_protocol::socket;
using SteadyClock = std::chrono::steady_clock;

inline constexpr auto as_values = asio::as_tuple(asio::use_awaitable);
inline constexpr std::size_t piece_bytes = 16 << 10;
inline constexpr std::size_t max_counted_hosts = 1024;
inline constexpr std::int64_t farewell_ms = 1000;

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
  /// Counts what goes out; the name of a cap that is passed by it, else empty.
  std::string_view count_out(std::size_t bytes);
  /// The cap that leaves nothing more for this host, else empty.
  std::string_view cap_reached(const std::string& host) const;
  net::Verdict cap_verdict(std::string_view cap, const net::HostPort& target,
                           const std::string& method) const;
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

}  // namespace sandglass::sandbox_runtime::egress
