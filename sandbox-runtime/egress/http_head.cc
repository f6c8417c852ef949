#include "sandbox-runtime/egress/http_head.h"

#include <algorithm>
#include <array>

namespace sandglass::sandbox_runtime::egress {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;

std::unexpected<engine::base::Error> bad(std::string what) {
  return fail(Code::invalid_argument, std::move(what));
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_token(std::string_view text) {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || marks.find(c) != std::string_view::npos;
  });
}

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Takes the next CRLF-ended line from `rest`; find_head_end has seen that there is one.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find("\r\n"), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 2, rest.size()));
  return line;
}

Result<int> parse_version(std::string_view text) {
  if (text == "HTTP/1.1") return 1;
  if (text == "HTTP/1.0") return 0;
  return bad("the HTTP version is not 1.0 or 1.1");
}

Result<Headers> parse_headers(std::string_view rest, const HeadLimits& limits) {
  Headers headers;
  for (;;) {
    const std::string_view line = take_line(rest);
    if (line.empty()) break;
    if (headers.lines.size() >= limits.max_count) return bad("there are too many header lines");
    if (line.front() == ' ' || line.front() == '\t') return bad("a header line is folded");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return bad("a header name is malformed");
    const std::string_view value = trim(line.substr(colon + 1));
    const auto control = [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    };
    if (std::ranges::any_of(value, control)) return bad("a header value has a control character");
    headers.lines.push_back({std::string(line.substr(0, colon)), std::string(value)});
  }
  return headers;
}

void append_headers(std::string& out, const Headers& headers) {
  for (const HeaderLine& line : headers.lines)
    out.append(line.name).append(": ").append(line.value).append("\r\n");
  out += "\r\n";
}

/// The framing that the two headers say; null: neither is there.
Result<std::optional<Framing>> stated_framing(const Headers& headers, int minor) {
  const std::size_t codings = headers.count("Transfer-Encoding");
  const std::size_t lengths = headers.count("Content-Length");
  if (codings + lengths > 1) return bad("the length of the body is stated more than once");
  if (codings == 1) {
    if (!same_name(*headers.find("Transfer-Encoding"), "chunked"))
      return bad("the transfer coding is not chunked");
    if (minor == 0) return bad("a transfer coding in HTTP/1.0");
    return Framing{Framing::Kind::chunked, 0};
  }
  if (lengths == 0) return std::nullopt;
  const std::string& digits = *headers.find("Content-Length");
  if (digits.empty() || digits.size() > 18 || !std::ranges::all_of(digits, is_digit)) {
    return bad("Content-Length is not a plain number");
  }
  std::uint64_t length = 0;
  for (const char digit : digits) length = length * 10 + static_cast<std::uint64_t>(digit - '0');
  return Framing{Framing::Kind::length, length};
}

}  // namespace

bool same_name(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, {}, lower, lower);
}

std::size_t Headers::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [&](const auto& l) { return same_name(l.name, name); }));
}

const std::string* Headers::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(lines, [&](const auto& line) { return same_name(line.name, name); });
  return found == lines.end() ? nullptr : &found->value;
}

