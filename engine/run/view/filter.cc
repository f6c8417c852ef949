#include "engine/run/view/filter.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <optional>
#include <utility>

#include "engine/run/view/attributes.h"
#include "engine/run/view/filter_node.h"

namespace sandglass::engine::run::view {

namespace {

using filter::Field;
using filter::Op;
using filter::Value;
using Node = Filter::Node;
using NodePtr = std::shared_ptr<const Node>;
constexpr double kExact = 9007199254740992.0;  // 2^53
using Order = std::optional<std::partial_ordering>;

/// What a run has under a field; nothing: it has none.
std::optional<Value> value_of(Field field, const core::StreamId& stream, const RunRow& row) {
  switch (field) {
    case Field::id:
      return stream.text();
    case Field::status:
      return std::string(name_of(row.status));
    case Field::workflow:
      return row.workflow;
    case Field::version:
      return row.version;
    case Field::user:
      return row.user;
    case Field::session:
      return row.session;
    case Field::tenant:
      return row.tenant;
    case Field::phase:
      return std::string(name_of(row.phase));
    case Field::started:
      return row.started_ms;
    case Field::closed:
      return row.closed_ms == 0 ? std::nullopt : std::optional<Value>(row.closed_ms);
    case Field::code:
      return static_cast<std::int64_t>(row.code);
    case Field::questions:
      return static_cast<std::int64_t>(row.questions);
    case Field::cancel_asked:
      return row.cancel_requested;
    case Field::attribute:
      break;
  }
  return std::nullopt;
}

bool fits(Op op, std::partial_ordering order) {
  switch (op) {
    case Op::equal:
    case Op::among:
      return order == 0;
    case Op::unequal:
      return order != 0;
    case Op::less:
      return order < 0;
    case Op::at_most:
      return order <= 0;
    case Op::greater:
      return order > 0;
    case Op::at_least:
      return order >= 0;
    case Op::starts_with:
      break;
  }
  return false;
}

/// How a value stands to what the filter has; nothing: they cannot be compared.
Order order_of(const Value& value, const Value& other) {
  if (value.index() != other.index()) return std::nullopt;
  return value <=> other;
}

/// An attribute's kind decides how the filter's value is read.
Order order_of(const AttributeValue& value, const Value& other) {
  const auto* text = std::get_if<std::string>(&other);
  const auto* whole = std::get_if<std::int64_t>(&other);
  if (const auto* keyword = std::get_if<std::string>(&value)) {
    if (text != nullptr) return *keyword <=> *text;
  } else if (const auto* time = std::get_if<AttributeTime>(&value)) {
    const auto ms = text == nullptr ? std::nullopt : filter::parse_time(*text);
    if (ms) return time->ms <=> *ms;
  } else if (const auto* yes = std::get_if<bool>(&value)) {
    if (const auto* same = std::get_if<bool>(&other)) return *yes <=> *same;
  } else {
    const auto* integer = std::get_if<std::int64_t>(&value);
    if (integer != nullptr && whole != nullptr) return *integer <=> *whole;
    // Beyond 2^53 a fraction's place holder stands for many whole numbers, and is equal to none.
    if (integer != nullptr && std::abs(static_cast<double>(*integer)) > kExact) return std::nullopt;
    const double mine = integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value);
    if (whole != nullptr) return mine <=> static_cast<double>(*whole);
    if (const auto* number = std::get_if<double>(&other)) return mine <=> *number;
  }
  return std::nullopt;
}

template <class Of>
bool compares(const Node& node, const Of& value) {
  if (node.op == Op::starts_with) {
    const auto* text = std::get_if<std::string>(&value);
    return text != nullptr && text->starts_with(std::get<std::string>(node.values[0]));
  }
  return std::ranges::any_of(node.values, [&](const Value& one) {
    const Order order = order_of(value, one);
    return order && fits(node.op, *order);
  });
}

bool holds(const Node& node, const core::StreamId& stream, const RunRow& row,
           const AttributesFn& attributes) {
  const auto part_holds = [&](const NodePtr& part) { return holds(*part, stream, row, attributes); };
  switch (node.kind) {
    case Node::Kind::all:
      return std::ranges::all_of(node.parts, part_holds);
    case Node::Kind::any:
      return std::ranges::any_of(node.parts, part_holds);
    case Node::Kind::none:
      return !part_holds(node.parts[0]);
    case Node::Kind::compare:
      break;
  }
  if (node.field.field == Field::attribute) {
    const Attributes& all = attributes();
    const auto found = all.find(node.attribute);
    return found != all.end() && compares(node, found->second);
  }
  const auto value = value_of(node.field.field, stream, row);
  return value && compares(node, *value);
}

/// Bounds that hold of whatever the node chooses; of what is alternative or negated nothing is said.
void narrow(const Node& node, StartedWithin& within) {
  if (node.kind == Node::Kind::all) {
    for (const NodePtr& part : node.parts) narrow(*part, within);
  }
  if (node.kind != Node::Kind::compare || node.field.field != Field::started) return;
  const std::int64_t time = std::get<std::int64_t>(node.values[0]);
  const bool from = node.op == Op::equal || node.op == Op::greater || node.op == Op::at_least;
  const bool until = node.op == Op::equal || node.op == Op::less || node.op == Op::at_most;
  if (from) within.first_ms = std::max(within.first_ms, time + (node.op == Op::greater ? 1 : 0));
  if (until) within.last_ms = std::min(within.last_ms, time + (node.op == Op::less ? 0 : 1));
}

/// Each kind of attribute that the value may be equal to.
void add_matches(const std::string& name, const Value& value, std::vector<std::uint32_t>& matches) {
  const auto add = [&](const AttributeValue& one) { matches.push_back(match_of(name, one)); };
  if (const auto* text = std::get_if<std::string>(&value)) {
    add(*text);
    if (const auto ms = filter::parse_time(*text)) add(AttributeTime{*ms});
  } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    add(*whole);
    add(static_cast<double>(*whole));
  } else if (const auto* number = std::get_if<double>(&value)) {
    add(*number);
    if (std::trunc(*number) == *number && std::abs(*number) <= kExact)
      add(static_cast<std::int64_t>(*number));
  } else {
    add(std::get<bool>(value));
  }
}

