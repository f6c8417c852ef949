// Search attributes: what a workflow says of its run so that it can be found (E10). User content: recorded in
// a slot, as JSON {"order": {"keyword": "A-17"}, "amount": {"integer": 12}}; the other kinds are "float",
// "bool" and "time" (milliseconds since 1970).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace sandglass::engine::run {

struct AttributeTime {
  std::int64_t ms = 0;
  friend auto operator<=>(const AttributeTime&, const AttributeTime&) = default;
};
using AttributeValue = std::variant<std::string, std::int64_t, double, bool, AttributeTime>;
using Attributes = std::map<std::string, AttributeValue, std::less<>>;

inline constexpr std::size_t kMostAttributes = 32;
inline constexpr std::size_t kLongestAttribute = 256;  // bytes of a keyword
inline constexpr std::size_t kLongestAttributeName = 64;

/// Letters, digits and "_", so that filters need no quotes for it.
inline bool is_attribute_name(std::string_view name) {
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
      return false;
  }
  return !name.empty() && name.size() <= kLongestAttributeName;
}

}  // namespace sandglass::engine::run
