#include "engine/journal/rows/lines.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "engine/base/crc32c.h"
#include "engine/base/data_folder.h"

namespace sandglass::engine::journal {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

std::string checksum_line(std::string_view text) {
  return "crc32c " + std::to_string(base::crc32c(text)) + "\n";
}

}  // namespace

std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

std::optional<std::string> take_value(std::string_view& rest, std::string_view word) {
  const auto line = take_line(rest);
  if (!line || !line->starts_with(word) || line->size() <= word.size() || (*line)[word.size()] != ' ')
    return std::nullopt;
  return std::string(line->substr(word.size() + 1));
}

std::string head_line(const ChainHead& head) {
  return std::to_string(head.sequence) + " " + head.chain.hex() + "\n";
}

std::optional<ChainHead> parse_head(std::string_view line) {
  ChainHead head;
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(line.data(), line.data() + space, head.sequence);
  const auto chain = base::Hash256::from_hex(line.substr(space + 1));
  if (error != std::errc() || end != line.data() + space || !chain) return std::nullopt;
  head.chain = *chain;
  return head;
}

base::Result<std::optional<std::string>> read_lines_file(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<std::string>();
  auto text = base::read_whole_file(path, kMostBytes);
  if (!text) return std::unexpected(text.error());
  return std::optional(std::move(*text));
}

std::string with_checksum(std::string text) {
  const std::string line = checksum_line(text);
  return std::move(text) + line;
}

std::optional<std::string_view> without_checksum(std::string_view text) {
  const std::size_t last = text.rfind("crc32c ");
  if (last == std::string_view::npos || text.substr(last) != checksum_line(text.substr(0, last)))
    return std::nullopt;
  return text.substr(0, last);
}

}  // namespace sandglass::engine::journal
