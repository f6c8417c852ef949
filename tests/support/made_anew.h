// J1: a view made anew from records alone has the same rows. What makes them anew is the product's own
// rebuild.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/hash.h"
#include "engine/view/keys.h"
#include "replay-tools/rebuild/rebuild.h"

namespace sandglass::tests {

struct MadeAnew {
  std::map<std::string, std::string> rows;
  replay_tools::rebuild::Report report;
};

/// Errors: record_damaged for any record that cannot be read or does not fit, and those of rebuild.
inline engine::base::Result<MadeAnew> make_anew(const engine::view::View& view,
                                                const engine::fold::Registry& kinds) {
  MadeAnew made;
  auto report = replay_tools::rebuild::rebuild(
      view, kinds, [&](std::vector<engine::view::ViewChange> changes) -> engine::base::Status {
        for (engine::view::ViewChange& change : changes) {
          if (change.value) {
            made.rows[change.key] = std::move(*change.value);
          } else {
            made.rows.erase(change.key);
          }
        }
        return {};
      });
  if (!report) return std::unexpected(report.error());
  if (!report->damaged.empty()) {
    const auto& first = report->damaged.front();
    return engine::base::fail(
        engine::base::Code::record_damaged,
        first.stream.text() + " record " + std::to_string(first.seq) + ": " + first.what);
  }
  made.report = std::move(*report);
  return made;
}

/// What is different, a line each. Low-water marks are their owner's, who finds them again; how far a view
/// has applied its topic is no record's doing.
inline std::vector<std::string> differences(const std::map<std::string, std::string>& live,
                                            const MadeAnew& made) {
  std::vector<std::string> found;
  const auto is_mark = [](const std::string& key) {
    for (std::uint32_t partition = 0; partition < engine::view::kStreamBuckets; ++partition) {
      const auto number = static_cast<std::uint16_t>(partition);
      if (key == engine::view::low_water_key(number, engine::view::Index::due) ||
          key == engine::view::applied_key(number))
        return true;
    }
    return false;
  };
  for (const auto& [key, value] : live) {
    const auto row = made.rows.find(key);
    if (row != made.rows.end() && row->second == value) continue;
    if (row != made.rows.end()) {
      found.push_back("a row is not what the records say: " + engine::base::to_hex(key));
    } else if (!is_mark(key)) {
      found.push_back("no record caused a row: " + engine::base::to_hex(key));
    }
  }
  for (const auto& [key, value] : made.rows) {
    if (!live.contains(key)) found.push_back("a row is missing: " + engine::base::to_hex(key));
  }
  return found;
}

}  // namespace sandglass::tests
