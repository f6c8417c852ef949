#include "engine/journal/rows/owners.h"

#include <memory>
#include <utility>

#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/journal/rows/lines.h"
#include "engine/view/keys.h"

namespace sandglass::engine::journal {
namespace {

constexpr std::string_view kFirstLine = "sandglass owner 1";
constexpr std::string_view kBegins = "sandglass owner ";

}  // namespace

core::StreamId owners_stream(core::PartitionId partition, std::uint16_t partitions) {
  for (std::uint32_t tries = 0;; ++tries) {
    const auto stream = core::StreamId::named(
        core::StreamKind::partition, "owners/" + std::to_string(partition) + "/" + std::to_string(tries));
    if (view::partition_of(stream.bucket(), partitions) == partition) return stream;
  }
}

std::string encode_owner(const OwnerMark& mark) {
  if (mark.key.empty() && mark.skipped.empty()) return {};
  std::string text = std::string(kFirstLine) + "\nkey " + mark.key + "\nblobs " + mark.blobs + "\n";
  for (const SkippedMessage& each : mark.skipped)
    text += "skipped " + std::to_string(each.offset) + " " + each.hash.hex() + "\n";
  return text;
}

base::Result<std::optional<OwnerMark>> owner_of(const core::StoredRecord& record) {
  if (record.slots.empty() || !record.slots.front()->bytes.starts_with(kBegins))
    return std::optional<OwnerMark>();
  std::string_view rest = record.slots.front()->bytes;
  const auto first = take_line(rest);
  if (first && *first != kFirstLine) {
    return base::fail(base::Code::format_unknown,
                      "a record of the journal's owners is of a newer format: " + std::string(*first) +
                          "; use the program that wrote it");
  }
  auto key = take_value(rest, "key");
  auto blobs = take_value(rest, "blobs");
  OwnerMark mark{.key = key.value_or(""), .blobs = blobs.value_or("")};
  while (blobs && !rest.empty()) {
    const auto skipped = take_value(rest, "skipped");
    const auto place = skipped ? parse_head(*skipped) : std::nullopt;
    if (!place) break;
    mark.skipped.push_back({.offset = static_cast<std::int64_t>(place->sequence), .hash = place->chain});
  }
  if (!first || !key || !blobs || encode_owner(mark) != record.slots.front()->bytes)
    return base::fail(base::Code::record_damaged, "a record of the journal's owners is not written as one");
  return mark;
}

core::StoredRecord make_epoch_record(const core::StreamId& owners, const core::StoredRecord* last,
                                     core::OwnerEpoch epoch, std::int64_t time_ms, std::string_view text) {
  codec::TurnHeader header{.stream = owners, .seq = 1, .time_ms = time_ms, .epoch = epoch};
  if (last != nullptr) {
    header.seq = last->seq + 1;
    header.previous = codec::leaf_hash(*last);
  }
  core::StoredRecord record{.stream = owners, .seq = header.seq, .header = codec::encode_header(header)};
  if (!text.empty()) {
    record.slots.push_back(
        std::make_shared<const core::Slot>(core::Slot{core::Encoding::bytes, std::string(text)}));
  }
  return record;
}

}  // namespace sandglass::engine::journal
