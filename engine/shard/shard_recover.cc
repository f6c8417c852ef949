// What happens on opening (J10): only what is in flight is read, never what is finished.
//
//   in-flight rows     the streams are loaded; their pending() actions go out again, an unanswered turn goes
//   on undelivered rows   the messages are taken from their records and delivered again, before anything new
//   closing rows       the sources' partitions are asked whether their inbox rows can be dropped (J18)
//   low-water mark     due timers are read from there, by the first poll
//
// J4: an event that this program does not know is seen here, for streams in flight, before anything is
// served.

#include <string>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/codec/messages.h"
#include "engine/codec/record.h"
#include "engine/fold/project.h"
#include "engine/shard/shard.h"
#include "engine/view/keys.h"
#include "engine/view/read_row.h"

namespace sandglass::engine::shard {
namespace {

using base::Code;

/// Visits all rows of a range, page by page.
template <class Visit>
base::Status for_each_row(const view::View& view, view::KeyRange range, Visit visit) {
  for (;;) {
    auto page = view.scan_now({.first = range.first, .last = range.last});
    if (!page) return std::unexpected(page.error());
    for (const view::Row& row : page->rows) {
      if (auto status = visit(row); !status) return status;
    }
    if (!page->more || page->rows.empty()) return {};
    range.first = std::move(page->rows.back().key);
    range.first.push_back('\0');
  }
}

std::unexpected<base::Error> malformed(const view::Row& row, const char* table) {
  return base::fail(Code::record_damaged,
                    std::string("a row of the ") + table + " index is malformed (key " +
                        base::to_hex(row.key) +
                        "); it is made from records: stop the server and run `sandglass "
                        "rebuild`, which makes all such rows anew");
}

base::Result<core::StreamId> stream_of(const view::Row& row, const char* table) {
  const auto key = view::parse_index_key(row.key);
  const auto stream = key ? core::StreamId::from_bytes(key->stream) : std::nullopt;
  if (!stream) return malformed(row, table);
  return *stream;
}

/// The timers that come first are read by the first poll, when it is too late to refuse: damage among them is
/// looked for here.
base::Status check_due_rows(const view::View& view, core::PartitionId partition, std::int64_t low_water_ms) {
  view::KeyRange range = view::index_range(partition, view::Index::due);
  range.first = view::index_range(partition, view::Index::due, view::sortable(low_water_ms), ~0ULL).first;
  const auto page = view.scan_now({.first = std::move(range.first), .last = std::move(range.last)});
  if (!page) return std::unexpected(page.error());
  for (const view::Row& row : page->rows) {
    if (const auto stream = stream_of(row, "due"); !stream) return std::unexpected(stream.error());
  }
  return {};
}

/// The message that an undelivered row stands for, from the record that sent it.
base::Result<core::Message> undelivered_message(const view::View& view, const view::Row& row) {
  const auto source = stream_of(row, "undelivered");
  if (!source) return std::unexpected(source.error());
  const std::string suffix = view::parse_index_key(row.key)->suffix;
  if (suffix.size() != sizeof(std::uint64_t) + sizeof(std::uint32_t)) {
    return malformed(row, "undelivered");
  }
  const std::uint64_t seq = view::get_u64(suffix);
  const std::uint32_t index = view::get_u32(std::string_view(suffix).substr(sizeof(std::uint64_t)));
  const auto rows =
      view.scan_now({.first = view::record_key(*source, seq), .last = view::record_key(*source, seq + 1)});
  if (!rows) return std::unexpected(rows.error());
  if (rows->rows.empty()) {
    return base::fail(Code::record_damaged,
                      source->text() + ": the record of an undelivered message is missing");
  }
  const auto record = codec::decode_record(*source, seq, rows->rows.front().value);
  if (!record) return std::unexpected(record.error());
  const auto header = codec::decode_header(*record);
  if (!header) return std::unexpected(header.error());
  if (index >= header->messages.size()) {
    return base::fail(Code::record_damaged,
                      source->text() + ": an undelivered message is missing in its record");
  }
  return codec::decode_message(*header, index, record->slots);
}

}  // namespace

base::Status Shard::closed(const view::Row& row) {
  const auto target = stream_of(row, "closing");
  if (!target) return std::unexpected(target.error());
  const auto source = core::StreamId::from_bytes(view::parse_index_key(row.key)->suffix);
  const auto newest = fold::decode_inbox_row(row.value);
  if (!source || !newest) return malformed(row, "closing");
  ports_.neighbours.closed({*source, newest->source_seq, newest->index, true}, *target);
  return {};
}

base::Status Shard::recover(const view::View& view) {
  const std::string low_water = view::low_water_key(partition_, view::Index::due);
  const auto mark = view::read_row(view, low_water);
  if (!mark) return std::unexpected(mark.error());
  if (*mark && (*mark)->size() == sizeof(std::uint64_t)) {
    low_water_ms_ = view::from_sortable(view::get_u64(**mark));
  }
  timers_.open(low_water_ms_);
  SG_CRASH_POINT("shard.recovering");

  auto status = check_due_rows(view, partition_, low_water_ms_);
  if (!status) return status;
  status = for_each_row(view, view::index_range(partition_, view::Index::in_flight),
                        [&](const view::Row& row) -> base::Status {
                          const auto id = stream_of(row, "in-flight");
                          if (!id) return std::unexpected(id.error());
                          Resident& stream = streams_.touch(*id);
                          stream.resume = true;
                          wake(stream);
                          return {};
                        });
  if (!status) return status;
  status = for_each_row(view, view::index_range(partition_, view::Index::closing),
                        [&](const view::Row& row) { return closed(row); });
  if (!status) return status;
  return for_each_row(view, view::index_range(partition_, view::Index::undelivered),
                      [&](const view::Row& row) -> base::Status {
                        auto message = undelivered_message(view, row);
                        if (!message && message.error().code == Code::record_damaged) {
                          base::log(base::LogLevel::warning, "message_damaged",
                                    {{"reason", message.error().message}});
                          return {};  // it keeps its row; everybody else is served (E14)
                        }
                        if (!message) return std::unexpected(message.error());
                        ports_.neighbours.deliver(std::move(*message));
                        return {};
                      });
}

}  // namespace sandglass::engine::shard
