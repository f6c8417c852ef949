#include "engine/journal/kafka/publisher/published.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>

#include "engine/base/crc32c.h"
#include "engine/base/data_folder.h"

namespace sandglass::engine::journal::kafka::publisher {

namespace {

constexpr std::string_view first_line = "sandglass published 1";
constexpr std::size_t most_bytes = 1 << 20;

/// Takes the text up to the next newline, and the newline.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

/// "word value" → value.
std::optional<std::string> take_value(std::string_view& rest, std::string_view word) {
  const auto line = take_line(rest);
  if (!line || !line->starts_with(word) || line->size() < word.size() + 1 || (*line)[word.size()] != ' ') {
    return std::nullopt;
  }
  return std::string(line->substr(word.size() + 1));
}

std::optional<PublishedHead> parse_head(std::string_view line) {
  PublishedHead head;
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(line.data(), line.data() + space, head.sequence);
  const auto chain = base::Hash256::from_hex(line.substr(space + 1));
  if (error != std::errc() || end != line.data() + space || !chain) return std::nullopt;
  head.chain = *chain;
  return head;
}

std::string checksum_line(std::string_view text) {
  return "crc32c " + std::to_string(base::crc32c(text)) + "\n";
}

}  // namespace

std::uint64_t Published::records() const {
  std::uint64_t sum = 0;
  for (const PublishedHead& head : heads) sum += head.sequence;
  return sum;
}

std::string encode_published(const Published& published) {
  std::string text(first_line);
  text += "\njournal " + published.journal + "\ncluster " + published.cluster + "\ntopic " + published.topic +
          "\n";
  for (const PublishedHead& head : published.heads) {
    text += std::to_string(head.sequence) + " " + head.chain.hex() + "\n";
  }
  return text + checksum_line(text);
}

base::Result<Published> decode_published(std::string_view text) {
  const auto damaged =
      base::fail(base::Code::record_damaged,
                 "the file that says how far the journal is published is damaged; without it everything "
                 "is published again, which readers see as records that they have");
  const std::size_t last = text.rfind("crc32c ");
  if (last == std::string_view::npos || text.substr(last) != checksum_line(text.substr(0, last)))
    return damaged;
  std::string_view rest = text.substr(0, last);
  if (take_line(rest) != first_line) return damaged;
  const auto journal = take_value(rest, "journal");
  const auto cluster = take_value(rest, "cluster");
  const auto topic = take_value(rest, "topic");
  if (!journal || !cluster || !topic) return damaged;
  Published published{.journal = *journal, .cluster = *cluster, .topic = *topic};
  while (!rest.empty()) {
    const auto line = take_line(rest);
    const auto head = line ? parse_head(*line) : std::nullopt;
    if (!head) return damaged;
    published.heads.push_back(*head);
  }
  return published;
}

base::Result<std::optional<Published>> load_published(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0 && errno == ENOENT) return std::nullopt;
  const auto text = base::read_whole_file(path, most_bytes);
  if (!text) return std::unexpected(text.error());
  auto published = decode_published(*text);
  if (!published) return base::fail(published.error().code, path + ": " + published.error().message);
  return std::optional(std::move(*published));
}

base::Status save_published(const std::string& path, const Published& published) {
  return base::write_whole_file(path, encode_published(published));
}

}  // namespace sandglass::engine::journal::kafka::publisher
