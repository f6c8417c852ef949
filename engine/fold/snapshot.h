// State snapshot rows: a stream's state after some record, so that loading reads the snapshot and the records
// after it. Rebuildable from history: one of another version or format level, or a damaged one, is ignored
// (J4, J9).
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/fold/stream_fold.h"

namespace sandglass::engine::fold {

/// A snapshot is written when this many events have passed since the last one, and when a stream leaves
/// flight.
inline constexpr std::uint64_t kSnapshotEvents = 64;
/// Raised by operators once every node can read what a newer level writes (J4).
inline constexpr std::uint32_t kFormatLevel = 1;

std::string encode_snapshot(const StreamFold& fold);
/// nullopt: not usable; fold from the first record instead.
std::optional<StreamFold> decode_snapshot(const AnyKind& kind, const core::StreamId& stream,
                                          std::string_view row);

}  // namespace sandglass::engine::fold
