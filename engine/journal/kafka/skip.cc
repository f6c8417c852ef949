#include "engine/journal/kafka/skip.h"

#include <charconv>
#include <optional>

namespace sandglass::engine::journal::kafka {
namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<Skip> parse_skip(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const auto partition = parse<core::PartitionId>(text.substr(0, first));
  const auto offset = parse<std::int64_t>(text.substr(first + 1, second - first - 1));
  const auto hash = base::Hash256::from_hex(text.substr(second + 1));
  if (!partition || !offset || *offset < 0 || !hash) return std::nullopt;
  return Skip{.partition = *partition, .message = {.offset = *offset, .hash = *hash}};
}

}  // namespace

std::string encode_skip(const Skip& skip) {
  return std::to_string(skip.partition) + ":" + std::to_string(skip.message.offset) + ":" +
         skip.message.hash.hex();
}

base::Result<std::vector<Skip>> parse_skips(const std::vector<std::string>& texts) {
  std::vector<Skip> skips;
  for (const std::string& text : texts) {
    const auto skip = parse_skip(text);
    if (!skip) {
      return base::fail(base::Code::config_invalid,
                        "kafka.skip: '" + text +
                            "' does not name a message as PARTITION:OFFSET:HASH; copy it from the error that "
                            "shows it");
    }
    skips.push_back(*skip);
  }
  return skips;
}

SkippedMessage name_message(std::int64_t offset, const Envelope& envelope, std::string_view value) {
  base::Sha256 hash;
  hash.update("sandglass message 1").update_u64(static_cast<std::uint64_t>(envelope.kind));
  for (const std::string& text : {envelope.journal, envelope.stream.text()})
    hash.update_u64(text.size()).update(text);
  hash.update_u64(envelope.epoch).update_u64(envelope.sequence).update(envelope.previous.view());
  hash.update_u64(envelope.stream_seq).update(value);
  return {.offset = offset, .hash = hash.finish()};
}

}  // namespace sandglass::engine::journal::kafka
