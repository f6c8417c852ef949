// Strict reading of a YAML mapping: every key is asked for, every other key is an error with its line.
// Included by config.cc alone (yaml-cpp is a heavy header).
#pragma once

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::engine::server {

/// Collects the first error and lets the rest of the reading go on without effect.
class YamlProblems {
 public:
  /// `lines`: whether what is read has lines that a person could look up.
  explicit YamlProblems(std::string name, bool lines = true) : name_(std::move(name)), lines_(lines) {}

  void add(const YAML::Node& node, const std::string& what) {
    if (first_.empty()) first_ = where(node) + ": " + what;
  }
  std::string where(const YAML::Node& node) const {
    const auto mark = node.Mark();
    return mark.is_null() || !lines_ ? name_ : name_ + ":" + std::to_string(mark.line + 1);
  }
  bool any() const { return !first_.empty(); }
  const std::string& first() const { return first_; }

 private:
  std::string name_;
  bool lines_;
  std::string first_;
};

using YamlHandler = std::function<void(const YAML::Node&)>;
using YamlKeys = std::vector<std::pair<std::string, YamlHandler>>;

/// Calls the handler of each key that is there; `path` names the mapping in messages ("" for the top).
inline void read_mapping(const YAML::Node& node, const std::string& path, YamlProblems& problems,
                         const YamlKeys& keys) {
  if (node.IsNull()) return;
  if (!node.IsMap()) {
    problems.add(node, (path.empty() ? "the file" : "'" + path + "'") + " must be a mapping (key: value)");
    return;
  }
  std::vector<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      problems.add(entry.first, "a key must be plain text");
      continue;
    }
    const auto key = entry.first.Scalar();
    const std::string full = path.empty() ? key : path + "." + key;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      problems.add(entry.first, "'" + full + "' is there twice; remove one");
    }
    seen.push_back(key);
    const auto known = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.first == key; });
    if (known != keys.end()) {
      known->second(entry.second);
      continue;
    }
    std::string names;
    for (const auto& k : keys) names += (names.empty() ? "" : ", ") + k.first;
    problems.add(entry.first, "unknown key '" + full + "'; known here: " + names);
  }
}

inline YamlHandler read_list(const std::string& path, YamlProblems& problems, YamlHandler each) {
  return [=, &problems](const YAML::Node& node) {
    if (!node.IsSequence()) return problems.add(node, "'" + path + "' must be a list");
    for (const auto& item : node) each(item);
  };
}

inline YamlHandler read_text(const std::string& path, YamlProblems& problems, std::string& out) {
  return [=, &problems, &out](const YAML::Node& node) {
    if (!node.IsScalar()) return problems.add(node, "'" + path + "' must be text");
    out = node.Scalar();
  };
}

inline YamlHandler read_bool(const std::string& path, YamlProblems& problems, bool& out) {
  return [=, &problems, &out](const YAML::Node& node) {
    if (node.IsScalar() && (node.Scalar() == "true" || node.Scalar() == "false")) {
      out = node.Scalar() == "true";
      return;
    }
    problems.add(node, "'" + path + "' must be true or false");
  };
}

template <class Number>
YamlHandler read_number(const std::string& path, YamlProblems& problems, Number& out, std::uint64_t least = 0,
                        std::uint64_t most = std::numeric_limits<Number>::max()) {
  return [=, &problems, &out](const YAML::Node& node) {
    std::uint64_t value = 0;
    const std::string text = node.IsScalar() ? node.Scalar() : std::string();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least ||
        value > most) {
      return problems.add(node, "'" + path + "' must be a whole number from " + std::to_string(least) +
                                    " to " + std::to_string(most));
    }
    out = static_cast<Number>(value);
  };
}

}  // namespace sandglass::engine::server
