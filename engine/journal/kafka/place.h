// Where a data folder's history is, when a topic has it: `DATA/run/topic`, written before the folder's first
// view of it, for whoever finds the folder without a server. A line each:
//
//   sandglass topic 1
//   journal ID
//   topic NAME
//   brokers HOST:PORT,…     as they were configured last
//   crc32c NUMBER           of all bytes before this line
//
// The view has no log (applied_view.h): after a crash it may be far behind the topic, or have nothing at all.
//
// Thread rule: functions of their arguments. Errors: record_damaged, io_error, disk_full, those of the view.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/stored_record.h"
#include "engine/view/view.h"

namespace sandglass::engine::journal::kafka {

struct Place {
  std::string journal;
  std::string topic;
  std::string brokers;
  friend bool operator==(const Place&, const Place&) = default;
};

std::string encode_place(const Place& place);
base::Result<Place> decode_place(std::string_view text);

/// Its name in a data folder.
inline constexpr const char* kPlaceFile = "run/topic";
/// Nothing: there is no such file, so the folder's journal is its own.
base::Result<std::optional<Place>> load_place(const std::string& path);
/// Writes it where it says something else.
base::Status save_place(const std::string& path, const Place& place);

/// Up to where a view on disk has a partition of the topic.
struct Applied {
  core::PartitionId partition = 0;
  core::Sequence sequence = 0;
  std::int64_t offset = -1;
};
/// Partitions of which it has anything; none of a view that is new.
base::Result<std::vector<Applied>> read_applied(const view::View& view);

/// For people: where the history is, and how much of it is here.
std::string describe(const Place& place, const std::vector<Applied>& applied);

}  // namespace sandglass::engine::journal::kafka
