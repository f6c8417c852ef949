// Heads of HTTP/1 messages, read strictly: whatever two programs might read differently is refused, not
// repaired (ADV-C23). Header lines keep their order, case and bytes (FR-168). Pure; values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::sandbox_runtime::egress {

struct HeaderLine {
  std::string name;
  std::string value;  // without white space around it
};

/// Header names are compared without regard to ASCII case.
bool same_name(std::string_view left, std::string_view right);

struct Headers {
  std::vector<HeaderLine> lines;

  std::size_t count(std::string_view name) const;
  /// The first one's value; null: none.
  const std::string* find(std::string_view name) const;
  void remove(std::string_view name);
  /// True if a comma-separated list header, in any of its lines, has this token.
  bool has_token(std::string_view name, std::string_view token) const;
};

struct RequestHead {
  std::string method;
  std::string target;
  int minor = 1;  // HTTP/1.<minor>, 0 or 1
  Headers headers;

  std::string text() const;
};

struct ResponseHead {
  int minor = 1;
  int status = 0;
  std::string reason;
  Headers headers;

  std::string text() const;
};

struct HeadLimits {
  std::size_t max_bytes = 32 << 10;
  std::size_t max_count = 100;
};

/// Length of the head at the beginning of `buffer`, its empty line included; null: it is not whole yet. Fails
/// (invalid_argument) as soon as it is over the limit or has a line end that is not CRLF. `from`: how many
/// bytes an earlier call has seen, so that a head that comes byte by byte is not read over and over.
engine::base::Result<std::optional<std::size_t>> find_head_end(std::string_view buffer,
                                                               const HeadLimits& limits,
                                                               std::size_t from = 0);

/// `head` is exactly what find_head_end measured.
engine::base::Result<RequestHead> parse_request_head(std::string_view head, const HeadLimits& limits);
engine::base::Result<ResponseHead> parse_response_head(std::string_view head, const HeadLimits& limits);

/// How a message's end is found.
struct Framing {
  enum class Kind : std::uint8_t { none, length, chunked, until_close };
  Kind kind = Kind::none;
  std::uint64_t length = 0;
};

/// Refuses: Content-Length beside Transfer-Encoding, either of them twice, any coding but plain "chunked",
/// chunked in HTTP/1.0, a length that is not plain digits.
engine::base::Result<Framing> request_framing(const RequestHead& head);
engine::base::Result<Framing> response_framing(const ResponseHead& head, std::string_view request_method);

/// Takes out what is meant for this hop only: Connection, what it names, Keep-Alive, Proxy-…, TE, Upgrade.
/// Refuses a Connection that names a header which both ends need (Host, Content-Length, …).
engine::base::Status remove_hop_headers(Headers& headers);

}  // namespace sandglass::sandbox_runtime::egress
