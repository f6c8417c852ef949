#include "activities/effects/http_effect.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/crash_point.h"
#include "engine/net/host.h"

namespace sandglass::activities::effects {
namespace {

namespace base = engine::base;
namespace net = engine::net;
using base::Code;
using base::fail;
using engine::core::EffectIntent;
using engine::core::EffectResult;
using engine::core::Outcome;

constexpr std::size_t max_response_headers = 200;
constexpr std::size_t max_response_header_bytes = 64 << 10;

struct CurlClose {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, CurlClose>;
using CurlList = std::unique_ptr<curl_slist, CurlClose>;

bool same_name(std::string_view left, std::string_view right) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(left, right, {}, lower, lower);
}

bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= 256 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

/// Headers that say how the message travels are made here and nowhere else.
base::Status check_headers(const EffectIntent& intent) {
  constexpr auto ours = std::to_array<std::string_view>(
      {"Host", "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Connection", "Proxy-Authorization",
       "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect"});
  for (const auto& [name, value] : intent.headers) {
    if (!is_token(name)) return fail(Code::invalid_argument, "a request header's name is malformed");
    if (std::ranges::any_of(ours, [&](std::string_view one) { return same_name(one, name); })) {
      return fail(Code::invalid_argument, "the request header " + name + " is set by the executor alone");
    }
    const auto control = [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    };
    if (std::ranges::any_of(value, control)) {
      return fail(Code::invalid_argument, "the request header " + name + " has a control character");
    }
  }
  return {};
}

bool is_method(std::string_view text) {
  return !text.empty() && text.size() <= 32 && text != "CONNECT" && text != "TRACE" &&
         std::ranges::all_of(text, [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; });
}

base::Result<net::HttpUrl> check(const EffectIntent& intent) {
  if (!is_method(intent.method))
    return fail(Code::invalid_argument, "the method is malformed or not for effects");
  if (auto status = check_headers(intent); !status) return std::unexpected(status.error());
  return net::parse_http_url(intent.url);
}

/// State of one request, reached from libcurl's callbacks.
struct Exchange {
  const TimedIntent& timed;
  base::Clock& clock;
  base::UniqueFd connection;  // until libcurl has taken it
  bool sending = false;       // from here on, bytes of the request may have left
  bool permit_expired = false;
  bool head_complete = false;  // of the final answer
  bool interim = false;        // the answer that is being read is a 1xx
  std::size_t header_bytes = 0;
  EffectResult& result;
};

curl_socket_t take_connection(void* self, curlsocktype, curl_sockaddr*) {
  // A second call would be a second attempt: there is no second connection.
  Exchange& exchange = *static_cast<Exchange*>(self);
  return exchange.connection.valid() ? exchange.connection.release() : CURL_SOCKET_BAD;
}

/// With `drop` the kernel sends nothing more once the connection is closed, also by the end of this process:
/// what it had not sent of a request must not reach the target after the attempt has ended (J16).
void drop_unsent_at_close(int socket, bool drop) {
  const linger when{.l_onoff = drop ? 1 : 0, .l_linger = 0};
  SG_CHECK(::setsockopt(socket, SOL_SOCKET, SO_LINGER, &when, sizeof when) == 0, "SO_LINGER");
}

int is_connected(void*, curl_socket_t socket, curlsocktype) {
  drop_unsent_at_close(socket, true);
  return CURL_SOCKOPT_ALREADY_CONNECTED;
}

int close_connection(void* self, curl_socket_t socket) {
  const base::UniqueFd closing(socket);
  const Exchange& exchange = *static_cast<Exchange*>(self);
  if (exchange.head_complete && !exchange.interim)
    drop_unsent_at_close(socket, false);  // the target has decided
  return 0;
}

/// Connected and, with TLS, verified; the next thing is the request. The last moment for the permit.
int before_request(void* self, char*, char*, int, int) {
  Exchange& exchange = *static_cast<Exchange*>(self);
  SG_CRASH_POINT("effect.before_send");
  if (exchange.timed.permit_expired(exchange.clock.monotonic_ns())) {
    exchange.permit_expired = true;
    return CURL_PREREQFUNC_ABORT;
  }
  exchange.sending = true;
  return CURL_PREREQFUNC_OK;
}

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* self) {
  Exchange& exchange = *static_cast<Exchange*>(self);
  EffectResult& result = exchange.result;
  std::string_view line(bytes, size * count);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {  // of an interim answer, or the final one
    result.headers.clear();
    exchange.head_complete = false;
    exchange.interim = line.find(" 1") == line.find(' ');
    exchange.header_bytes = 0;
  } else if (line.empty()) {
    exchange.head_complete = true;
  } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
    exchange.header_bytes += line.size();
    if (result.headers.size() < max_response_headers && exchange.header_bytes <= max_response_header_bytes) {
      std::string_view value = line.substr(colon + 1);
      while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
      result.headers.emplace_back(line.substr(0, colon), value);
    } else {
      result.truncated = true;
    }
  }
  return size * count;
}

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* self) {
  Exchange& exchange = *static_cast<Exchange*>(self);
  EffectResult& result = exchange.result;
  const std::size_t room = exchange.timed.intent.max_response_bytes - result.body.size();
  const std::size_t take = std::min(room, size * count);
  result.body.append(bytes, take);
  // What is over the limit is read on and dropped: that the answer is whole is worth knowing.
  if (take < size * count) result.truncated = true;
  return size * count;
}

