#include "activities/gateway/http_tool.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "activities/policy/policy.h"
#include "engine/base/text.h"

namespace sandglass::activities::gateway {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchema = R"({
  "type": "object",
  "properties": {
    "method": {"enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]},
    "url": {"type": "string", "maxLength": 4096, "pattern": "^https?://[!-~]+$"},
    "headers": {
      "type": "object", "maxProperties": 32,
      "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"},
      "additionalProperties": {"type": "string", "maxLength": 4096, "pattern": "^[\\t -~]*$"}
    },
    "body": {"type": "string"},
    "key_header": {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"},
    "recovery": {"enum": ["probe", "resend", "ask"]},
    "probe": {
      "type": "object",
      "properties": {"url": {"type": "string", "maxLength": 4096, "pattern": "^https?://[!-~]*\\{key\\}[!-~]*$"}},
      "required": ["url"], "additionalProperties": false
    },
    "settle_ms": {"type": "integer", "minimum": 0, "maximum": 600000}
  },
  "required": ["method", "url"],
  "if": {"properties": {"recovery": {"const": "probe"}}, "required": ["recovery"]},
  "then": {"required": ["probe"]},
  "additionalProperties": false
})";

constexpr std::size_t kMaxResult = 128 * 1024;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = (group << 8) | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j > bytes.size() ? '=' : kDigits[(group >> (18 - 6 * j)) & 63U];
    }
  }
  return out;
}

/// What history keeps of an answer.
std::string result_json(const core::EffectResult& result) {
  Json out;
  out["status"] = result.http_status;
  out["headers"] = Json::object();
  for (const auto& [name, value] : result.headers) {
    const std::string plain = lower(name);
    const bool kept =
        plain == "content-type" || plain == "location" || plain == "etag" || plain == "retry-after";
    if (kept && base::is_utf8(value)) out["headers"][plain] = value;
  }
  const bool cut = result.body.size() > kMaxResult;
  const std::string_view body = std::string_view(result.body).substr(0, kMaxResult);
  // A text of control characters, six bytes each in JSON, would be too large for a record (FR-140).
  if (base::is_utf8(body) && Json(body).dump().size() <= 2 * kMaxResult) {
    out["body"] = body;
  } else {
    out["body_base64"] = base64(body);
  }
  out["truncated"] = result.truncated || cut;
  return out.dump();
}

core::ActivityResult answer(core::Outcome outcome, base::Code code, std::string message,
                            const core::EffectResult& result) {
  core::ActivityResult made{.outcome = outcome, .code = code, .message = std::move(message)};
  if (result.http_status != 0) made.bytes = result_json(result);
  return made;
}

std::string status_text(const core::EffectResult& result) {
  return "the target answered with status " + std::to_string(result.http_status);
}

/// The executor's own word, where no answer was received.
core::ActivityResult without_answer(const core::EffectResult& result) {
  const bool not_done = result.outcome == core::Outcome::not_done;
  const base::Code code = result.code != base::Code::ok ? result.code
                          : not_done                    ? base::Code::effect_not_done
                                                        : base::Code::operation_unknown;
  // What was refused before anything was dialled is refused again; a connection that could not be made may be
  // made.
  const bool refused = code == base::Code::policy_denied || code == base::Code::address_refused ||
                       code == base::Code::name_refused || code == base::Code::invalid_argument;
  return {.outcome = not_done ? core::Outcome::not_done : core::Outcome::unknown,
          .code = code,
          .side = refused ? core::FailureSide::user : core::FailureSide::platform,
          .retryable = not_done && !refused,
          .message = result.message};
}

}  // namespace

std::string_view HttpTool::schema() {
  return kSchema;
}

base::Status check_request(std::string_view arguments) {
  const Json parsed = Json::parse(arguments);
  const auto refuse = [](std::string what) {
    return base::fail(base::Code::arguments_invalid, std::move(what));
  };
  const auto origin = policy::origin_of(parsed["url"].get<std::string>());
  if (!origin) return refuse("/url: " + origin.error().message);
  const std::string key_header = lower(parsed.value("key_header", "Idempotency-Key"));
  constexpr std::array kFraming = {"host",       "content-length",  "transfer-encoding", "connection",
                                   "te",         "trailer",         "upgrade",           "expect",
                                   "keep-alive", "proxy-connection"};
  constexpr std::array kSecrets = {"authorization", "proxy-authorization", "cookie", "x-api-key"};
  if (!parsed.contains("headers")) return {};
  std::vector<std::string> seen;
  for (const auto& [name, value] : parsed["headers"].items()) {
    const std::string plain = lower(name);
    if (std::ranges::find(seen, plain) != seen.end())
      return refuse("/headers: \"" + name + "\" stands there twice");
    seen.push_back(plain);
    if (std::ranges::find(kFraming, plain) != kFraming.end() || plain == key_header) {
      return refuse("/headers: \"" + name + "\" is set by Sandglass; leave it out");
    }
    if (std::ranges::find(kSecrets, plain) != kSecrets.end()) {
      return refuse("/headers: \"" + name + "\" would put a secret into history; leave it out");
    }
  }
  return {};
}

