// Facts: a state or an event as lines of "path = value" in a fixed order, for people and for finding
// differences. Everything typed becomes facts before debugger, audit and command line see it.
//
// Values are as recorded, not escaped: whoever shows them on a terminal escapes them (engine/base/text.h).
// Thread rule: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sandglass::replay_tools::replay {

struct Fact {
  std::string path;  // "steps/0/build/attempt"
  std::string value;
  friend bool operator==(const Fact&, const Fact&) = default;
};

/// In the order in which the source has its fields; paths are unique.
using Facts = std::vector<Fact>;

struct Change {
  enum class Kind { added, removed, changed };
  Kind kind = Kind::changed;
  std::string path;
  std::string before;
  std::string after;
  friend bool operator==(const Change&, const Change&) = default;
};

/// What is different, sorted by path.
std::vector<Change> difference(const Facts& before, const Facts& after);

/// An event or message: what it is and its fields.
struct Described {
  std::string name;  // "StepScheduled"
  Facts fields;
  friend bool operator==(const Described&, const Described&) = default;
};

}  // namespace sandglass::replay_tools::replay