CurlList make_headers(const EffectIntent& intent) {
  CurlList list;
  const auto add = [&list](const std::string& line) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    SG_CHECK(longer != nullptr, "out of memory");
    (void)list.release();
    list.reset(longer);
  };
  bool has_type = false;
  for (const auto& [name, value] : intent.headers) {
    has_type = has_type || same_name(name, "Content-Type");
    add(value.find_first_not_of(" \t") == std::string::npos ? name + ";" : name + ": " + value);
  }
  add("Expect:");
  if (!has_type) add("Content-Type:");  // libcurl would say that the body is a form
  return list;
}

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(handle, option, value);
  SG_CHECK(code == CURLE_OK, curl_easy_strerror(code));
}

void set_method_and_body(CURL* handle, const EffectIntent& intent) {
  if (intent.method == "HEAD") {
    set(handle, CURLOPT_NOBODY, 1L);
  } else if (intent.method != "GET" || !intent.body.empty()) {
    set(handle, CURLOPT_POST, 1L);
    set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(intent.body.size()));
    set(handle, CURLOPT_POSTFIELDS, intent.body.data());
    set(handle, CURLOPT_CUSTOMREQUEST, intent.method.c_str());
  }
}

/// Everything that libcurl might do by itself is off: it speaks HTTP on the one connection that it is given.
void set_transport(CURL* handle, const EffectWorld& world, Exchange& exchange) {
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(handle, CURLOPT_PROXY, "");
  set(handle, CURLOPT_NOPROXY, "*");
  set(handle, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(handle, CURLOPT_FOLLOWLOCATION, 0L);
  set(handle, CURLOPT_FRESH_CONNECT, 1L);
  set(handle, CURLOPT_FORBID_REUSE, 1L);
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_PATH_AS_IS, 1L);
  set(handle, CURLOPT_SSL_VERIFYPEER, 1L);
  set(handle, CURLOPT_SSL_VERIFYHOST, 2L);
  set(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!world.rules.ca_file.empty()) set(handle, CURLOPT_CAINFO, world.rules.ca_file.c_str());
  set(handle, CURLOPT_OPENSOCKETFUNCTION, &take_connection);
  set(handle, CURLOPT_OPENSOCKETDATA, &exchange);
  set(handle, CURLOPT_SOCKOPTFUNCTION, &is_connected);
  set(handle, CURLOPT_CLOSESOCKETFUNCTION, &close_connection);
  set(handle, CURLOPT_CLOSESOCKETDATA, &exchange);
  set(handle, CURLOPT_PREREQFUNCTION, &before_request);
  set(handle, CURLOPT_PREREQDATA, &exchange);
  set(handle, CURLOPT_HEADERFUNCTION, &take_header);
  set(handle, CURLOPT_HEADERDATA, &exchange);
  set(handle, CURLOPT_WRITEFUNCTION, &take_body);
  set(handle, CURLOPT_WRITEDATA, &exchange);
}

void end(EffectResult& result, Outcome outcome, Code code, std::string message) {
  result.outcome = outcome;
  result.code = code;
  result.message = std::move(message);
}

