#include "engine/journal/kafka/applied_view.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "engine/codec/record.h"
#include "engine/view/keys.h"
#include "engine/view/read_row.h"

namespace sandglass::engine::journal::kafka {
namespace {

std::unexpected<base::Error> damaged(core::PartitionId partition, const std::string& what) {
  return base::fail(base::Code::record_damaged,
                    "the view of partition " + std::to_string(partition) + " is damaged: " + what +
                        "; stop the engine and delete the folder's journal: it is made anew from the topic");
}

/// Records, their order and other rows are far from each other in the database, which takes neighbours one
/// after the other in half the time. Of one key the last change counts, before and after.
std::vector<view::ViewChange> in_key_order(std::vector<view::ViewChange> changes) {
  if (std::ranges::is_sorted(changes, {}, &view::ViewChange::key)) return changes;
  std::vector<std::size_t> order(changes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](std::size_t left, std::size_t right) {
    const int compared = changes[left].key.compare(changes[right].key);
    return compared != 0 ? compared < 0 : left < right;
  });
  std::vector<view::ViewChange> sorted;
  sorted.reserve(changes.size());
  for (const std::size_t at : order) sorted.push_back(std::move(changes[at]));
  return sorted;
}

}  // namespace

std::string encode_position(const Position& position) {
  std::string row;
  codec::put_varint(row, static_cast<std::uint64_t>(position.offset + 1));
  codec::put_varint(row, position.published);
  codec::put_varint(row, static_cast<std::uint64_t>(position.published_from + 1));
  return row;
}

base::Result<Position> decode_position(core::PartitionId partition, std::string_view row) {
  constexpr std::uint64_t kMost = 1ULL << 62;
  const auto offset = codec::take_varint(row);
  const auto published = codec::take_varint(row);
  const auto published_from = codec::take_varint(row);
  if (!offset || !published || !published_from || !row.empty() || *offset > kMost ||
      *published_from > kMost) {
    return damaged(partition, "the row of its position on the topic is malformed");
  }
  return Position{.offset = static_cast<std::int64_t>(*offset) - 1,
                  .published = *published,
                  .published_from = static_cast<std::int64_t>(*published_from) - 1};
}

base::Result<AppliedView> AppliedView::open(ViewStore store, const JournalMeta& meta,
                                            core::PartitionId partition) {
  const auto stands = read_ownership(store.view, meta, partition);
  if (!stands) return std::unexpected(stands.error());
  AppliedView view(std::move(store), meta, partition);
  view.epoch_ = stands->epoch;
  view.opened_at_ = {.sequence = stands->last_sequence, .chain = stands->chain, .epoch = stands->epoch};
  const auto position = view.row(view::applied_key(partition));
  if (!position) return std::unexpected(position.error());
  if (*position) {
    const auto decoded = decode_position(partition, **position);
    if (!decoded) return std::unexpected(decoded.error());
    view.position_ = *decoded;
  }
  if ((view.position_.offset >= 0) != (stands->last_sequence > 0) ||
      view.position_.published > stands->last_sequence) {
    return damaged(partition, "its position on the topic and its newest record do not belong together");
  }
  view.written_position_ = view.position_;
  return view;
}

base::Result<std::optional<std::string>> AppliedView::row(const std::string& key) const {
  return view::read_row(store_.view, key);
}

std::optional<base::Hash256> AppliedView::hash_of(core::Sequence sequence) const {
  if (sequence >= first_pending_ && sequence - first_pending_ < pending_chains_.size())
    return pending_chains_[sequence - first_pending_];
  const auto found = row(view::order_key(partition_, sequence));
  if (!found || !*found) return std::nullopt;
  const auto link = codec::decode_order(sequence, **found);
  return link ? std::optional(link->chain) : std::nullopt;
}

base::Result<core::OwnerEpoch> AppliedView::epoch_of(core::Sequence sequence) const {
  const auto found = row(view::order_key(partition_, sequence));
  if (!found) return std::unexpected(found.error());
  if (!*found) return damaged(partition_, "order row " + std::to_string(sequence) + " is missing");
  const auto link = codec::decode_order(sequence, **found);
  if (!link) return std::unexpected(link.error());
  return link->epoch;
}

