#include "activities/agent/plan_values.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/base/text.h"

namespace sandglass::activities::agent {

namespace {

using taskfile::Condition;

constexpr std::size_t kMaxMatches = 1'000;
constexpr int kMaxGroups = 10;
/// A task of one MiB can name a value a hundred thousand times; nothing that is larger could be kept anyway.
constexpr std::size_t kMaxFilled = std::size_t{8} << 20;

/// Of all results, which stay as long as the plan runs.
constexpr std::size_t kMaxKept = std::size_t{64} << 20;

std::unexpected<base::Error> bad(std::string what) {
  return base::fail(base::Code::arguments_invalid, std::move(what));
}

std::size_t size_of(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  return value.is_structured() ? value.dump().size() : sizeof(double);
}

/// Takes so much of `room`.
base::Status take(std::size_t& room, std::size_t bytes) {
  if (bytes > room) {
    return bad("with its values filled in it has more than " + std::to_string(kMaxFilled >> 20) +
               " MiB; put large things into files");
  }
  room -= bytes;
  return {};
}

/// A scalar as it stands inside a longer text.
base::Result<std::string> text_of(const Json& value, std::string_view path) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return bad("${" + std::string(path) + "} is no single value and cannot stand inside a text");
}

RE2::Options options() {
  RE2::Options made;
  made.set_log_errors(false);
  made.set_max_mem(1 << 20);
  return made;
}

base::Result<bool> matches(const Json& value, const Json& pattern) {
  if (!pattern.is_string()) return bad("\"matches\" needs a regular expression");
  const RE2 regex("(?m)" + pattern.get<std::string>(), options());
  if (!regex.ok()) return bad("the regular expression " + pattern.dump() + " is not valid: " + regex.error());
  if (value.is_null()) return false;
  return RE2::PartialMatch(value.is_string() ? value.get<std::string>() : value.dump(), regex);
}

base::Result<bool> contains(const Json& value, const Json& part) {
  if (value.is_null()) return false;
  if (value.is_array()) return std::ranges::find(value, part) != value.end();
  if (value.is_string() && part.is_string()) {
    return value.get_ref<const std::string&>().find(part.get_ref<const std::string&>()) != std::string::npos;
  }
  return bad("\"contains\" looks for a text in a text, or for an item in a list");
}

base::Result<bool> compare(Condition::Test test, const Json& value, const Json& operand) {
  switch (test) {
    case Condition::Test::equals:
      return value == operand;
    case Condition::Test::matches:
      return matches(value, operand);
    case Condition::Test::contains:
      return contains(value, operand);
    case Condition::Test::defined:
      return value.is_null() != operand.get<bool>();
    default:
      break;
  }
  if (!value.is_number() || !operand.is_number()) return bad("\"less\" and \"greater\" compare numbers");
  return test == Condition::Test::less ? value < operand : value > operand;
}

Json matches_of(const RE2& regex, const std::string& text, int group, bool all) {
  Json found = Json::array();
  std::array<re2::StringPiece, kMaxGroups> groups;
  std::size_t at = 0;
  while (at <= text.size() && found.size() < kMaxMatches) {
    if (!regex.Match(text, at, text.size(), RE2::UNANCHORED, groups.data(), group + 1)) break;
    const re2::StringPiece& piece = groups[static_cast<std::size_t>(group)];
    if (!all) return Json(std::string(piece.data(), piece.size()));
    found.push_back(std::string(piece.data(), piece.size()));
    const auto end = static_cast<std::size_t>(groups[0].data() - text.data()) + groups[0].size();
    at = groups[0].empty() ? end + 1 : end;
  }
  return all ? found : Json();
}

/// A match of "\C" is one byte, which no JSON holds.
bool is_text(const Json& found) {
  if (found.is_array()) return std::ranges::all_of(found, is_text);
  return !found.is_string() || base::is_utf8(found.get_ref<const std::string&>());
}

}  // namespace

