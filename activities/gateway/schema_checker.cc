#include <algorithm>
#include <cmath>
#include <set>

#include "activities/gateway/schema_impl.h"
#include "engine/base/text.h"

namespace sandglass::activities::gateway {

namespace {

constexpr int kMaxDepth = 200;

bool is_integer(const Json& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  return std::isfinite(number) && std::trunc(number) == number;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return is_integer(value);
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

const Json* find(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

/// A count keyword; compile() has checked that it is a non-negative integer.
bool below(const Json& schema, const char* keyword, std::size_t count) {
  const Json* limit = find(schema, keyword);
  return limit != nullptr && count < limit->get<std::uint64_t>();
}
bool above(const Json& schema, const char* keyword, std::size_t count) {
  const Json* limit = find(schema, keyword);
  return limit != nullptr && count > limit->get<std::uint64_t>();
}

}  // namespace

std::string SchemaChecker::check(const Json& schema, const Json& value) {
  const bool ok = valid(schema, value, "");
  if (out_of_budget_) return "the value is too deep or too complex for this schema";
  return ok ? std::string() : fault_;
}

bool SchemaChecker::fail(const std::string& place, const std::string& what) {
  constexpr std::size_t kShown = 400;  // what a schema lists may be long
  const bool cut = what.size() > kShown;
  fault_ = (place.empty() ? "the value" : base::escape_for_terminal(place.substr(0, kShown))) + ": " +
           base::escape_for_terminal(cut ? what.substr(0, kShown) + "..." : what);
  return false;
}

bool SchemaChecker::matches(const std::string& pattern, const std::string& text) const {
  return RE2::PartialMatch(text, *patterns_.find(pattern)->second);
}

bool SchemaChecker::quietly(const Json& schema, const Json& value, const std::string& place) {
  const std::string before = fault_;
  const bool ok = valid(schema, value, place);
  fault_ = before;
  return ok;
}

bool SchemaChecker::valid(const Json& schema, const Json& value, const std::string& place) {
  if (out_of_budget_ || --steps_ < 0 || depth_ >= kMaxDepth) {
    out_of_budget_ = true;
    return false;
  }
  if (schema.is_boolean()) return schema.get<bool>() || fail(place, "is not allowed here");
  ++depth_;
  const auto ref = refs_.find(&schema);
  const bool ok = (ref == refs_.end() || valid(*ref->second, value, place)) &&
                  type_and_value(schema, value, place) && numbers(schema, value, place) &&
                  strings(schema, value, place) && arrays(schema, value, place) &&
                  objects(schema, value, place) && combinations(schema, value, place);
  --depth_;
  return ok;
}

bool SchemaChecker::type_and_value(const Json& schema, const Json& value, const std::string& place) {
  if (const Json* type = find(schema, "type")) {
    const bool ok = type->is_string() ? has_type(value, type->get_ref<const std::string&>())
                                      : std::ranges::any_of(*type, [&](const Json& one) {
                                          return has_type(value, one.get<std::string>());
                                        });
    if (!ok) return fail(place, "must be of type " + type->dump() + ", is " + value.type_name());
  }
  if (const Json* allowed = find(schema, "enum")) {
    if (std::ranges::find(*allowed, value) == allowed->end())
      return fail(place, "must be one of " + allowed->dump());
  }
  if (const Json* only = find(schema, "const"); only != nullptr && *only != value) {
    return fail(place, "must be " + only->dump());
  }
  return true;
}

bool SchemaChecker::numbers(const Json& schema, const Json& value, const std::string& place) {
  if (!value.is_number()) return true;
  if (const Json* low = find(schema, "minimum"); low != nullptr && value < *low)
    return fail(place, "is below " + low->dump());
  if (const Json* high = find(schema, "maximum"); high != nullptr && value > *high)
    return fail(place, "is above " + high->dump());
  if (const Json* low = find(schema, "exclusiveMinimum"); low != nullptr && value <= *low) {
    return fail(place, "must be above " + low->dump());
  }
  if (const Json* high = find(schema, "exclusiveMaximum"); high != nullptr && value >= *high) {
    return fail(place, "must be below " + high->dump());
  }
  if (const Json* step = find(schema, "multipleOf")) {
    const double quotient = value.get<double>() / step->get<double>();
    if (!std::isfinite(quotient) || std::fabs(quotient - std::round(quotient)) > 1e-9) {
      return fail(place, "must be a multiple of " + step->dump());
    }
  }
  return true;
}

bool SchemaChecker::strings(const Json& schema, const Json& value, const std::string& place) {
  if (!value.is_string()) return true;
  const auto& text = value.get_ref<const std::string&>();
  const std::size_t length = code_points(text);
  if (below(schema, "minLength", length)) return fail(place, "is shorter than minLength");
  if (above(schema, "maxLength", length)) return fail(place, "is longer than maxLength");
  if (const Json* pattern = find(schema, "pattern");
      pattern != nullptr && !matches(pattern->get_ref<const std::string&>(), text)) {
    return fail(place, "does not match the pattern " + pattern->dump());
  }
  return true;
}

bool SchemaChecker::arrays(const Json& schema, const Json& value, const std::string& place) {
  if (!value.is_array()) return true;
  if (below(schema, "minItems", value.size())) return fail(place, "has fewer items than minItems");
  if (above(schema, "maxItems", value.size())) return fail(place, "has more items than maxItems");
  const Json* items = find(schema, "items");
  const Json* prefix = find(schema, "prefixItems");
  if (items != nullptr && items->is_array()) {  // draft-07: a list of schemas, then additionalItems
    prefix = items;
    items = find(schema, "additionalItems");
  }
  const std::size_t fixed = prefix == nullptr ? 0 : prefix->size();
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json* one = i < fixed ? &(*prefix)[i] : items;
    if (one != nullptr && !valid(*one, value[i], place + "/" + std::to_string(i))) return false;
  }
  if (const Json* unique = find(schema, "uniqueItems"); unique != nullptr && unique->get<bool>()) {
    std::set<Json> seen;
    for (const Json& item : value) {
      if (!seen.insert(item).second) return fail(place, "has equal items");
    }
  }
  if (const Json* contains = find(schema, "contains")) {
    const bool found =
        std::ranges::any_of(value, [&](const Json& item) { return quietly(*contains, item, place); });
    if (!found) return fail(place, "has no item that fits \"contains\"");
  }
  return true;
}

bool SchemaChecker::objects(const Json& schema, const Json& value, const std::string& place) {
  if (!value.is_object()) return true;
  if (below(schema, "minProperties", value.size())) return fail(place, "has fewer fields than minProperties");
  if (above(schema, "maxProperties", value.size())) return fail(place, "has more fields than maxProperties");
  if (const Json* required = find(schema, "required")) {
    for (const Json& name : *required) {
      if (!value.contains(name.get_ref<const std::string&>()))
        return fail(place, "needs the field " + name.dump());
    }
  }
  if (const Json* dependent = find(schema, "dependentRequired")) {
    for (const auto& [name, others] : dependent->items()) {
      if (!value.contains(name)) continue;
      for (const Json& other : others) {
        if (!value.contains(other.get_ref<const std::string&>()))
          return fail(place, "with \"" + name + "\" it needs " + other.dump());
      }
    }
  }
  return members(schema, value, place);
}

bool SchemaChecker::members(const Json& schema, const Json& value, const std::string& place) {
  const Json* properties = find(schema, "properties");
  const Json* by_pattern = find(schema, "patternProperties");
  const Json* others = find(schema, "additionalProperties");
  const Json* names = find(schema, "propertyNames");
  for (const auto& [name, member] : value.items()) {
    const std::string inner = place + "/" + name;
    if (names != nullptr && !valid(*names, Json(name), inner)) return false;
    bool known = false;
    if (properties != nullptr) {
      if (const auto found = properties->find(name); found != properties->end()) {
        known = true;
        if (!valid(*found, member, inner)) return false;
      }
    }
    if (by_pattern != nullptr) {
      for (const auto& [pattern, one] : by_pattern->items()) {
        if (!matches(pattern, name)) continue;
        known = true;
        if (!valid(one, member, inner)) return false;
      }
    }
    if (known || others == nullptr) continue;
    if (others->is_boolean() && !others->get<bool>()) return fail(inner, "is an unknown field");
    if (!valid(*others, member, inner)) return false;
  }
  return true;
}

bool SchemaChecker::combinations(const Json& schema, const Json& value, const std::string& place) {
  if (const Json* all = find(schema, "allOf")) {
    for (const Json& one : *all) {
      if (!valid(one, value, place)) return false;
    }
  }
  if (const Json* any = find(schema, "anyOf")) {
    const bool found = std::ranges::any_of(*any, [&](const Json& one) { return quietly(one, value, place); });
    if (!found) return fail(place, "fits none of \"anyOf\"");
  }
  if (const Json* one_of = find(schema, "oneOf")) {
    const auto fitting =
        std::ranges::count_if(*one_of, [&](const Json& one) { return quietly(one, value, place); });
    if (fitting != 1)
      return fail(place, "must fit exactly one of \"oneOf\", fits " + std::to_string(fitting));
  }
  if (const Json* none = find(schema, "not"); none != nullptr && quietly(*none, value, place)) {
    return fail(place, "fits what \"not\" excludes");
  }
  if (const Json* condition = find(schema, "if")) {
    const Json* then = find(schema, quietly(*condition, value, place) ? "then" : "else");
    if (then != nullptr && !valid(*then, value, place)) return false;
  }
  return !out_of_budget_;
}

}  // namespace sandglass::activities::gateway
