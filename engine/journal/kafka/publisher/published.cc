#include "engine/journal/kafka/publisher/published.h"

#include <utility>

#include "engine/base/data_folder.h"

namespace sandglass::engine::journal::kafka::publisher {

namespace {

constexpr std::string_view first_line = "sandglass published 1";

}  // namespace

std::uint64_t Published::records() const {
  std::uint64_t sum = 0;
  for (const ChainHead& head : heads) sum += head.sequence;
  return sum;
}

std::string encode_published(const Published& published) {
  std::string text(first_line);
  text += "\njournal " + published.journal + "\ncluster " + published.cluster + "\ntopic " + published.topic +
          "\n";
  for (const ChainHead& head : published.heads) text += head_line(head);
  return with_checksum(std::move(text));
}

base::Result<Published> decode_published(std::string_view text) {
  const auto damaged =
      base::fail(base::Code::record_damaged,
                 "the file that says how far the journal is published is damaged; without it everything "
                 "is published again, which readers see as records that they have");
  const auto whole = without_checksum(text);
  if (!whole) return damaged;
  std::string_view rest = *whole;
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
  return load_lines(path, decode_published);
}

base::Status save_published(const std::string& path, const Published& published) {
  return base::write_whole_file(path, encode_published(published));
}

}  // namespace sandglass::engine::journal::kafka::publisher
