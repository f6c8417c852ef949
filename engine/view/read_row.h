// One row by its key, blocking: for tools, for opening, and for threads of an adapter's own.
//
// Thread rule: as View::scan_now. Errors: those of the view.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/base/result.h"
#include "engine/view/view.h"

namespace sandglass::engine::view {

/// nullopt: it is not there. An adapter reads nothing beside it, so that damage there is not its.
inline base::Result<std::optional<std::string>> read_row(const View& view, const std::string& key) {
  auto found = view.scan_now({.first = key, .last = key + '\0', .limit = 1});
  if (!found) return std::unexpected(found.error());
  if (found->rows.empty()) return std::optional<std::string>();
  return std::optional(std::move(found->rows.front().value));
}

}  // namespace sandglass::engine::view