base::Result<core::EffectIntent> HttpTool::intent(std::string_view arguments, const std::string& key) const {
  if (auto checked = check_request(arguments); !checked) return std::unexpected(checked.error());
  const Json parsed = Json::parse(arguments);
  core::EffectIntent intent;
  intent.method = parsed["method"].get<std::string>();
  intent.url = parsed["url"].get<std::string>();
  if (parsed.contains("headers")) {
    for (const auto& [name, value] : parsed["headers"].items())
      intent.headers.emplace_back(name, value.get<std::string>());
  }
  intent.headers.emplace_back(parsed.value("key_header", "Idempotency-Key"), key);
  intent.body = parsed.value("body", "");
  return intent;
}

/// What an answer says about the effect (FR-3). 2xx: it happened. Most of 4xx: the target looked at it and
/// did nothing. Everything else leaves it open: a 5xx may come before or after the deed, a redirect often
/// after it.
core::ActivityResult HttpTool::outcome(core::EffectResult result) const {
  if (result.http_status == 0) return without_answer(result);
  const std::uint32_t status = result.http_status;
  if (status >= 200 && status < 300) return answer(core::Outcome::done, base::Code::ok, "", result);
  if (status == 425 || status == 429) {
    auto made = answer(core::Outcome::not_done, base::Code::effect_not_done,
                       status_text(result) + ": too early", result);
    made.side = core::FailureSide::platform;
    made.retryable = true;
    return made;
  }
  if ((status >= 400 && status < 500 && status != 408) || status == 501 || status == 505) {
    return answer(core::Outcome::not_done, base::Code::effect_refused,
                  status_text(result) + " and did nothing", result);
  }
  auto made = answer(core::Outcome::unknown, base::Code::operation_unknown,
                     status_text(result) + ", which does not say whether it was done", result);
  made.side = core::FailureSide::platform;
  return made;
}

base::Result<core::EffectIntent> HttpTool::probe(std::string_view arguments, const std::string& key) const {
  const Json parsed = Json::parse(arguments);
  if (!parsed.contains("probe")) {
    return base::fail(base::Code::arguments_invalid, "these arguments declare no probe");
  }
  core::EffectIntent intent;
  intent.method = "GET";
  intent.url = parsed["probe"]["url"].get<std::string>();
  intent.url.replace(intent.url.find("{key}"), 5, key);
  return intent;
}

core::ActivityResult HttpTool::probe_outcome(core::EffectResult result) const {
  const std::uint32_t status = result.http_status;
  if (status >= 200 && status < 300) return answer(core::Outcome::done, base::Code::ok, "", result);
  if (status == 404) {
    return answer(core::Outcome::not_done, base::Code::effect_not_done,
                  "the target knows nothing under this key", result);
  }
  auto made =
      answer(core::Outcome::not_done, base::Code::unavailable,
             status == 0 ? "the probe got no answer: " + result.message : "the probe: " + status_text(result),
             result);
  made.side = core::FailureSide::platform;
  return made;
}

std::int64_t HttpTool::settle_ms(std::string_view arguments) const {
  return Json::parse(arguments).value("settle_ms", engine::run::OperationOptions().settle_ms);
}

std::string HttpTool::target(std::string_view arguments) const {
  const Json parsed = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return {};
  return policy::origin_of(parsed.value("url", "")).value_or("");
}

int HttpTool::level(std::string_view arguments) {
  const Json parsed = Json::parse(arguments);
  return parsed["method"] == "DELETE" ? 3 : 2;
}

engine::run::Recovery HttpTool::recovery(std::string_view arguments) {
  using engine::run::Recovery;
  const Json parsed = Json::parse(arguments);
  const std::string said = parsed.value("recovery", "");
  if (said == "probe" || (said.empty() && parsed.contains("probe"))) return Recovery::probe;
  const bool reads = parsed["method"] == "GET" || parsed["method"] == "HEAD";
  if (said == "resend" || (said.empty() && reads)) return Recovery::resend;
  return Recovery::ask;
}

}  // namespace sandglass::activities::gateway
