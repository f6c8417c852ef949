// The parser of filters: recursive descent; the first thing that is wrong ends it.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "engine/run/attributes.h"
#include "engine/run/view/filter_node.h"

namespace sandglass::engine::run::view {

namespace {

using filter::Field;
using filter::FieldRow;
using filter::Op;
using filter::Type;
using Node = Filter::Node;
using NodePtr = std::shared_ptr<const Node>;

constexpr std::array<FieldRow, 13> kFields = {{
    {"id", Field::id, Type::text},
    {"status", Field::status, Type::text},
    {"workflow", Field::workflow, Type::text},
    {"version", Field::version, Type::text},
    {"user", Field::user, Type::text},
    {"session", Field::session, Type::text},
    {"tenant", Field::tenant, Type::text},
    {"phase", Field::phase, Type::text},
    {"started", Field::started, Type::time},
    {"closed", Field::closed, Type::time},
    {"code", Field::code, Type::number},
    {"questions", Field::questions, Type::number},
    {"cancel_asked", Field::cancel_asked, Type::yes_or_no},
}};

struct OpRow {
  std::string_view sign;
  Op op;
};
/// Longer signs first.
constexpr std::array<OpRow, 6> kSigns = {{{"!=", Op::unequal},
                                          {"<=", Op::at_most},
                                          {">=", Op::at_least},
                                          {"=", Op::equal},
                                          {"<", Op::less},
                                          {">", Op::greater}}};

constexpr std::string_view kAttributes = "attributes.";
constexpr int kDeepest = 32;
constexpr std::size_t kMostValues = 256;

/// Digits alone, exactly so many.
std::optional<int> digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}
bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

/// hh:mm[:ss[.f…]] in ms.
std::optional<std::int64_t> time_of_day(std::string_view& text) {
  const auto hour = digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ':')) return std::nullopt;
  const auto minute = digits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  std::int64_t ms = (*hour * 60LL + *minute) * 60'000;
  if (!take(text, ':')) return ms;
  const auto second = digits(text, 2);
  if (!second || *second > 59) return std::nullopt;
  ms += *second * 1000LL;
  if (!take(text, '.')) return ms;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  for (std::int64_t unit = 100; !text.empty() && text.front() >= '0' && text.front() <= '9'; unit /= 10) {
    ms += (text.front() - '0') * unit;
    text.remove_prefix(1);
  }
  return ms;
}

}  // namespace

