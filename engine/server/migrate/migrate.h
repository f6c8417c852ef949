// Moves a stopped server's journal to where its configuration says that it is; what a move is stands in
// engine/journal/rows/move.h.
//
//   folder → topic   check ─▶ close the journal ─▶ copy it under its new id, beside ─▶ publish ─▶ compare
//   both
//                    ─▶ exchange
//   topic → folder   check ─▶ take the topic over and close it ─▶ copy its view under the new id, beside
//                    ─▶ compare topic, view and copy ─▶ exchange
//
// Killed anywhere it is gone on with from where it stands, or given up: until the copy takes the journal's
// place, the journal is as it was but for the records that close it. From then on it is moved.
//
// Blocking. The caller holds the folder's locks. Thread rule: one thread; `tell` is called on it. Errors:
// usage, when there is nothing to do; config_invalid; disk_full; folder_version, record_damaged,
// topic_foreign, chain_broken; those of topic checks and brokers. Each says what stands where.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/server/config.h"

namespace sandglass::engine::server::migrate {

enum class Wish : std::uint8_t { begin, go_on, give_up };

/// For people.
struct Progress {
  std::string stage;
  std::uint64_t done = 0;
  std::uint64_t of = 0;  // 0: not known
};

struct Options {
  const base::DataFolder& folder;
  const Config& config;
  Wish wish = Wish::begin;
  std::function<void(const Progress&)> tell;
};

struct Report {
  bool moved = false;  // else it was given up
  std::string from;    // ids of the journals
  std::string to;
  std::string place;
  std::uint64_t records = 0;
  std::uint64_t streams = 0;
  base::Hash256 states_before;  // of all streams, folded from either journal's records
  base::Hash256 states_after;
  std::string kept;  // where the former journal is
};

base::Result<Report> migrate(const Options& options);

}  // namespace sandglass::engine::server::migrate
