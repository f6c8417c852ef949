// What a filter consists of. Internal to engine/run/view.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/run/view/filter.h"

namespace sandglass::engine::run::view {

namespace filter {

enum class Field : std::uint8_t {
  id,
  status,
  workflow,
  version,
  user,
  session,
  tenant,
  phase,
  started,
  closed,
  code,
  questions,
  cancel_asked,
  attribute
};
/// any: of an attribute, which says itself what it is.
enum class Type : std::uint8_t { text, time, number, yes_or_no, any };
enum class Op : std::uint8_t { equal, unequal, less, at_most, greater, at_least, starts_with, among };
using Value = std::variant<std::string, std::int64_t, double, bool>;

struct FieldRow {
  std::string_view name;
  Field field = Field::id;
  Type type = Type::text;
};

/// Milliseconds since 1970, of "2026-11-01", or with a time of day and "Z" or an offset.
std::optional<std::int64_t> parse_time(std::string_view text);

}  // namespace filter

struct Filter::Node {
  enum class Kind : std::uint8_t { all, any, none, compare };
  Kind kind = Kind::compare;
  std::vector<std::shared_ptr<const Node>> parts;  // of `none` one
  filter::FieldRow field{};
  std::string attribute;  // its name
  filter::Op op = filter::Op::equal;
  std::vector<filter::Value> values;
};

}  // namespace sandglass::engine::run::view