base::Result<std::vector<std::pair<core::Sequence, Message>>> AppliedView::messages(core::Sequence from,
                                                                                    std::size_t limit) const {
  std::vector<std::pair<core::Sequence, Message>> made;
  const auto [first, last] = view::order_range(partition_, from);
  const auto rows = store_.view.scan_now({.first = first, .last = last, .limit = limit});
  if (!rows) return std::unexpected(rows.error());
  std::optional<base::Hash256> previous;
  auto epoch = from > 1 ? epoch_of(from - 1) : core::OwnerEpoch{0};
  if (!epoch) return std::unexpected(epoch.error());
  for (const view::Row& each : rows->rows) {
    const auto key = view::parse_order_key(each.key);
    if (!key || key->sequence != from + made.size())
      return damaged(partition_, "order row " + std::to_string(from + made.size()) + " is missing");
    const auto link = codec::decode_order(key->sequence, each.value);
    if (!link) return std::unexpected(link.error());
    if (!previous) previous = from > 1 ? hash_of(from - 1) : codec::genesis_chain(journal(), partition_);
    auto stored = row(view::record_key(link->stream, link->stream_seq));
    if (!stored) return std::unexpected(stored.error());
    if (!*stored || !previous)
      return damaged(partition_, "the record of sequence " + std::to_string(key->sequence) + " is missing");
    const Kind kind = link->stream == owners_ && link->epoch > *epoch ? Kind::epoch : Kind::record;
    made.emplace_back(key->sequence, encode_record(journal(), kind, *link, *previous, std::move(**stored)));
    previous = link->chain;
    epoch = link->epoch;
  }
  return made;
}

void AppliedView::add(const core::OrderedRecord& record, std::string row,
                      std::vector<view::ViewChange> changes, std::int64_t offset) {
  const core::OrderLink& link = record.link;
  if (pending_chains_.empty()) first_pending_ = link.sequence;
  SG_CHECK(link.sequence == first_pending_ + pending_chains_.size(), "records are added in order");
  pending_bytes_ += row.size();
  pending_.push_back({view::record_key(link.stream, link.stream_seq), std::move(row)});
  pending_order_.push_back({view::order_key(partition_, link.sequence), codec::encode_order(link)});
  pending_chains_.push_back(link.chain);
  add_rows(std::move(changes));
  if (link.epoch > epoch_) epoch_ = pending_epoch_ = link.epoch;
  position_.offset = offset;
}

void AppliedView::add_rows(std::vector<view::ViewChange> changes) {
  for (const view::ViewChange& change : changes) pending_bytes_ += change.value ? change.value->size() : 0;
  std::ranges::move(changes, std::back_inserter(pending_));
}

void AppliedView::moved(std::int64_t offset) {
  position_.offset = offset;
}

void AppliedView::published(core::Sequence sequence, std::int64_t offset) {
  position_.published = sequence;
  position_.published_from = offset;
}

void AppliedView::may_read_published_from(std::int64_t offset) {
  position_.published_from = std::max(position_.published_from, offset);
}

base::Status AppliedView::flush() {
  if (pending_.empty() && position_ == written_position_) return {};
  if (pending_epoch_ != 0) pending_.push_back(owner_epoch_row(partition_, pending_epoch_));
  pending_.push_back({view::applied_key(partition_), encode_position(position_)});
  // Keys of the order are behind all others, and in order as they are.
  const std::array<std::vector<view::ViewChange>, 2> groups = {in_key_order(std::move(pending_)),
                                                               std::move(pending_order_)};
  pending_.clear();
  pending_order_.clear();
  pending_chains_.clear();
  pending_epoch_ = 0;
  pending_bytes_ = 0;
  if (const auto written = store_.write(groups); !written) return written;
  written_position_ = position_;
  return {};
}

}  // namespace sandglass::engine::journal::kafka