void Headers::remove(std::string_view name) {
  std::erase_if(lines, [&](const auto& line) { return same_name(line.name, name); });
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  for (const HeaderLine& line : lines) {
    if (!same_name(line.name, name)) continue;
    std::string_view rest = line.value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      if (same_name(trim(rest.substr(0, comma)), token)) return true;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return false;
}

std::string RequestHead::text() const {
  std::string out = method + " " + target + " HTTP/1." + std::to_string(minor) + "\r\n";
  append_headers(out, headers);
  return out;
}

std::string ResponseHead::text() const {
  std::string out = "HTTP/1." + std::to_string(minor) + " " + std::to_string(status) + " " + reason + "\r\n";
  append_headers(out, headers);
  return out;
}

Result<std::optional<std::size_t>> find_head_end(std::string_view buffer, const HeadLimits& limits,
                                                 std::size_t from) {
  const std::string_view seen = buffer.substr(0, limits.max_bytes);
  for (std::size_t at = from == 0 ? 0 : from - 1; at < seen.size(); ++at) {
    if (seen[at] == '\n' && (at == 0 || seen[at - 1] != '\r')) return bad("a line ends without CR");
    if (seen[at] == '\r' && at + 1 < seen.size() && seen[at + 1] != '\n')
      return bad("a CR is not followed by LF");
    if (seen[at] == '\n' && at >= 3 && seen[at - 2] == '\n') return at + 1;
    if (seen[at] == '\n' && at == 1) return bad("the first line is empty");
  }
  if (buffer.size() >= limits.max_bytes) return bad("the head is too long");
  return std::nullopt;
}

Result<RequestHead> parse_request_head(std::string_view head, const HeadLimits& limits) {
  std::string_view rest = head;
  const std::string_view line = take_line(rest);
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return bad("the request line is malformed");
  RequestHead request;
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, last - first - 1);
  const auto capital = [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; };
  if (request.method.empty() || request.method.size() > 32 || !std::ranges::all_of(request.method, capital)) {
    return bad("the method is malformed");
  }
  const auto visible = [](char c) { return c > 0x20 && c < 0x7f; };
  if (request.target.empty() || !std::ranges::all_of(request.target, visible))
    return bad("the target is malformed");
  const auto minor = parse_version(line.substr(last + 1));
  if (!minor) return std::unexpected(minor.error());
  request.minor = *minor;
  auto headers = parse_headers(rest, limits);
  if (!headers) return std::unexpected(headers.error());
  request.headers = std::move(*headers);
  return request;
}

Result<ResponseHead> parse_response_head(std::string_view head, const HeadLimits& limits) {
  std::string_view rest = head;
  const std::string_view line = take_line(rest);
  ResponseHead response;
  const auto minor = parse_version(line.substr(0, 8));
  if (!minor) return std::unexpected(minor.error());
  response.minor = *minor;
  if (line.size() < 12 || line[8] != ' ' || !std::ranges::all_of(line.substr(9, 3), is_digit) ||
      (line.size() > 12 && line[12] != ' ')) {
    return bad("the status line is malformed");
  }
  for (const char digit : line.substr(9, 3)) response.status = response.status * 10 + (digit - '0');
  if (response.status < 100 || response.status > 599) return bad("the status is out of range");
  response.reason = line.size() > 13 ? line.substr(13) : std::string_view();
  if (std::ranges::any_of(response.reason,
                          [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; })) {
    return bad("the status line has a control character");
  }
  auto headers = parse_headers(rest, limits);
  if (!headers) return std::unexpected(headers.error());
  response.headers = std::move(*headers);
  return response;
}

Result<Framing> request_framing(const RequestHead& head) {
  auto stated = stated_framing(head.headers, head.minor);
  if (!stated) return std::unexpected(stated.error());
  if (!*stated) return Framing{};
  return **stated;
}

Result<Framing> response_framing(const ResponseHead& head, std::string_view request_method) {
  auto stated = stated_framing(head.headers, head.minor);
  if (!stated) return std::unexpected(stated.error());
  if (request_method == "HEAD" || head.status < 200 || head.status == 204 || head.status == 304)
    return Framing{};
  if (!*stated) return Framing{Framing::Kind::until_close, 0};
  return **stated;
}

Status remove_hop_headers(Headers& headers) {
  constexpr auto needed =
      std::to_array<std::string_view>({"Host", "Content-Length", "Transfer-Encoding", "Content-Type",
                                       "Content-Encoding", "Authorization", "Cookie", "Trailer"});
  std::vector<std::string> named;
  for (const HeaderLine& line : headers.lines) {
    if (!same_name(line.name, "Connection") && !same_name(line.name, "Proxy-Connection")) continue;
    std::string_view rest = line.value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view token = trim(rest.substr(0, comma));
      if (std::ranges::any_of(needed, [&](std::string_view name) { return same_name(name, token); })) {
        return bad("Connection names a header that must reach the other end");
      }
      if (!token.empty()) named.emplace_back(token);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  for (const std::string& name : named) headers.remove(name);
  for (const char* name : {"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization",
                           "Proxy-Authenticate", "TE", "Upgrade"}) {
    headers.remove(name);
  }
  return {};
}

}  // namespace sandglass::sandbox_runtime::egress
