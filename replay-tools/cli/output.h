// What the command line prints: text for people on a terminal (colour, escaped), JSON for programs.
// Thread rule: one thread prints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace sandglass::replay_tools::cli {

enum class Colour : std::uint8_t { none, bold, dim, red, green, yellow, blue };

/// Standard output is a terminal, and NO_COLOR is not set.
bool has_colour();
/// The text in this colour where there is colour; the text itself must be safe already.
std::string paint(Colour colour, std::string_view safe);

/// Text from outside, safe to show (base::escape_for_terminal).
std::string safe(std::string_view text);
/// As above, with its line breaks, each line after the first indented.
std::string safe_block(std::string_view text, std::string_view indent);

/// Columns as wide as their widest cell; the first row is the head. Cells are escaped.
void print_table(const std::vector<std::vector<std::string>>& rows);
void print_line(std::string_view safe_text);

/// "2026-01-31 12:34:56" in local time; "-" for 0.
std::string show_time(std::int64_t ms);
/// "350 ms", "12.3 s", "5 min 3 s".
std::string show_duration(std::int64_t ms);
std::string show_bytes(std::uint64_t bytes);

/// One line of JSON: field names as in the schema, enums by name, bytes as hex, but fields that hold JSON as
/// JSON. ASCII only, as all JSON here: what came from outside may be looked at on a terminal.
std::string to_json(const google::protobuf::Message& message);
/// What a failed command prints: {"error": 1404, "name": "engine_unreachable", "message": "…"}.
std::string error_json(unsigned code, std::string_view name, std::string_view message);
/// A JSON object of texts.
std::string to_json(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace sandglass::replay_tools::cli
