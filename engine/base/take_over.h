// What `sandglass take-over` and an engine that stands by say to each other: the order is a file in the data
// folder, which the engine takes away; the answer is how its refusals begin.
#pragma once

#include <string_view>

namespace sandglass::engine::base {

inline constexpr const char* kTakeOverOrder = "run/take-over";
inline constexpr std::string_view kStandsBy = "this engine stands by: ";
inline constexpr std::string_view kTakesOver = "this engine has been told to take over: ";

}  // namespace sandglass::engine::base