std::optional<std::int64_t> filter::parse_time(std::string_view text) {
  const auto year = digits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = digits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const std::int64_t midnight = std::chrono::sys_days(date).time_since_epoch().count() * 86'400'000LL;
  if (text.empty()) return midnight;
  if (!take(text, 'T')) return std::nullopt;
  const auto of_day = time_of_day(text);
  if (!of_day) return std::nullopt;
  if (text == "Z") return midnight + *of_day;
  const std::int64_t sign = take(text, '+') ? 1 : take(text, '-') ? -1 : 0;
  if (sign == 0) return std::nullopt;
  const auto hours = digits(text, 2);
  if (!hours || *hours > 23 || !take(text, ':')) return std::nullopt;
  const auto minutes = digits(text, 2);
  if (!minutes || *minutes > 59 || !text.empty()) return std::nullopt;
  return midnight + *of_day - sign * (*hours * 60LL + *minutes) * 60'000;
}

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  base::Result<NodePtr> whole() {
    auto node = any();
    if (!node) return node;
    skip();
    if (at_ < text_.size()) return wrong(at_, "here the filter should end, or go on with \"and\" or \"or\"");
    return node;
  }
  bool empty() {
    skip();
    return at_ == text_.size();
  }

 private:
  std::unexpected<base::Error> wrong(std::size_t at, const std::string& what) const {
    const auto column = 1 + std::ranges::count_if(text_.substr(0, at), [](char c) {
                          return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
                        });
    return base::fail(base::Code::invalid_argument, "filter, column " + std::to_string(column) + ": " + what);
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  std::string_view peek_word() {
    skip();
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take_word(std::string_view word) {
    if (peek_word() != word) return false;
    at_ += word.size();
    return true;
  }
  bool take_sign(std::string_view sign) {
    skip();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  base::Result<NodePtr> any() { return chain(Node::Kind::any, "or", &Parser::all); }
  base::Result<NodePtr> all() { return chain(Node::Kind::all, "and", &Parser::one); }

  base::Result<NodePtr> chain(Node::Kind kind, std::string_view word,
                              base::Result<NodePtr> (Parser::*next)()) {
    auto first = (this->*next)();
    if (!first || peek_word() != word) return first;
    Node node{.kind = kind, .parts = {*first}};
    while (take_word(word)) {
      auto more = (this->*next)();
      if (!more) return more;
      node.parts.push_back(std::move(*more));
    }
    return std::make_shared<const Node>(std::move(node));
  }

  base::Result<NodePtr> one() {
    if (++depth_ > kDeepest) return wrong(at_, "the filter is nested too deep");
    auto made = one_inside();
    --depth_;
    return made;
  }

  base::Result<NodePtr> one_inside() {
    if (take_word("not")) {
      auto inner = one();
      if (!inner) return inner;
      return std::make_shared<const Node>(Node{.kind = Node::Kind::none, .parts = {*inner}});
    }
    if (take_sign("(")) {
      auto inner = any();
      if (!inner) return inner;
      if (!take_sign(")")) return wrong(at_, "a \")\" is missing");
      return inner;
    }
    return comparison();
  }

  base::Result<NodePtr> comparison() {
    const std::string_view word = peek_word();
    if (word.starts_with(kAttributes)) {
      const std::string_view name = word.substr(kAttributes.size());
      if (!is_attribute_name(name))
        return wrong(at_, "a search attribute's name has letters, digits and \"_\" only, and at most " +
                              std::to_string(kLongestAttributeName));
      static constexpr FieldRow kAttribute{"an attribute", Field::attribute, Type::any};
      return comparison_of({.kind = Node::Kind::compare, .field = kAttribute, .attribute = std::string(name)},
                           word.size());
    }
    const auto* field = std::ranges::find(kFields, word, &FieldRow::name);
    if (field == kFields.end()) {
      std::string names;
      for (const FieldRow& each : kFields) names += (names.empty() ? "" : ", ") + std::string(each.name);
      return wrong(at_, (word.empty() ? std::string("a field is missing")
                                      : "there is no field \"" + std::string(word) + "\"") +
                            "; there are " + names + ", attributes.NAME");
    }
    return comparison_of({.kind = Node::Kind::compare, .field = *field}, word.size());
  }

  /// Behind the field's word.
  base::Result<NodePtr> comparison_of(Node node, std::size_t word_size) {
    at_ += word_size;
    skip();
    const std::size_t op_at = at_;
    if (auto op = take_op(); op) {
      node.op = *op;
    } else {
      return wrong(op_at, "after a field comes =, !=, <, <=, >, >=, starts_with or in");
    }
    if (auto fits = check_op(node, op_at); !fits) return std::unexpected(fits.error());
    if (node.op != Op::among) {
      if (auto added = add_value(node); !added) return std::unexpected(added.error());
      return std::make_shared<const Node>(std::move(node));
    }
    if (!take_sign("(")) return wrong(at_, "after \"in\" comes a list: (value, value)");
    do {
      if (auto added = add_value(node); !added) return std::unexpected(added.error());
    } while (take_sign(","));
    if (!take_sign(")")) return wrong(at_, "a \")\" or \",\" is missing in the list");
    return std::make_shared<const Node>(std::move(node));
  }

  std::optional<Op> take_op() {
    if (take_word("in")) return Op::among;
    if (take_word("starts_with")) return Op::starts_with;
    for (const OpRow& row : kSigns) {
      if (take_sign(row.sign)) return row.op;
    }
    return std::nullopt;
  }

  base::Status check_op(const Node& node, std::size_t at) const {
    const bool by_size =
        node.op == Op::less || node.op == Op::at_most || node.op == Op::greater || node.op == Op::at_least;
    if (node.op == Op::starts_with && node.field.type != Type::text && node.field.type != Type::any)
      return wrong(at, std::string(node.field.name) + " is no text, and has no beginning");
    if (by_size && node.field.type == Type::yes_or_no)
      return wrong(at, std::string(node.field.name) + " is true or false, and neither is less");
    if (by_size && node.field.field == Field::status)
      return wrong(at, "a status is not less than another; compare it with =, != or in");
    return {};
  }

  base::Status add_value(Node& node) {
    skip();
    const std::size_t at = at_;
    if (++values_ > kMostValues) return wrong(at, "the filter has too many values");
    if (at_ < text_.size() && text_[at_] == '"') {
      auto text = quoted();
      if (!text) return std::unexpected(text.error());
      return add_text(node, std::move(*text), at);
    }
    const std::string_view word = peek_word();
    const bool any = node.field.type == Type::any && node.op != Op::starts_with;
    if ((any || node.field.type == Type::yes_or_no) && (word == "true" || word == "false")) {
      at_ += word.size();
      node.values.emplace_back(word == "true");
      return {};
    }
    if (any) {
      double number = 0;
      const char* end = text_.data() + text_.size();
      const auto read = std::from_chars(text_.data() + at_, end, number, std::chars_format::general);
      const std::string_view digits(text_.data() + at_,
                                    static_cast<std::size_t>(read.ptr - (text_.data() + at_)));
      const bool whole = digits.find_first_of(".eE") == digits.npos;
      if (read.ec == std::errc() && std::isfinite(number) && !whole &&
          (read.ptr == end || !is_word(*read.ptr))) {
        at_ += digits.size();
        node.values.emplace_back(number);
        return {};
      }
    }
    if (any || node.field.type == Type::number) {
      std::int64_t number = 0;
      const char* end = text_.data() + text_.size();
      const auto read = std::from_chars(text_.data() + at_, end, number);
      if (read.ec == std::errc() && (read.ptr == end || !is_word(*read.ptr))) {
        at_ = static_cast<std::size_t>(read.ptr - text_.data());
        node.values.emplace_back(number);
        return {};
      }
    }
    return wrong(at, expected(node.field));
  }

  base::Status add_text(Node& node, std::string text, std::size_t at) const {
    if (node.field.type == Type::time) {
      const auto ms = filter::parse_time(text);
      if (!ms) return wrong(at, expected(node.field));
      node.values.emplace_back(*ms);
      return {};
    }
    if (node.field.type != Type::text && node.field.type != Type::any) return wrong(at, expected(node.field));
    if (node.field.field == Field::status && node.op != Op::starts_with && !is_status(text)) {
      return wrong(at,
                   "there is no status \"" + text +
                       "\"; there are running, completed, failed, cancelled, terminated, stuck, continued");
    }
    node.values.emplace_back(std::move(text));
    return {};
  }

  static bool is_status(const std::string& text) {
    for (const RunStatus status :
         {RunStatus::running, RunStatus::completed, RunStatus::failed, RunStatus::cancelled,
          RunStatus::terminated, RunStatus::stuck, RunStatus::continued}) {
      if (name_of(status) == text) return true;
    }
    return false;
  }

  static std::string expected(const FieldRow& field) {
    switch (field.type) {
      case Type::text:
        return std::string(field.name) + " is compared with a text in double quotes";
      case Type::time:
        return std::string(field.name) +
               " is compared with a time in double quotes, as \"2026-11-01\" or \"2026-11-01T12:30:00Z\"";
      case Type::number:
        return std::string(field.name) + " is compared with a whole number";
      case Type::yes_or_no:
        return std::string(field.name) + " is compared with true or false";
      case Type::any:
        return std::string(field.name) + " is compared with a text in double quotes, a number, true or false";
    }
    return {};
  }

  base::Result<std::string> quoted() {
    const std::size_t begin = at_++;
    std::string text;
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '"') {
        ++at_;
        return text;
      }
      if (c == '\\') {
        if (++at_ == text_.size()) break;
        c = text_[at_];
        if (c != '"' && c != '\\') return wrong(at_, "in a text, \\ stands before \" or \\ only");
      }
      text += c;
    }
    return wrong(begin, "a text has no end; its second \" is missing");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

base::Result<Filter> Filter::parse(std::string_view text) {
  if (text.size() > kLongestFilter) {
    return base::fail(base::Code::invalid_argument,
                      "a filter has at most " + std::to_string(kLongestFilter) + " bytes");
  }
  Filter filter;
  Parser parser(text);
  if (parser.empty()) return filter;
  auto root = parser.whole();
  if (!root) return std::unexpected(root.error());
  filter.root_ = std::move(*root);
  return filter;
}

}  // namespace sandglass::engine::run::view
