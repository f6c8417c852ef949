#include "engine/journal/rows/rows.h"

#include <algorithm>
#include <iterator>

#include "engine/base/check.h"
#include "engine/base/steady_clock.h"
#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/view/keys.h"
#include "engine/view/read_row.h"

namespace sandglass::engine::journal {
namespace {

namespace keys = ::sandglass::engine::view;

template <class Int>
std::string fixed(void (*put)(std::string&, Int), Int value) {
  std::string text;
  put(text, value);
  return text;
}

std::unexpected<base::Error> damaged(const std::string& what) {
  return base::fail(
      base::Code::record_damaged,
      what + "; restore the data folder from a backup. `sandglass audit verify` lists what else is damaged");
}

}  // namespace

std::vector<view::ViewChange> meta_rows(const JournalMeta& meta) {
  SG_CHECK(meta.partitions >= 1 && meta.partitions <= keys::kStreamBuckets, "1 to 1024 partitions");
  std::vector<view::ViewChange> rows = {
      {keys::meta_key(keys::MetaRow::format), fixed(&keys::put_u32, keys::kFolderFormat)},
      {keys::meta_key(keys::MetaRow::journal_id), meta.journal_id},
      {keys::meta_key(keys::MetaRow::partitions), fixed(&keys::put_u16, meta.partitions)}};
  if (!meta.key_check.empty()) rows.push_back({keys::meta_key(keys::MetaRow::key_check), meta.key_check});
  if (!meta.folder_id.empty()) rows.push_back({keys::meta_key(keys::MetaRow::folder_id), meta.folder_id});
  return rows;
}

base::Result<JournalMeta> read_meta(const view::View& view) {
  const auto format = view::read_row(view, keys::meta_key(keys::MetaRow::format));
  const auto id = view::read_row(view, keys::meta_key(keys::MetaRow::journal_id));
  const auto partitions = view::read_row(view, keys::meta_key(keys::MetaRow::partitions));
  if (!format) return std::unexpected(format.error());
  if (!id) return std::unexpected(id.error());
  if (!partitions) return std::unexpected(partitions.error());
  if (!*format && !*id && !*partitions) {
    return base::fail(base::Code::not_found, "the journal is empty: nothing was ever started here");
  }
  if (!*format || (*format)->size() != 4) return damaged("the journal's format row is missing or damaged");
  if (keys::get_u32(**format) != keys::kFolderFormat) {
    return base::fail(base::Code::folder_version,
                      "the journal has row format " + std::to_string(keys::get_u32(**format)) +
                          ", this program reads " + std::to_string(keys::kFolderFormat) +
                          ": use the program version that made it");
  }
  if (!*id || !*partitions || (*partitions)->size() != 2)
    return damaged("the journal's identity rows are damaged");
  const std::uint16_t count = keys::get_u16(**partitions);
  if (count < 1 || count > keys::kStreamBuckets) return damaged("the journal's partition count is damaged");
  const auto key_check = view::read_row(view, keys::meta_key(keys::MetaRow::key_check));
  if (!key_check) return std::unexpected(key_check.error());
  const auto folder_id = view::read_row(view, keys::meta_key(keys::MetaRow::folder_id));
  if (!folder_id) return std::unexpected(folder_id.error());
  return JournalMeta{.journal_id = **id,
                     .partitions = count,
                     .key_check = key_check->value_or(std::string()),
                     .folder_id = folder_id->value_or(std::string())};
}

void take_rows(Batch& batch, std::vector<view::ViewChange>& rows) {
  rows.reserve(rows.size() + 2 * batch.records.size() + batch.view_changes.size());
  for (const core::OrderedRecord& each : batch.records) {
    rows.push_back(
        {keys::record_key(each.record.stream, each.record.seq), codec::encode_record(each.record)});
    rows.push_back({keys::order_key(batch.partition, each.link.sequence), codec::encode_order(each.link)});
  }
  std::ranges::move(batch.view_changes, std::back_inserter(rows));
}

std::size_t row_bytes(const std::vector<view::ViewChange>& rows) {
  std::size_t bytes = 0;
  for (const view::ViewChange& row : rows) bytes += row.key.size() + (row.value ? row.value->size() : 0);
  return bytes;
}

namespace {

/// The newest order row extends the one before it: nothing is decided on a damaged end of the chain.
base::Status check_tail(const view::View& view, const JournalMeta& meta, core::PartitionId partition,
                        const core::OrderLink& link) {
  base::Hash256 before = codec::genesis_chain(meta.journal_id, partition);
  if (link.sequence > 1) {
    const auto row = view::read_row(view, keys::order_key(partition, link.sequence - 1));
    if (!row) return std::unexpected(row.error());
    if (!*row) {
      return damaged("order row " + std::to_string(link.sequence - 1) + " of partition " +
                     std::to_string(partition) + " is missing");
    }
    const auto previous = codec::decode_order(link.sequence - 1, **row);
    if (!previous) return std::unexpected(previous.error());
    before = previous->chain;
  }
  if (codec::chain_hash(before, partition, link.sequence, link.epoch, link.leaf) == link.chain) return {};
  return damaged("order row " + std::to_string(link.sequence) + " of partition " + std::to_string(partition) +
                 " does not extend the chain before it");
}

}  // namespace

base::Result<Ownership> read_ownership(const view::View& view, const JournalMeta& meta,
                                       core::PartitionId partition) {
  if (partition >= meta.partitions) {
    return base::fail(
        base::Code::invalid_argument,
        "partition " + std::to_string(partition) + " of a journal with " + std::to_string(meta.partitions));
  }
  Ownership ownership{.chain = codec::genesis_chain(meta.journal_id, partition)};
  const auto epoch = read_owner_epoch(view, partition);
  if (!epoch) return std::unexpected(epoch.error());
  ownership.epoch = *epoch;
  const auto [first, last] = keys::order_range(partition);
  const auto tail = view.scan_now({.first = first, .last = last, .limit = 1, .reverse = true});
  if (!tail) return std::unexpected(tail.error());
  if (tail->rows.empty()) return ownership;
  const auto key = keys::parse_order_key(tail->rows.front().key);
  if (!key) return damaged("an order row of partition " + std::to_string(partition) + " has a bad key");
  const auto link = codec::decode_order(key->sequence, tail->rows.front().value);
  if (!link) return std::unexpected(link.error());
  if (const auto whole = check_tail(view, meta, partition, *link); !whole)
    return std::unexpected(whole.error());
  if (ownership.epoch < link->epoch) {
    return damaged("the owner epoch of partition " + std::to_string(partition) + " is " +
                   std::to_string(ownership.epoch) + ", but its newest record is of epoch " +
                   std::to_string(link->epoch));
  }
  ownership.last_sequence = link->sequence;
  ownership.chain = link->chain;
  return ownership;
}

namespace {

std::optional<base::WallMs> newest_record_ms(const view::View& view, core::PartitionId partition) {
  const auto [first, last] = keys::order_range(partition);
  const auto tail = view.scan_now({.first = first, .last = last, .limit = 1, .reverse = true});
  if (!tail || tail->rows.empty()) return std::nullopt;
  const auto key = keys::parse_order_key(tail->rows.front().key);
  if (!key) return std::nullopt;
  const auto record = RowReader(view).read_order(partition, key->sequence, 1);
  if (!record || record->empty()) return std::nullopt;
  const auto header = codec::decode_header(record->front().record);
  return header ? std::optional(header->time_ms) : std::nullopt;
}

}  // namespace

std::optional<base::WallMs> newest_record_ms(const view::View& view, const JournalMeta& meta) {
  std::optional<base::WallMs> newest;
  for (core::PartitionId partition = 0; partition < meta.partitions; ++partition)
    newest = std::max(newest, newest_record_ms(view, partition));
  return newest;
}

base::WallMs time_of_next(const view::View& view, core::PartitionId partition, base::WallMs now_ms) {
  const base::WallMs newest = newest_record_ms(view, partition).value_or(now_ms);
  return newest - now_ms < base::SteadyClock::kMostHeldMs ? std::max(newest, now_ms) : now_ms;
}

base::Result<core::OwnerEpoch> read_owner_epoch(const view::View& view, core::PartitionId partition) {
  const auto epoch = view::read_row(view, keys::owner_epoch_key(partition));
  if (!epoch) return std::unexpected(epoch.error());
  if (!*epoch) return 0;
  if ((*epoch)->size() != 8)
    return damaged("the owner epoch of partition " + std::to_string(partition) + " is damaged");
  return keys::get_u64(**epoch);
}

view::ViewChange owner_epoch_row(core::PartitionId partition, core::OwnerEpoch epoch) {
  return {keys::owner_epoch_key(partition), fixed(&keys::put_u64, epoch)};
}

void SequenceGuard::check(const Batch& batch) {
  for (const core::OrderedRecord& each : batch.records) {
    SG_CHECK(each.link.sequence == last_ + 1, "a record does not follow the one before it in its partition");
    SG_CHECK(each.link.epoch == epoch_, "a record carries another epoch than its owner's");
    SG_CHECK(each.link.stream == each.record.stream && each.link.stream_seq == each.record.seq,
             "an order link names another record than the one beside it");
    last_ = each.link.sequence;
  }
}

base::Result<std::uint16_t> RowReader::partitions() const {
  const auto meta = read_meta(view_);
  if (!meta) return std::unexpected(meta.error());
  return meta->partitions;
}

base::Result<std::string> RowReader::journal_id() const {
  const auto meta = read_meta(view_);
  if (!meta) return std::unexpected(meta.error());
  return meta->journal_id;
}

base::Result<std::vector<core::OrderedRecord>> RowReader::read_order(core::PartitionId partition,
                                                                     core::Sequence from,
                                                                     std::size_t limit) const {
  const auto [first, last] = keys::order_range(partition, from);
  auto found = view_.scan_now({.first = first, .last = last, .limit = limit});
  if (!found) return std::unexpected(found.error());
  std::vector<core::OrderedRecord> records;
  records.reserve(found->rows.size());
  for (const view::Row& row : found->rows) {
    const auto key = keys::parse_order_key(row.key);
    if (!key) return damaged("an order row of partition " + std::to_string(partition) + " has a bad key");
    auto link = codec::decode_order(key->sequence, row.value);
    if (!link) return std::unexpected(link.error());
    auto stored = view::read_row(view_, keys::record_key(link->stream, link->stream_seq));
    if (!stored) {
      base::Error error = stored.error();
      error.message =
          "record " + std::to_string(link->stream_seq) + " of " + link->stream.text() + ": " + error.message;
      return std::unexpected(std::move(error));
    }
    if (!*stored) {
      return damaged("record " + std::to_string(link->stream_seq) + " of " + link->stream.text() +
                     " (sequence " + std::to_string(key->sequence) + " of partition " +
                     std::to_string(partition) + ") is missing");
    }
    auto record = codec::decode_record(link->stream, link->stream_seq, **stored);
    if (!record) return std::unexpected(record.error());
    records.push_back({.link = std::move(*link), .record = std::move(*record)});
  }
  return records;
}

base::Result<std::vector<core::StoredRecord>> RowReader::read_stream(const core::StreamId& stream,
                                                                     std::uint64_t from_seq,
                                                                     std::size_t limit) const {
  const auto [first, last] = keys::record_range(stream, from_seq);
  auto found = view_.scan_now({.first = first, .last = last, .limit = limit});
  if (!found) return std::unexpected(found.error());
  std::vector<core::StoredRecord> records;
  records.reserve(found->rows.size());
  for (const view::Row& row : found->rows) {
    const auto key = keys::parse_stream_key(row.key);
    if (!key) return damaged("a record of " + stream.text() + " has a bad key");
    auto record = codec::decode_record(stream, keys::get_u64(key->rest), row.value);
    if (!record) return std::unexpected(record.error());
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace sandglass::engine::journal
