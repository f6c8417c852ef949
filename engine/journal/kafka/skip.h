// A message that an operator has found to be a forgery: in the journal's name, at a place that the journal
// has already or cannot have yet. Nobody can take it out of a topic, and whoever reads it takes it for
// another history (1111, 1112). It is passed over where it is named exactly, with its hash, in the
// configuration (kafka.skip); the owner that passes it over says so in the record of its epoch
// (rows/owners.h), for ever.
//
//   PARTITION:OFFSET:HASH
//
// Only what the apply rule refuses can be passed over, never what extends the history.
// Thread rule: pure functions. Errors: config_invalid.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/journal/kafka/wire.h"
#include "engine/journal/rows/owners.h"

namespace sandglass::engine::journal::kafka {

struct Skip {
  core::PartitionId partition = 0;
  SkippedMessage message;
};
std::string encode_skip(const Skip& skip);
base::Result<std::vector<Skip>> parse_skips(const std::vector<std::string>& texts);

/// The message's name: of all that its headers, key and value say.
SkippedMessage name_message(std::int64_t offset, const Envelope& envelope, std::string_view value);

}  // namespace sandglass::engine::journal::kafka
