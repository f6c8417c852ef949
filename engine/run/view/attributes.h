// Search attributes as the view has them: a row with the newest of each run that has any, and rows by which
// runs are found that have a value. The latter stay when the value has changed: whoever follows one looks at
// the run's newest.
//
// Thread rule: pure functions. Errors: record_damaged for a row that cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/run/attributes.h"
#include "engine/view/keys.h"
#include "engine/view/view.h"

namespace sandglass::engine::run::view {

namespace tables = ::sandglass::engine::view;

/// Of a slot, or of the content row, which is the slot's bytes.
base::Result<Attributes> decode_attributes(std::string_view json);

/// A few bits of a hash of name and value, in whose runs a value is looked for; others may share it.
std::uint32_t match_of(std::string_view name, const AttributeValue& value);

std::string match_key(core::PartitionId partition, std::uint32_t match, std::int64_t started_ms,
                      const core::StreamId& stream);
/// Runs of a partition with first ≤ start < last. started_of() gives a row's time, parse_index_key() its
/// stream.
tables::KeyRange match_rows(core::PartitionId partition, std::uint32_t match, std::int64_t first_started_ms,
                            std::int64_t last_started_ms);
std::int64_t started_of(const tables::ParsedIndexKey& match_row);

/// The rows for what was said by a run that was started then.
void project_attributes(std::string_view json, std::int64_t started_ms, const core::StreamId& stream,
                        core::PartitionId partition, std::vector<tables::ViewChange>& changes);

}  // namespace sandglass::engine::run::view
