// Small texts of lines, "word value" each, that journals keep in files and records: how far something goes,
// and where. Thread rule: functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/core/stored_record.h"

namespace sandglass::engine::journal {

/// Where a partition ends.
struct ChainHead {
  core::Sequence sequence = 0;  // 0: it has nothing yet
  base::Hash256 chain;
  friend bool operator==(const ChainHead&, const ChainHead&) = default;
};

/// The text up to the next newline; it and the newline are taken away.
std::optional<std::string_view> take_line(std::string_view& rest);
/// Of the line "word value", which is taken away, the value.
std::optional<std::string> take_value(std::string_view& rest, std::string_view word);
/// "sequence chain\n", and the head of such a line without its end.
std::string head_line(const ChainHead& head);
std::optional<ChainHead> parse_head(std::string_view line);

/// The file's text; nothing: there is no such file. Errors: those of reading it.
base::Result<std::optional<std::string>> read_lines_file(const std::string& path);
/// What `decode` makes of it; its error names the file.
template <class Value>
base::Result<std::optional<Value>> load_lines(const std::string& path,
                                              base::Result<Value> (*decode)(std::string_view)) {
  const auto text = read_lines_file(path);
  if (!text) return std::unexpected(text.error());
  if (!*text) return std::optional<Value>();
  auto value = decode(**text);
  if (!value) return base::fail(value.error().code, path + ": " + value.error().message);
  return std::optional<Value>(std::move(*value));
}

/// The text with a last line that says its CRC-32C; and what such a text is without it, if that is right.
std::string with_checksum(std::string text);
std::optional<std::string_view> without_checksum(std::string_view text);

}  // namespace sandglass::engine::journal
