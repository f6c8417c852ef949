// The language in which runs are chosen:
//
//   status = "failed" and workflow = "agent" and started > "2026-11-01T00:00:00Z"
//   (user = "ann" or user = "bob") and not status in ("completed", "cancelled")
//
//   filter      or, and, not, ( ), in that order of strength from the weakest
//   comparison  field = != < <= > >= value · field starts_with "text" · field in (value, value …)
//   fields      texts: id status workflow version user session tenant phase · times: started closed ·
//               numbers: code questions · yes or no: cancel_asked · attributes.NAME, of any of these kinds
//   values      "text" with \" and \\ · 12, -3 · true, false · times are texts: "2026-11-01", or with a time
//               of day and "Z" or an offset: "2026-11-01T12:30:00.5+01:00"
//
// A run that is open has no `closed`: each comparison with it is false, as with an attribute that a run does
// not have or that is of another kind. Thread rule: pure; a Filter is
// immutable. Errors: invalid_argument that names the column, from 1, in characters.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stream_id.h"
#include "engine/run/attributes.h"
#include "engine/run/view/run_view.h"

namespace sandglass::engine::run::view {

inline constexpr std::size_t kLongestFilter = 4096;

/// Runs with first ≤ start < last.
struct StartedWithin {
  std::int64_t first_ms = 0;
  std::int64_t last_ms = std::numeric_limits<std::int64_t>::max();
};

/// A run's search attributes, when they are asked for.
using AttributesFn = std::function<const Attributes&()>;

class Filter {
 public:
  /// An empty text chooses every run.
  static base::Result<Filter> parse(std::string_view text);

  bool chooses(const core::StreamId& stream, const RunRow& row, const AttributesFn& attributes) const;
  /// Of a run without search attributes.
  bool chooses(const core::StreamId& stream, const RunRow& row) const;
  /// Whatever it chooses was started within this.
  StartedWithin started_within() const;
  /// Whatever it chooses has a match row (attributes.h) of one of these; nothing: that cannot be said.
  std::optional<std::vector<std::uint32_t>> matches() const;

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace sandglass::engine::run::view
