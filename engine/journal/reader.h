// The reading half of a journal, for audit, debugger and rebuilds: needs no ownership and changes nothing.
#pragma once

#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::journal {

class Reader {
 public:
  virtual ~Reader() = default;

  virtual base::Result<std::uint16_t> partitions() const = 0;
  virtual base::Result<std::string> journal_id() const = 0;
  /// Up to `limit` records of the partition from `from` on, in sequence order. Empty: the end.
  virtual base::Result<std::vector<core::OrderedRecord>> read_order(core::PartitionId partition,
                                                                    core::Sequence from,
                                                                    std::size_t limit) const = 0;
  /// Up to `limit` records of one stream from `from_seq` on.
  virtual base::Result<std::vector<core::StoredRecord>> read_stream(const core::StreamId& stream,
                                                                    std::uint64_t from_seq,
                                                                    std::size_t limit) const = 0;
};

}  // namespace sandglass::engine::journal
