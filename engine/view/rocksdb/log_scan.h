// Checks a file in RocksDB's log format (write-ahead logs and MANIFESTs) record by record, so that damage can
// be named by its place before the database is opened, and nothing is changed by finding it.
//
//   blocks of 32 KiB · record: masked CRC-32C(4) · length(2) · type(1: whole 1, first 2, middle 3, last 4)
//
// Thread rule: pure but for reading. Errors: io_error when the file cannot be read; a fault is a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/result.h"

namespace sandglass::engine::view {

struct LogFault {
  std::uint64_t offset = 0;  // where the record begins that is not as it must be
  std::string what;
};

/// What may stand behind the last record: nothing, or the zeros with which a file was allocated that nobody
/// came to close.
enum class LogEnd : std::uint8_t { exact, zeros };

/// Whether the first `end` bytes are whole records. nullopt: they are.
base::Result<std::optional<LogFault>> scan_log(const std::string& path, std::uint64_t end,
                                               LogEnd may_end = LogEnd::exact);

}  // namespace sandglass::engine::view
