// Payloads as the debugger shows them: JSON and text in the open, cut to a bound, escaped; anything else by
// size.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/core/payload.h"

namespace sandglass::replay_tools::cli {

/// So much of a payload is shown.
inline constexpr std::size_t kShownSlotBytes = 4096;

/// One printable line.
std::string slot_text(const engine::core::Slot& slot);
/// {"encoding", "bytes", and "json" | "text" | neither, "cut": true if only the beginning is shown}.
nlohmann::ordered_json slot_json(const engine::core::Slot& slot);

}  // namespace sandglass::replay_tools::cli
