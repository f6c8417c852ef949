// The journal on Kafka that a move leaves: taken over, so that nobody else writes to it, then closed, or
// opened again.
//
// Blocking. Thread rule: one thread. Errors: those of takeovers; unavailable, when another engine serves it.
#pragma once

#include <optional>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"
#include "engine/journal/rows/move.h"
#include "engine/server/config.h"

namespace sandglass::engine::server::migrate {

/// Takes over what is open; the folder's view has all of the topic then.
struct Closed {
  std::optional<journal::Move> move;  // of any partition; nothing: all were open
  bool all = false;                   // every partition is closed by that one
};
base::Result<Closed> look_at_topic(const base::DataFolder& folder, const Config& config);
/// Opens what is closed.
base::Status reopen_topic(const base::DataFolder& folder, const Config& config);
/// Closes every partition; all must be open. Gives the move with the heads that it found.
base::Result<journal::Move> close_topic(const base::DataFolder& folder, const Config& config,
                                        journal::Move move);

}  // namespace sandglass::engine::server::migrate
