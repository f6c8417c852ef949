// The chains of streams: each record names the leaf of its stream's previous one (J22).
// Thread rule: one thread. Memory: a hash a stream.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/base/hash.h"
#include "engine/core/stored_record.h"

namespace sandglass::replay_tools::audit {

/// Checks records of any streams, each stream in order.
class StreamChains {
 public:
  /// Empty: the record follows its stream's previous one. Else what is wrong.
  std::string check(const engine::core::StoredRecord& record, const engine::base::Hash256& leaf);
  std::size_t streams() const { return last_.size(); }

 private:
  struct Last {
    std::uint64_t seq = 0;
    engine::base::Hash256 leaf;
  };
  std::map<engine::core::StreamId, Last> last_;
};

}  // namespace sandglass::replay_tools::audit
