#include "sandbox-runtime/egress/refusal.h"

#include "engine/base/text.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

using engine::base::Code;

std::string_view reason_of(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Error";
  }
}

std::string response(int status, std::string_view extra_headers, std::string_view body) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out.append(reason_of(status)).append("\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ");
  out.append(std::to_string(body.size()))
      .append("\r\nConnection: close\r\n")
      .append(extra_headers)
      .append("\r\n");
  return out.append(body);
}

/// A value for a header: printable ASCII without the marks that separate.
std::string header_value(std::string_view text) {
  std::string out;
  for (const char c : engine::base::escape_for_terminal(text)) {
    const bool fine = c >= 0x20 && c < 0x7f && c != '"' && c != ';' && c != ',';
    out += fine ? c : '?';
  }
  return out;
}

}  // namespace

std::string plain_response(int status, std::string_view detail) {
  return response(status, "", std::string("sandglass-egress: ").append(detail).append("\n"));
}

std::string verdict_response(const engine::net::Verdict& verdict, std::string_view policy) {
  const std::string where = verdict.host + ":" + std::to_string(verdict.port);
  const std::string reason = engine::base::escape_for_terminal(verdict.reason);
  if (verdict.allowed) {
    const int status = verdict.code == Code::overloaded ? 503 : verdict.code == Code::timed_out ? 504 : 502;
    const std::string name(engine::base::name_of(verdict.code));
    return response(status, "X-Sandglass-Error: " + name + "\r\n",
                    "The policy allows " + where + ", but the connection failed: " + reason + "\n");
  }
  const std::string shown_policy = policy.empty() ? "(unnamed)" : engine::base::escape_for_terminal(policy);
  const std::string header = "X-Sandglass-Verdict: denied; policy=\"" + header_value(shown_policy) +
                             "\"; rule=\"" + header_value(verdict.rule) + "\"; retry=no\r\n";
  return response(403, header,
                  "Denied by the sandbox's network policy.\npolicy: " + shown_policy +
                      "\nrule: " + engine::base::escape_for_terminal(verdict.rule) + "\ntarget: " + where +
                      "\nreason: " + reason +
                      "\nThis is a decision, not a network fault: do not retry, and do not look for another "
                      "way. The same "
                      "request gets the same answer until the policy is changed.\n");
}

}  // namespace sandglass::sandbox_runtime::egress
