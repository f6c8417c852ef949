#include "engine/codec/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/base/text.h"

namespace sandglass::engine::codec {
namespace {

/// Sees every token once. Returning false ends the parse; `fault` says why.
class Checker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Checker(const JsonLimits& limits) : limits_(limits) {}

  const std::string& fault() const { return fault_; }
  std::size_t offset() const { return offset_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t number, const string_t& text) override {
    if (!std::isfinite(number)) return refuse("the number " + text + " is out of range");
    return value();
  }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return refuse("binary values are not JSON"); }

  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return open();
  }
  bool end_object() override {
    keys_.pop_back();
    return close();
  }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      return refuse("the key " + base::quote_for_terminal(name.substr(0, 100)) +
                    " stands twice in one object");
    }
    return value();
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    offset_ = position;
    // The library's text repeats input: it is cut and escaped.
    const std::string text = error.what();
    const auto at = text.find("] ");
    return refuse(base::escape_for_terminal(text.substr(at == std::string::npos ? 0 : at + 2, 300)));
  }

 private:
  bool refuse(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }
  bool value() {
    if (++values_ > limits_.max_values) {
      return refuse("more than " + std::to_string(limits_.max_values) + " values and keys");
    }
    return true;
  }
  bool open() {
    if (++depth_ > limits_.max_depth)
      return refuse("nested deeper than " + std::to_string(limits_.max_depth));
    return value();
  }
  bool close() {
    --depth_;
    return true;
  }

  const JsonLimits& limits_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::uint32_t depth_ = 0;
  std::uint32_t values_ = 0;
  std::string fault_;
  std::size_t offset_ = 0;
};

}  // namespace

base::Status check_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return base::fail(base::Code::payload_invalid, "the JSON has " + std::to_string(text.size()) +
                                                       " bytes; at most " + std::to_string(limits.max_bytes) +
                                                       " are taken");
  }
  // The library would skip a byte order mark; it must not be stored, since other readers do not.
  if (text.starts_with("\xEF\xBB\xBF")) {
    return base::fail(base::Code::payload_invalid, "the JSON starts with a byte order mark; remove it");
  }
  // The library would take a zero byte for the end of the text and never look at what follows.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    return base::fail(base::Code::payload_invalid,
                      "not acceptable JSON: a zero byte at " + std::to_string(zero));
  }
  Checker checker(limits);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &checker)) return {};
  std::string message = "not acceptable JSON: " + checker.fault();
  if (checker.offset() > 0) message += " (near byte " + std::to_string(checker.offset()) + ")";
  return base::fail(base::Code::payload_invalid, std::move(message));
}

}  // namespace sandglass::engine::codec
