#include "replay-tools/cli/approval_text.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "engine/base/hash.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using nlohmann::ordered_json;

std::string label(std::string_view name) {
  std::string text(name);
  text.resize(std::max<std::size_t>(text.size() + 1, 18), ' ');
  return "  " + paint(Colour::dim, text);
}

/// A text as it is; anything else as JSON.
std::string plain(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

/// A unified diff with its lines coloured; every line is escaped first.
std::string diff_lines(const std::string& text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find('\n', at), text.size());
    const std::string line = safe(std::string_view(text).substr(at, end - at));
    const bool head = line.starts_with("+++") || line.starts_with("---") || line.starts_with("diff ");
    const Colour colour = head                    ? Colour::bold
                          : line.starts_with("+") ? Colour::green
                          : line.starts_with("-") ? Colour::red
                          : line.starts_with("@") ? Colour::blue
                                                  : Colour::none;
    out += "    " + paint(colour, line) + "\n";
    at = end + 1;
  }
  return out;
}

std::string part_lines(const ordered_json& part) {
  std::string out;
  const auto name = part.value("name", std::string("part"));
  const auto digest = part.value("public_digest", part.value("sha256", std::string()));
  out += label("part " + safe(name)) + "SHA-256 " + safe(digest) + "\n";
  if (part.contains("text") && part["text"].is_string()) out += diff_lines(part["text"].get<std::string>());
  return out;
}

/// Argument by argument. A text stands as it leaves, its line breaks too: an escaped one could not be read,
/// and one that was taken apart and written anew could hide something.
std::string argument_lines(const ordered_json& arguments) {
  if (!arguments.is_object())
    return label("arguments") + safe_block(plain(arguments), std::string(20, ' ')) + "\n";
  std::string out;
  for (const auto& [name, value] : arguments.items()) {
    out += label("argument " + safe(name)) + safe_block(plain(value), std::string(20, ' ')) + "\n";
  }
  return out;
}

}  // namespace

std::string approval_text(const Session& session, const ::sandglass::v1::ApprovalView& approval) {
  const bool question = approval.kind() == "outcome";
  std::string out =
      paint(Colour::bold, (question ? "Unknown outcome " : "Approval ") + safe(approval.approval_id())) +
      " (" + safe(approval.status()) + ") of " + safe(approval.run_id()) + "\n";
  out += label("tool") + safe(approval.tool()) + ", level " + std::to_string(approval.level()) + "\n";
  out += label("for") + safe(approval.tenant() + "/" + approval.user()) + "\n";
  const auto request = ordered_json::parse(approval.request(), nullptr, false);
  if (request.is_object()) {
    // What a person looks for first; then whatever else there is; the parts, which may be long, at the end.
    static const std::set<std::string> kPlaced = {
        "target", "reason", "parts", "tool", "level", "arguments_digest", "sent_ms", "unknown_since_ms"};
    for (const char* name : {"target", "reason"}) {
      if (request.contains(name))
        out += label(name) + safe_block(plain(request[name]), std::string(20, ' ')) + "\n";
    }
    for (const auto& [name, value] : request.items()) {
      if (kPlaced.contains(name)) continue;
      if (name == "arguments") {
        out += argument_lines(value);
        continue;
      }
      out += label(safe(name)) + safe_block(plain(value), std::string(20, ' ')) + "\n";
    }
    if (request.contains("parts") && request["parts"].is_array()) {
      for (const auto& part : request["parts"]) {
        if (part.is_object()) out += part_lines(part);
      }
    }
  } else if (!approval.request().empty()) {
    out += label("request") + safe_block(approval.request(), std::string(20, ' ')) + "\n";
  }
  out += label("arguments digest") + engine::base::to_hex(approval.arguments_digest()) + "\n";
  if (question && request.is_object()) {
    out += label("sent") + show_time(request.value("sent_ms", std::int64_t{0})) + ", unknown since " +
           show_time(request.value("unknown_since_ms", std::int64_t{0})) + "\n";
  }
  out += label("asked") + show_time(approval.asked_ms());
  if (!question) out += ", expires " + show_time(approval.expires_ms());
  out += "\n";
  if (question && approval.status() == "waiting") {
    out += label("answer with") + session.hint("settle " + approval.approval_id()) +
           " done|not-done|again, once you know\n";
  }
  for (const auto& verdict : approval.verdicts()) {
    static constexpr const char* kOutcomes[] = {"", "done, says", "not done, says", "again, says"};
    const auto outcome = static_cast<std::size_t>(verdict.outcome());
    const bool answered = outcome > 0 && outcome < std::size(kOutcomes);
    out += label(answered            ? kOutcomes[outcome]
                 : verdict.approve() ? "approved by"
                                     : "denied by") +
           safe(verdict.who()) + ", " + show_time(verdict.at_ms()) + "\n";
  }
  return out;
}

}  // namespace sandglass::replay_tools::cli