/// What is known now that libcurl has returned.
void classify(CURLcode code, const Exchange& exchange, const std::string& where, EffectResult& result) {
  const std::string why = where + ": " + curl_easy_strerror(code);
  if (exchange.permit_expired) {
    end(result, Outcome::not_done, Code::permit_expired,
        where + ": the permit ran out before the request was sent");
  } else if (!exchange.sending) {
    end(result, Outcome::not_done, code == CURLE_OPERATION_TIMEDOUT ? Code::timed_out : Code::connect_failed,
        why);
  } else if (code == CURLE_OK && exchange.head_complete && result.http_status >= 200) {
    end(result, Outcome::done, Code::ok, "");
  } else {
    const std::string known = code == CURLE_OK ? where + ": the answer broke off" : why;
    end(result, Outcome::unknown, Code::operation_unknown,
        known + ", after the request had begun to be sent; it may have been carried out");
  }
  if (result.outcome == Outcome::done) return;
  result.headers.clear();
  result.body.clear();
}

}  // namespace

void start_http() {
  const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  SG_CHECK(code == CURLE_OK, curl_easy_strerror(code));
}

base::Result<std::string> target_of(const EffectIntent& intent) {
  const auto url = check(intent);
  if (!url) return std::unexpected(url.error());
  return (url->tls ? "https://" : "http://") + url->target.text();
}

EffectResult converse(const EffectWorld& world, const TimedIntent& timed, const net::HttpUrl& url,
                      const std::string& address, base::UniqueFd connection, base::MonotonicNs cut_ns) {
  EffectResult result;
  result.id = timed.intent.id;
  Exchange exchange{
      .timed = timed, .clock = world.clock, .connection = std::move(connection), .result = result};
  const CurlHandle handle(curl_easy_init());
  SG_CHECK(handle != nullptr, "out of memory");
  const CurlList headers = make_headers(timed.intent);
  set_transport(handle.get(), world, exchange);
  set(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  set_method_and_body(handle.get(), timed.intent);
  const std::string where = (url.tls ? "https://" : "http://") + url.target.text();
  set(handle.get(), CURLOPT_URL, (where + url.path).c_str());
  // The checked address stands for the name, so that libcurl resolves nothing.
  const bool bracket = address.find(':') != std::string::npos;
  const std::string known = url.target.host.text + ":" + std::to_string(url.target.port) + ":" +
                            (bracket ? "[" + address + "]" : address);
  CurlList resolved;
  if (!url.target.host.literal) {
    resolved.reset(curl_slist_append(nullptr, known.c_str()));
    set(handle.get(), CURLOPT_RESOLVE, resolved.get());
  }
  const base::MonotonicNs left_ms = (cut_ns - world.clock.monotonic_ns()) / 1'000'000;
  set(handle.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<base::MonotonicNs>(left_ms, 1)));
  const CURLcode code = curl_easy_perform(handle.get());
  SG_CRASH_POINT("effect.after_answer");
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  result.http_status = static_cast<std::uint32_t>(status);
  classify(code, exchange, url.loggable(), result);
  return result;
}

Attempt perform(const EffectWorld& world, const TimedIntent& timed) {
  Attempt attempt;
  EffectResult& result = attempt.result;
  result.id = timed.intent.id;
  const auto url = check(timed.intent);
  if (!url) {
    attempt.verdict = net::malformed_verdict("", timed.intent.method, url.error(), world.clock);
    end(result, Outcome::not_done, url.error().code, url.error().message);
    return attempt;
  }
  const base::MonotonicNs begun = world.clock.monotonic_ns();
  const base::MonotonicNs cut_ns = begun + timed.intent.attempt_timeout_ms * 1'000'000;
  const auto decision = world.gate.decide_effect(world.rules.allow, world.rules.public_targets, url->target,
                                                 timed.intent.method);
  attempt.verdict = decision.verdict;
  if (!decision.verdict.allowed) {
    end(result, Outcome::not_done, decision.verdict.code, url->loggable() + ": " + decision.verdict.reason);
    return attempt;
  }
  if (timed.permit_expired(begun)) {
    end(result, Outcome::not_done, Code::permit_expired,
        url->loggable() + ": the permit ran out before the start");
    return attempt;
  }
  net::DialResult dialled = world.dialer.dial_blocking(decision, timed.intent.attempt_timeout_ms);
  attempt.verdict = dialled.verdict;
  if (!dialled.connection) {
    end(result, Outcome::not_done, dialled.connection.error().code, dialled.connection.error().message);
    return attempt;
  }
  result = converse(world, timed, *url, attempt.verdict.address, std::move(*dialled.connection), cut_ns);
  return attempt;
}

}  // namespace sandglass::activities::effects
