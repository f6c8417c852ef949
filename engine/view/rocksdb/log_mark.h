// Remembers which write-ahead log was the newest that acknowledged data went to, so that its loss is seen at
// the next start. RocksDB itself tracks only logs that are closed: a newest log that is gone would be taken
// for an empty one, and what was acknowledged would be rolled back in silence (J7).
//
// The mark is a file in the database's folder. It names log N while log N or a later one is there: a new log
// is made before an old one is removed, so a kill at any moment leaves it true.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/result.h"

namespace sandglass::engine::view {

class LogMark {
 public:
  explicit LogMark(std::string folder) : folder_(std::move(folder)) {}

  /// Before the database is opened: record_damaged if the marked log and all later ones are gone.
  base::Status check() const;
  /// Before the first acknowledgement of what log `number` has; durable on return. Cheap while the number is
  /// the same.
  base::Status set(std::uint64_t number);

 private:
  std::string folder_;
  std::uint64_t marked_ = 0;
};

}  // namespace sandglass::engine::view