/// An attribute that must be equal to something, if there is one; of several the one with the fewest values.
const Node* equal_attribute(const Node& node) {
  if (node.kind == Node::Kind::compare) {
    const bool equal = node.op == Op::equal || node.op == Op::among;
    return node.field.field == Field::attribute && equal ? &node : nullptr;
  }
  if (node.kind != Node::Kind::all) return nullptr;
  const Node* best = nullptr;
  for (const NodePtr& part : node.parts) {
    const Node* one = equal_attribute(*part);
    if (one != nullptr && (best == nullptr || one->values.size() < best->values.size())) best = one;
  }
  return best;
}

}  // namespace

bool Filter::chooses(const core::StreamId& stream, const RunRow& row, const AttributesFn& attributes) const {
  return root_ == nullptr || holds(*root_, stream, row, attributes);
}

bool Filter::chooses(const core::StreamId& stream, const RunRow& row) const {
  static const Attributes kNone;
  return chooses(stream, row, []() -> const Attributes& { return kNone; });
}

std::optional<std::vector<std::uint32_t>> Filter::matches() const {
  const Node* node = root_ == nullptr ? nullptr : equal_attribute(*root_);
  if (node == nullptr) return std::nullopt;
  std::vector<std::uint32_t> matches;
  for (const Value& value : node->values) add_matches(node->attribute, value, matches);
  std::ranges::sort(matches);
  matches.erase(std::ranges::unique(matches).begin(), matches.end());
  return matches;
}

StartedWithin Filter::started_within() const {
  StartedWithin within;
  if (root_ != nullptr) narrow(*root_, within);
  return within;
}

}  // namespace sandglass::engine::run::view
