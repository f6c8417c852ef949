// How far a journal has been published: `DATA/run/published`, written whole, a line each:
//
//   sandglass published 1
//   journal ID
//   cluster ID
//   topic NAME
//   SEQUENCE CHAIN        of each partition, in order: the last record that brokers acknowledged, and its
//   chain crc32c HEX            of all bytes before this line
//
// It may be behind, never ahead. Without it everything is published again, which readers see as records that
// they have. Thread rule: functions of their arguments. Errors: record_damaged, io_error, disk_full.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/journal/rows/lines.h"

namespace sandglass::engine::journal::kafka::publisher {

struct Published {
  std::string journal;
  std::string cluster;  // empty: no broker has been met yet
  std::string topic;
  std::vector<ChainHead> heads;
  friend bool operator==(const Published&, const Published&) = default;

  /// How many it has, of all partitions.
  std::uint64_t records() const;
};

std::string encode_published(const Published& published);
base::Result<Published> decode_published(std::string_view text);

/// Nothing: there is no file.
base::Result<std::optional<Published>> load_published(const std::string& path);
base::Status save_published(const std::string& path, const Published& published);

}  // namespace sandglass::engine::journal::kafka::publisher
