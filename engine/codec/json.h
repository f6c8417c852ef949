// JSON from outside, checked in one pass before anything else reads it (J3, FR-123, FR-134, ADV-G17). Nothing
// is re-encoded: the checked text is what is stored, hashed and sent, so that numbers keep their exact text.
//
// Thread rule: pure functions. Errors: payload_invalid, with the byte offset of the fault.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::engine::codec {

struct JsonLimits {
  std::size_t max_bytes = 256 * 1024;
  std::uint32_t max_depth = 64;
  std::uint32_t max_values = 100'000;  // values and keys
};

/// Accepts one RFC 8259 value in UTF-8 and white space around it. Refuses: a byte order mark, bad UTF-8,
/// unpaired surrogate escapes, duplicate keys (after unescaping), numbers that no finite double holds, and
/// what exceeds the limits.
base::Status check_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace sandglass::engine::codec
