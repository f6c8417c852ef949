// Text that came from outside, made safe to show (FR-118, FR-119).
#pragma once

#include <string>
#include <string_view>

namespace sandglass::engine::base {

/// Escapes everything that is not plainly printable: control and format characters, separators other than the
/// plain space, direction marks, private and unassigned characters, invalid UTF-8. Newlines become "\n"
/// unless `keep_newlines`. The result is printable UTF-8; an escape is visible as \xNN or \u{N}.
std::string escape_for_terminal(std::string_view text, bool keep_newlines = false);

/// As escape_for_terminal, put in double quotes where it is empty or has a space, quote or backslash.
std::string quote_for_terminal(std::string_view text);

/// True for well-formed UTF-8 without surrogates and overlong forms (RFC 3629).
bool is_utf8(std::string_view text);

}  // namespace sandglass::engine::base
