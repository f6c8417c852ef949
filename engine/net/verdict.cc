#include "engine/net/verdict.h"

#include <string_view>

#include "engine/base/text.h"

namespace sandglass::engine::net {
namespace {

/// Everything but plain ASCII is shown escaped first, so the result is ASCII and safe in a terminal as well.
void append_string(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  if (out.size() > 1) out += ',';
  out.append("\"").append(name).append("\":\"");
  for (const char c : base::escape_for_terminal(value)) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x80)
      out += c;
    else
      out += '?';
  }
  out += '"';
}

void append_plain(std::string& out, std::string_view name, const std::string& value) {
  if (out.size() > 1) out += ',';
  out.append("\"").append(name).append("\":").append(value);
}

}  // namespace

std::string Verdict::json() const {
  std::string out = "{";
  append_plain(out, "allowed", allowed ? "true" : "false");
  append_string(out, "host", host);
  append_plain(out, "port", std::to_string(port));
  append_string(out, "method", method);
  append_string(out, "rule", rule);
  append_string(out, "address", address);
  if (internal) append_plain(out, "internal", "true");
  if (opaque) append_plain(out, "opaque", "true");
  append_string(out, "sandbox", sandbox);
  if (token != 0) append_plain(out, "token", std::to_string(token));
  append_string(out, "run", run);
  append_string(out, "reason", reason);
  if (code != base::Code::ok) append_plain(out, "code", std::to_string(static_cast<unsigned>(code)));
  if (untold != 0) append_plain(out, "untold", std::to_string(untold));
  append_plain(out, "time_ms", std::to_string(time_ms));
  return out + "}";
}

}  // namespace sandglass::engine::net
