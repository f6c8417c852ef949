#include "activities/agent/taskfile/document.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "engine/base/text.h"

namespace sandglass::activities::agent::taskfile {

namespace {

/// A field is looked for among all, one after another.
constexpr std::size_t kMaxFields = 1'000;

std::string type_of(const nlohmann::ordered_json& value) {
  if (value.is_string()) return "a text";
  if (value.is_boolean()) return "true or false";
  if (value.is_number()) return "a number";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a mapping";
  return "nothing";
}

std::string token(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void Faults::add(const Node& at, std::string_view what) {
  if (lines_.size() >= kMaxFaults) return;
  Place place;
  std::string line = document_.file;
  // The nearest place that is known: of the value, else of what it stands in.
  std::string pointer = at.pointer;
  for (;;) {
    const auto found = document_.places.find(pointer);
    if (found != document_.places.end()) {
      place = found->second;
      line += ":" + std::to_string(found->second.line) + ":" + std::to_string(found->second.column);
      break;
    }
    if (pointer.empty()) {
      line += at.pointer;  // JSON has no lines: the pointer says where
      break;
    }
    pointer.resize(pointer.rfind('/'));
  }
  const auto before = [](const Place& left, const Line& right) {
    return std::pair(left.line, left.column) < std::pair(right.place.line, right.place.column);
  };
  lines_.insert(std::upper_bound(lines_.begin(), lines_.end(), place, before),
                {place, line + ": " + std::string(what)});
}

std::unexpected<base::Error> Faults::error() const {
  std::string message;
  for (const Line& line : lines_) message += (message.empty() ? "" : "\n") + line.text;
  return base::fail(base::Code::task_invalid, message);
}

Fields::Fields(Node node, std::string_view what, Faults& faults)
    : node_(std::move(node)), what_(what), faults_(faults) {
  if (node_ && !node_.value->is_object()) {
    faults_.add(node_, what_ + " must be a mapping of fields, not " + type_of(*node_.value));
    node_.value = nullptr;
  }
  if (node_ && node_.value->size() > kMaxFields) {
    faults_.add(node_, what_ + " has more than 1,000 fields; that is too many");
    node_.value = nullptr;
  }
}

Fields::~Fields() {
  if (!node_) return;
  for (const auto& [name, value] : node_.value->items()) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    std::string hint;
    std::set<std::string_view> told;  // a field may have been asked for twice
    for (const std::string& known : known_) {
      if (told.insert(known).second) hint += (hint.empty() ? "" : ", ") + known;
    }
    faults_.add({&value, node_.pointer + "/" + token(name)},
                "unknown field \"" + base::escape_for_terminal(name) + "\" in " + what_ +
                    (hint.empty() ? "" : "; known are: " + hint));
  }
}

bool Fields::has(std::string_view name) const {
  return node_ && node_.value->contains(std::string(name));
}

std::vector<std::string> Fields::names() const {
  std::vector<std::string> names;
  if (!node_) return names;
  for (const auto& [name, value] : node_.value->items()) names.push_back(name);
  return names;
}

Node Fields::get(std::string_view name) {
  known_.emplace_back(name);
  if (!has(name)) return {};
  return {&node_.value->at(std::string(name)), node_.pointer + "/" + token(name)};
}

Node Fields::require(std::string_view name) {
  const Node found = get(name);
  if (!found && node_) faults_.add(node_, what_ + " needs the field \"" + std::string(name) + "\"; add it");
  return found;
}

bool take_text(const Node& node, std::string_view what, Faults& faults, std::string& out) {
  if (!node) return false;
  if (!node.value->is_string()) {
    const bool single = node.value->is_number() || node.value->is_boolean();
    faults.add(node, std::string(what) + " must be a text, not " + type_of(*node.value) +
                         (single ? "; put it in quotes" : ""));
    return false;
  }
  out = node.value->get<std::string>();
  return true;
}

std::string Fields::text(std::string_view name, std::string fallback) {
  take_text(get(name), "\"" + std::string(name) + "\"", faults_, fallback);
  return fallback;
}

std::string Fields::required_text(std::string_view name) {
  std::string out;
  if (take_text(require(name), "\"" + std::string(name) + "\"", faults_, out) && out.empty()) {
    faults_.add(get(name), "\"" + std::string(name) + "\" must not be empty");
  }
  return out;
}

bool Fields::flag(std::string_view name, bool fallback) {
  const Node node = get(name);
  if (!node) return fallback;
  if (!node.value->is_boolean()) {
    faults_.add(node, "\"" + std::string(name) + "\" must be true or false, not " + type_of(*node.value));
    return fallback;
  }
  return node.value->get<bool>();
}

std::int64_t Fields::number(std::string_view name, std::int64_t fallback, std::int64_t low,
                            std::int64_t high) {
  const Node node = get(name);
  if (!node) return fallback;
  const bool is_signed = node.value->is_number_integer() && !node.value->is_number_unsigned();
  const bool fits = is_signed || (node.value->is_number_unsigned() &&
                                  node.value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (fits) {
    const auto value = node.value->get<std::int64_t>();
    if (value >= low && value <= high) return value;
  }
  faults_.add(node, "\"" + std::string(name) + "\" must be a whole number from " + std::to_string(low) +
                        " to " + std::to_string(high));
  return fallback;
}

std::int64_t Fields::duration(std::string_view name, std::int64_t fallback) {
  const Node node = get(name);
  if (!node) return fallback;
  if (node.value->is_string()) {
    const auto& text = node.value->get_ref<const std::string&>();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    const std::int64_t factor = unit == "ms"  ? 1
                                : unit == "s" ? 1000
                                : unit == "m" ? 60'000
                                : unit == "h" ? 3'600'000
                                              : 0;
    if (error == std::errc() && factor != 0 && value > 0 && value <= 2'592'000'000 / factor)
      return value * factor;
  }
  faults_.add(node, "\"" + std::string(name) + "\" must be a time such as 90s, 5m or 24h (at most 720h)");
  return fallback;
}

std::vector<Node> items_of(const Node& node, std::string_view what, Faults& faults) {
  std::vector<Node> items;
  if (!node) return items;
  if (!node.value->is_array()) {
    faults.add(node, std::string(what) + " must be a list, not " + type_of(*node.value));
    return items;
  }
  for (std::size_t i = 0; i < node.value->size(); ++i) {
    items.push_back({&(*node.value)[i], node.pointer + "/" + std::to_string(i)});
  }
  return items;
}

std::vector<Node> Fields::list(std::string_view name) {
  return items_of(get(name), "\"" + std::string(name) + "\"", faults_);
}

std::vector<std::string> Fields::texts(std::string_view name) {
  std::vector<std::string> out;
  for (const Node& item : list(name)) {
    std::string text;
    if (take_text(item, "each of \"" + std::string(name) + "\"", faults_, text))
      out.push_back(std::move(text));
  }
  return out;
}

}  // namespace sandglass::activities::agent::taskfile
