#include "engine/yaml/bounds.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace sandglass::engine::yaml {

namespace {

/// What a value stands for once its aliases are filled in.
struct Size {
  std::size_t values = 0;
  std::size_t bytes = 0;
  std::size_t height = 0;  // 1: a single value
};

struct Refused {
  YAML::Mark mark;
  std::string what;
};

Fault fault_at(const YAML::Mark& mark, std::string what) {
  if (mark.is_null()) return {.what = std::move(what)};
  return {.line = mark.line + 1, .column = mark.column + 1, .what = std::move(what)};
}

/// Adds up what the parser tells, and stops it at the first event that leads out of the bounds.
class Measure final : public YAML::EventHandler {
 public:
  explicit Measure(const Bounds& bounds) : bounds_(bounds) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(begun_, true)) {
      throw Refused{mark, "a second document begins here; the file must hold exactly one YAML document"};
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { single(mark, anchor, 0); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    single(mark, anchor, bytes_of(tag) + value.size());
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto named = named_.find(anchor);
    if (named == named_.end()) throw Refused{mark, "an alias that stands inside of what it names; remove it"};
    add(mark, named->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    begin(mark, tag, anchor, /*mapping=*/false);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    begin(mark, tag, anchor, /*mapping=*/true);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool mapping = false;
    std::size_t parts = 0;
    Size before;  // the sum at its begin
    std::size_t height = 1;
  };

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool mapping) {
    const Size before = sum_;
    add(mark, {.values = 1, .bytes = bytes_of(tag), .height = 1});
    open_.push_back({.anchor = anchor, .mapping = mapping, .before = before});
  }
  void end() {
    const Open done = open_.back();
    open_.pop_back();
    name(done.anchor, {.values = sum_.values - done.before.values,
                       .bytes = sum_.bytes - done.before.bytes,
                       .height = done.height});
    raise(done.height);
  }
  void single(const YAML::Mark& mark, YAML::anchor_t anchor, std::size_t bytes) {
    const Size size{.values = 1, .bytes = bytes, .height = 1};
    add(mark, size);
    name(anchor, size);
  }
  void name(YAML::anchor_t anchor, const Size& size) {
    if (anchor != YAML::NullAnchor) named_[anchor] = size;
  }
  /// What stands in the innermost open value is so high.
  void raise(std::size_t height) {
    if (!open_.empty()) open_.back().height = std::max(open_.back().height, height + 1);
  }

  void add(const YAML::Mark& mark, const Size& size) {
    const bool field = !open_.empty() && open_.back().mapping && open_.back().parts % 2 == 0;
    if (!open_.empty()) ++open_.back().parts;
    sum_.values += size.values - (field ? 1 : 0);
    sum_.bytes += size.bytes;
    raise(size.height);
    if (sum_.values > bounds_.values) {
      throw Refused{mark, more_than(bounds_.values, "values") + "; make the file smaller"};
    }
    if (sum_.bytes > bounds_.bytes)
      throw Refused{mark, more_than(bounds_.bytes, "bytes of text") + aliases()};
    if (open_.size() + size.height - 1 > bounds_.depth) {
      throw Refused{mark, "nested more than " + std::to_string(bounds_.depth) + " levels deep"};
    }
  }

  /// "?" and "!" are what the parser says where no tag stands.
  static std::size_t bytes_of(const std::string& tag) { return tag.size() > 1 ? tag.size() : 0; }
  static std::string more_than(std::size_t bound, const std::string& things) {
    std::string digits = std::to_string(bound);
    for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
    return "more than " + digits + " " + things;
  }
  static std::string aliases() {
    return " once every alias is filled in; name large texts by fewer aliases (\"*name\")";
  }

  const Bounds bounds_;
  bool begun_ = false;
  Size sum_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Size> named_;
};

}  // namespace

std::optional<Fault> find_fault(std::string_view text, const Bounds& bounds) {
  std::istringstream stream{std::string(text)};
  Measure measure(bounds);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(measure)) {
    }
  } catch (const Refused& refused) {
    return fault_at(refused.mark, refused.what);
  } catch (const YAML::Exception& error) {
    return fault_at(error.mark,
                    "this is not valid YAML: " + error.msg + "; check indentation and quotes here");
  }
  return std::nullopt;
}

}  // namespace sandglass::engine::yaml
