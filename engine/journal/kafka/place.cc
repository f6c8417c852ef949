#include "engine/journal/kafka/place.h"

#include <algorithm>
#include <utility>

#include "engine/base/data_folder.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/journal/rows/lines.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/keys.h"
#include "engine/view/read_row.h"

namespace sandglass::engine::journal::kafka {
namespace {

constexpr std::string_view kFirstLine = "sandglass topic 1\n";
constexpr std::size_t kMostNamed = 8;

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::string encode_place(const Place& place) {
  std::string text(kFirstLine);
  text += "journal " + place.journal + "\ntopic " + one_line(place.topic) + "\nbrokers " +
          one_line(place.brokers) + "\n";
  return with_checksum(std::move(text));
}

base::Result<Place> decode_place(std::string_view text) {
  const auto damaged = base::fail(
      base::Code::record_damaged,
      "the file that names the topic of this folder's history is damaged; remove it, and start the server "
      "with the configuration that it had: it is written again");
  const auto whole = without_checksum(text);
  if (!whole) return damaged;
  std::string_view rest = *whole;
  if (!rest.starts_with(kFirstLine)) return damaged;
  rest.remove_prefix(kFirstLine.size());
  auto journal = take_value(rest, "journal");
  auto topic = take_value(rest, "topic");
  auto brokers = take_value(rest, "brokers");
  if (!journal || !topic || !brokers || !rest.empty()) return damaged;
  return Place{.journal = std::move(*journal), .topic = std::move(*topic), .brokers = std::move(*brokers)};
}

base::Result<std::optional<Place>> load_place(const std::string& path) {
  return load_lines(path, decode_place);
}

base::Status save_place(const std::string& path, const Place& place) {
  const std::string text = encode_place(place);
  if (const auto there = read_lines_file(path); there && *there == text) return {};
  return base::write_whole_file(path, text);
}

base::Result<std::vector<Applied>> read_applied(const view::View& view) {
  std::vector<Applied> all;
  const auto meta = read_meta(view);
  if (!meta && meta.error().code == base::Code::not_found) return all;
  if (!meta) return std::unexpected(meta.error());
  for (core::PartitionId partition = 0; partition < meta->partitions; ++partition) {
    const auto stands = read_ownership(view, *meta, partition);
    if (!stands) return std::unexpected(stands.error());
    const auto row = view::read_row(view, view::applied_key(partition));
    if (!row) return std::unexpected(row.error());
    if (!*row || stands->last_sequence == 0) continue;
    const auto position = decode_position(partition, **row);
    if (!position) return std::unexpected(position.error());
    all.push_back({.partition = partition, .sequence = stands->last_sequence, .offset = position->offset});
  }
  return all;
}

std::string describe(const Place& place, const std::vector<Applied>& applied) {
  std::string text = "this folder's history is on topic " + place.topic + " at " + place.brokers +
                     " (journal " + place.journal + "); the view here ";
  if (applied.empty()) return text + "has nothing of it on disk yet";
  text += "has it up to ";
  for (std::size_t at = 0; at < applied.size() && at < kMostNamed; ++at) {
    const Applied& each = applied[at];
    text += std::string(at == 0 ? "" : ", ") + "partition " + std::to_string(each.partition) + " sequence " +
            std::to_string(each.sequence) + " (offset " + std::to_string(each.offset) + ")";
  }
  if (applied.size() > kMostNamed)
    text += " and so on for " + std::to_string(applied.size() - kMostNamed) + " more";
  return text;
}

}  // namespace sandglass::engine::journal::kafka
