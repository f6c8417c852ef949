// What a move is the same in, whichever way it goes: what is checked first, the copy, and the comparison.
//
// Blocking. Thread rule: one thread. Errors: as migrate.h says.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/result.h"
#include "engine/journal/rows/rows.h"
#include "engine/server/migrate/migrate.h"
#include "engine/server/migrate/store.h"
#include "engine/server/migrate/topic.h"

namespace sandglass::engine::server::migrate {

class Steps {
 public:
  explicit Steps(const Options& options) : options_(options), folder_(options.folder) {}

 protected:
  void tell(std::string stage, std::uint64_t done = 0, std::uint64_t of = 0) const;
  /// The journal, whose keys must be the folder's.
  base::Result<Store> read_own_journal();
  /// The one that the configuration names; made where it does not exist, if it may be.
  base::Status find_topic(bool may_make);
  /// The journal under the id of the report, unless such a copy is there and whole.
  base::Status copy(bool embedded);
  /// The same states must come of both; `what`: whose records the copy has, for people.
  base::Status compare_states(const view::View& before, const view::View& after, const std::string& what);

  const Options& options_;
  const base::DataFolder& folder_;
  journal::JournalMeta meta_;
  Topic topic_;
  Report report_;
};

}  // namespace sandglass::engine::server::migrate
