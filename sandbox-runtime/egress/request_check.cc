#include "sandbox-runtime/egress/request_check.h"

namespace sandglass::sandbox_runtime::egress {

namespace net = engine::net;

std::optional<RequestFault> plain_fault(const RequestHead& head, const net::HttpUrl& url,
                                        std::uint64_t max_body_bytes) {
  const auto framing = request_framing(head);
  if (!framing) return RequestFault{400, framing.error().message};
  if (url.tls) return RequestFault{400, "an https target in absolute form; use CONNECT"};
  const std::size_t hosts = head.headers.count("Host");
  if (hosts > 1 || (hosts == 0 && head.minor == 1))
    return RequestFault{400, "there must be exactly one Host"};
  if (hosts == 1) {
    const auto named = net::parse_authority(*head.headers.find("Host"), 80);
    if (!named || *named != url.target) return RequestFault{400, "Host and target differ"};
  }
  if (const std::string* expect = head.headers.find("Expect");
      expect && !same_name(*expect, "100-continue")) {
    return RequestFault{417, "an expectation that the proxy does not know"};
  }
  if (framing->kind == Framing::Kind::length && framing->length > max_body_bytes) {
    return RequestFault{413,
                        "the body is larger than the " + std::to_string(max_body_bytes) + " bytes allowed"};
  }
  return std::nullopt;
}

std::optional<RequestFault> tunnel_fault(const RequestHead& head, const net::HostPort& target) {
  const auto framing = request_framing(head);
  if (!framing) return RequestFault{400, framing.error().message};
  if (framing->kind == Framing::Kind::chunked || framing->length != 0) {
    return RequestFault{400, "a CONNECT request has a body"};
  }
  if (head.headers.count("Host") > 1) return RequestFault{400, "there is more than one Host"};
  if (const std::string* host = head.headers.find("Host")) {
    const auto named = net::parse_authority(*host, target.port);
    if (!named || named->host != target.host)
      return RequestFault{400, "Host and target of the CONNECT request differ"};
  }
  return std::nullopt;
}

bool asks_for_upgrade(const RequestHead& head) {
  return head.headers.count("Upgrade") != 0 || head.headers.has_token("Connection", "upgrade");
}

std::string hello_fault(const ClientHello& hello, const net::Host& host) {
  if (hello.state != ClientHello::State::complete) return "what the tunnel carries is not TLS";
  if (hello.encrypted) return "the TLS hello hides its server name (ECH)";
  if (host.literal) {
    return hello.server_name.empty() ? "" : "the TLS server name is another than the tunnel's address";
  }
  if (hello.server_name.empty()) return "the TLS hello has no server name";
  const auto named = net::parse_host(hello.server_name);
  return named && *named == host ? "" : "the TLS server name is another than the tunnel's";
}

}  // namespace sandglass::sandbox_runtime::egress
