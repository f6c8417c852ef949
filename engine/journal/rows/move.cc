#include "engine/journal/rows/move.h"

#include <algorithm>
#include <utility>

#include "engine/codec/record.h"
#include "engine/journal/rows/lines.h"
#include "engine/view/keys.h"

namespace sandglass::engine::journal {
namespace {

constexpr std::string_view kFirstLine = "sandglass move 1";
constexpr std::size_t kHexDigits = 64;
constexpr std::size_t kPage = 256;

std::unexpected<base::Error> damaged(const std::string& what) {
  return base::fail(base::Code::record_damaged, "a record that tells of the journal's move " + what);
}

}  // namespace

std::string encode_move(const Move& move) {
  std::string text(kFirstLine);
  text +=
      "\nfrom " + move.from + "\nto " + move.to + "\nplace " + move.place + "\nfolder " + move.folder + "\n";
  for (const ChainHead& head : move.heads) text += head_line(head);
  return text;
}

base::Result<Move> decode_move(std::string_view text) {
  std::string_view rest = text;
  const auto first = take_line(rest);
  if (!first || *first != kFirstLine) {
    if (first && first->starts_with("sandglass move ")) {
      return base::fail(base::Code::format_unknown,
                        "a record of the journal's move is of a newer format: " + std::string(*first) +
                            "; use the program that wrote it");
    }
    return damaged("does not begin as one");
  }
  auto from = take_value(rest, "from");
  auto to = take_value(rest, "to");
  auto place = take_value(rest, "place");
  auto folder = take_value(rest, "folder");
  if (!from || !to || !place || !folder) return damaged("does not say from where and to where");
  Move move{.from = std::move(*from),
            .to = std::move(*to),
            .place = std::move(*place),
            .folder = std::move(*folder)};
  while (!rest.empty()) {
    const auto line = take_line(rest);
    const auto head = line ? parse_head(*line) : std::nullopt;
    if (!head) return damaged("does not say where partition " + std::to_string(move.heads.size()) + " ended");
    move.heads.push_back(*head);
  }
  if (move.heads.empty() || encode_move(move) != text) return damaged("is not written as one");
  return move;
}

std::string Move::new_id() const {
  base::Sha256 hash;
  hash.update("sandglass moved journal 1").update(encode_move(*this));
  return to + "-" + hash.finish().hex();
}

base::Result<std::optional<Move>> move_of(const core::StoredRecord& record) {
  const auto mark = owner_of(record);
  if (!mark) return std::unexpected(mark.error());
  if (record.slots.empty() || *mark) return std::optional<Move>();
  auto move = decode_move(record.slots.front()->bytes);
  if (!move) return std::unexpected(move.error());
  return std::optional(std::move(*move));
}

bool is_moved(std::string_view journal_id) {
  if (journal_id.size() <= kHexDigits + 1) return false;
  const std::string_view digits = journal_id.substr(journal_id.size() - kHexDigits);
  return journal_id[journal_id.size() - kHexDigits - 1] == '-' &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_moved_to(std::string_view journal_id, std::string_view to) {
  return is_moved(journal_id) && journal_id.substr(0, journal_id.size() - kHexDigits - 1) == to;
}

base::Result<Moves> read_moves(const view::View& view, const JournalMeta& meta, core::PartitionId partition) {
  const core::StreamId owners = owners_stream(partition, meta.partitions);
  const RowReader reader(view);
  Moves moves;
  for (std::uint64_t next = 1;;) {
    auto records = reader.read_stream(owners, next, kPage);
    if (!records) return std::unexpected(records.error());
    if (records->empty()) return moves;
    for (core::StoredRecord& record : *records) {
      auto move = move_of(record);
      if (!move) return std::unexpected(move.error());
      auto owner = owner_of(record);
      if (!owner) return std::unexpected(owner.error());
      if (*owner && !(*owner)->key.empty()) moves.owner = std::move(*owner);
      moves.owned_since = moves.here.has_value();
      if (*move && (*move)->new_id() == meta.journal_id) moves.here = *move;
      moves.away = *move && (*move)->from == meta.journal_id ? std::move(*move) : std::nullopt;
      next = record.seq + 1;
      moves.newest = std::move(record);
    }
  }
}

base::Result<std::optional<Move>> read_move_away(const view::View& view, const JournalMeta& meta) {
  for (core::PartitionId partition = 0; partition < meta.partitions; ++partition) {
    auto moves = read_moves(view, meta, partition);
    if (!moves) return std::unexpected(moves.error());
    if (moves->away) return std::move(moves->away);
  }
  return std::optional<Move>();
}

base::Error closed_by(const Move& move) {
  return {base::Code::folder_version,
          "journal " + move.from + " is closed: its history goes on, or is on its way, to " + move.place +
              ". If that move has not ended, `sandglass migrate --continue`, with the data folder where it "
              "began, finishes it, and `sandglass migrate --back` gives it up"};
}

base::Result<std::vector<ChainHead>> read_heads(const view::View& view, const JournalMeta& meta) {
  std::vector<ChainHead> heads;
  for (core::PartitionId partition = 0; partition < meta.partitions; ++partition) {
    const auto owned = read_ownership(view, meta, partition);
    if (!owned) return std::unexpected(owned.error());
    heads.push_back({.sequence = owned->last_sequence, .chain = owned->chain});
  }
  return heads;
}

base::Result<std::vector<view::ViewChange>> owners_record_rows(const view::View& view,
                                                               const JournalMeta& meta,
                                                               core::PartitionId partition,
                                                               std::string_view move, std::int64_t now_ms) {
  const auto owned = read_ownership(view, meta, partition);
  if (!owned) return std::unexpected(owned.error());
  const auto moves = read_moves(view, meta, partition);
  if (!moves) return std::unexpected(moves.error());
  const core::StreamId owners = owners_stream(partition, meta.partitions);
  const core::OwnerEpoch epoch = owned->epoch + 1;
  const core::StoredRecord record = make_epoch_record(owners, moves->newest ? &*moves->newest : nullptr,
                                                      epoch, time_of_next(view, partition, now_ms), move);
  core::OrderLink link{.sequence = owned->last_sequence + 1,
                       .epoch = epoch,
                       .stream = owners,
                       .stream_seq = record.seq,
                       .leaf = codec::leaf_hash(record)};
  link.chain = codec::chain_hash(owned->chain, partition, link.sequence, epoch, link.leaf);
  return std::vector<view::ViewChange>{{view::record_key(owners, record.seq), codec::encode_record(record)},
                                       {view::order_key(partition, link.sequence), codec::encode_order(link)},
                                       owner_epoch_row(partition, epoch)};
}

}  // namespace sandglass::engine::journal