const Json* field_of(const Json& result, std::string_view path) {
  const Json* at = &result;
  while (!path.empty()) {
    const std::string part(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (at->is_object()) {
      const auto found = at->find(part);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else if (at->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size() || index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

base::Status extract_into(Json& result, const std::vector<taskfile::Extract>& extracts) {
  std::size_t room = kMaxFilled;
  for (const taskfile::Extract& extract : extracts) {
    const Json* from = field_of(result, extract.from);
    if (extract.regex.empty()) {
      Json found = from == nullptr ? Json() : Json(*from);
      if (auto taken = take(room, size_of(found)); !taken) return taken;
      result[extract.name] = std::move(found);
      continue;
    }
    if (from == nullptr || !from->is_string()) {
      return bad("extract \"" + extract.name + "\": the result has no text \"" + extract.from + "\"");
    }
    const RE2 regex("(?m)" + extract.regex, options());
    if (!regex.ok())
      return bad("extract \"" + extract.name + "\": the regular expression is not valid: " + regex.error());
    if (extract.group < 0 || extract.group > regex.NumberOfCapturingGroups() || extract.group >= kMaxGroups) {
      return bad("extract \"" + extract.name + "\": the regular expression has no group " +
                 std::to_string(extract.group));
    }
    Json found = matches_of(regex, from->get_ref<const std::string&>(), extract.group, extract.all);
    if (!is_text(found)) {
      return bad("extract \"" + extract.name + "\": a match is a part of a character; leave out \"\\C\"");
    }
    if (auto taken = take(room, size_of(found)); !taken) return taken;
    result[extract.name] = std::move(found);
  }
  return {};
}

PlanValues::PlanValues(const std::map<std::string, std::string>& parameters) {
  values_["param"] = Json::object();
  for (const auto& [name, value] : parameters) values_["param"][name] = value;
}

base::Status PlanValues::set(const std::string& action, Json result) {
  kept_ += size_of(result);
  if (kept_ > kMaxKept) {
    return bad("with its result the plan's results have more than " + std::to_string(kMaxKept >> 20) +
               " MiB together; extract less, and put large things into files");
  }
  values_[action] = std::move(result);
  return {};
}

const Json* PlanValues::find(std::string_view path) const {
  return field_of(values_, path);
}

std::vector<std::string> PlanValues::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_.items()) names.push_back(name);
  return names;
}

base::Result<Json> PlanValues::fill(std::string_view text) const {
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return bad("the arguments are no JSON");
  std::size_t room = kMaxFilled;
  return filled(parsed, room);
}

base::Result<Json> PlanValues::filled(const Json& value, std::size_t& room) const {
  if (value.is_string()) return filled_text(value.get_ref<const std::string&>(), room);
  if (!value.is_structured()) return value;
  Json out = value;
  for (auto& item : out) {
    auto inner = filled(item, room);
    if (!inner) return inner;
    item = *std::move(inner);
  }
  return out;
}

base::Result<Json> PlanValues::filled_text(const std::string& text, std::size_t& room) const {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = text.find("${", at);
    if (open == std::string::npos) break;
    out += std::string_view(text).substr(at, open - at);
    if (open > at && text[open - 1] == '$') {  // "$${"
      out += '{';
      at = open + 2;
      continue;
    }
    const std::size_t close = text.find('}', open);
    if (close == std::string::npos) return bad("\"${\" without \"}\" in " + Json(text).dump());
    const std::string path = text.substr(open + 2, close - open - 2);
    const Json* value = find(path);
    if (value == nullptr)
      return bad("there is no value ${" + path + "}: its action was skipped or has no such field");
    if (auto taken = take(room, size_of(*value)); !taken) return std::unexpected(taken.error());
    if (open == 0 && close + 1 == text.size()) return *value;
    auto piece = text_of(*value, path);
    if (!piece) return std::unexpected(piece.error());
    out += *piece;
    at = close + 1;
  }
  return Json(out + text.substr(std::min(at, text.size())));
}

base::Result<Json> PlanValues::value_or_null(const std::string& json) const {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_string()) {
    const auto& text = parsed.get_ref<const std::string&>();
    const bool one = text.starts_with("${") && text.find('}') == text.size() - 1;
    if (one && find(std::string_view(text).substr(2, text.size() - 3)) == nullptr) return Json();
  }
  std::size_t room = kMaxFilled;
  return filled(parsed, room);
}

base::Result<bool> PlanValues::holds(const Condition& condition) const {
  switch (condition.test) {
    case Condition::Test::always:
      return true;
    case Condition::Test::all:
    case Condition::Test::any: {
      const bool wanted = condition.test == Condition::Test::any;
      for (const Condition& part : condition.parts) {
        auto held = holds(part);
        if (!held || *held == wanted) return held;
      }
      return !wanted;
    }
    case Condition::Test::none: {
      for (const Condition& part : condition.parts) {
        auto held = holds(part);
        if (!held) return held;
        if (*held) return false;
      }
      return true;
    }
    default:
      break;
  }
  const auto value = value_or_null(condition.value);
  if (!value) return std::unexpected(value.error());
  const auto operand = value_or_null(condition.operand);
  if (!operand) return std::unexpected(operand.error());
  return compare(condition.test, *value, *operand);
}

}  // namespace sandglass::activities::agent
