// Error codes of everything that a user or an API caller can see. docs/errors has a page for each number.
#pragma once

#include <cstdint>
#include <string_view>

namespace sandglass::engine::base {

enum class Code : std::uint16_t {
#define SG_CODE(name, number, title) name = number,
#include "engine/base/codes.def"
#undef SG_CODE
};

/// The code's identifier, as written in codes.def; "code_<n>" is never returned: unknown numbers give
/// "unknown".
std::string_view name_of(Code code);

/// One short sentence fragment that says what happened.
std::string_view title_of(Code code);

}  // namespace sandglass::engine::base
