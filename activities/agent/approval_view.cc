#include <algorithm>

#include "activities/agent/agent_run.h"
#include "engine/base/text.h"

namespace sandglass::activities::agent {

namespace {

constexpr std::size_t kShownText = 64 * 1024;

/// The text as it stands inside a JSON body.
std::string escaped(const std::string& text) {
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

Json part_of(const std::string& name, const std::string& bytes, bool with_text) {
  Json part{{"name", name}, {"size", bytes.size()}, {"public_digest", base::sha256(bytes).hex()}};
  if (with_text && bytes.size() <= kShownText && base::is_utf8(bytes)) part["text"] = bytes;
  return part;
}

bool has_header(const Json& headers, std::string_view wanted) {
  return std::ranges::any_of(headers.items(), [&](const auto& item) {
    return std::ranges::equal(item.key(), wanted, {},
                              [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  });
}

}  // namespace

base::Status complete_request(Json& arguments, std::vector<ShownPart>& parts) {
  if (arguments.contains("json")) {
    if (arguments.contains("body")) {
      return base::fail(base::Code::arguments_invalid, "give either \"json\" or \"body\", not both");
    }
    arguments["body"] = arguments["json"].dump(-1, ' ', false, Json::error_handler_t::replace);
    arguments.erase("json");
    if (!arguments.contains("headers")) arguments["headers"] = Json::object();
    if (arguments["headers"].is_object() && !has_header(arguments["headers"], "content-type")) {
      arguments["headers"]["Content-Type"] = "application/json";
    }
  }
  if (!arguments.contains("show")) return {};
  const Json show = arguments["show"];
  arguments.erase("show");
  const bool texts =
      show.is_object() && std::ranges::all_of(show, [](const Json& one) { return one.is_string(); });
  if (!texts)
    return base::fail(base::Code::arguments_invalid,
                      "\"show\" must name texts: {fix.diff: \"${diff.diff}\"}");
  const std::string body =
      arguments.contains("body") && arguments["body"].is_string() ? arguments["body"].get<std::string>() : "";
  for (const auto& [name, text] : show.items()) {
    const auto& shown = text.get_ref<const std::string&>();
    // An approver must not be shown something else than what leaves (H1).
    if (body.find(shown) == std::string::npos && body.find(escaped(shown)) == std::string::npos) {
      return base::fail(base::Code::arguments_invalid,
                        "\"show\": the part \"" + name + "\" is not in the request's body");
    }
    parts.push_back({name, shown});
  }
  return {};
}

Json approval_view(const gateway::Call& call, const core::ContentDigest& digest,
                   const std::vector<ShownPart>& parts) {
  Json view{{"tool", call.tool},
            {"tool_digest", call.tool_digest},
            {"level", call.decision.level},
            {"reason", call.decision.reason},
            {"target", call.target},
            {"arguments", call.arguments},
            {"arguments_digest", digest.hash.hex()}};
  view["parts"] = Json::array();
  if (const auto body = call.arguments.find("body"); body != call.arguments.end() && body->is_string()) {
    view["parts"].push_back(
        part_of("body", body->get<std::string>(), false));  // its text is among the arguments
  }
  for (const ShownPart& part : parts) view["parts"].push_back(part_of(part.name, part.text, true));
  return view;
}

}  // namespace sandglass::activities::agent
