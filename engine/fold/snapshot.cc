#include "engine/fold/snapshot.h"

#include <utility>

#include "engine/codec/record.h"

namespace sandglass::engine::fold {
namespace {

// version · level · seq · first record of the turn · flags · leaf(32) · state · first 8 bytes of SHA-256 of
// all that
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kCheckBytes = 8;
constexpr std::uint64_t kInFlight = 1;
constexpr std::uint64_t kUnanswered = 2;

std::string check_of(std::string_view body) {
  return std::string(base::sha256(body).view().substr(0, kCheckBytes));
}

}  // namespace

std::string encode_snapshot(const StreamFold& fold) {
  const StreamHead& head = fold.head();
  std::string row;
  codec::put_varint(row, kVersion);
  codec::put_varint(row, kFormatLevel);
  codec::put_varint(row, head.seq);
  codec::put_varint(row, head.turn_first);
  codec::put_varint(row, (head.in_flight ? kInFlight : 0) | (head.unanswered ? kUnanswered : 0));
  row += head.leaf.view();
  row += fold.kind().encode_state(*fold.state());
  row += check_of(row);
  return row;
}

std::optional<StreamFold> decode_snapshot(const AnyKind& kind, const core::StreamId& stream,
                                          std::string_view row) {
  if (row.size() < kCheckBytes) return std::nullopt;
  std::string_view rest = row.substr(0, row.size() - kCheckBytes);
  if (check_of(rest) != row.substr(rest.size())) return std::nullopt;
  const auto version = codec::take_varint(rest);
  const auto level = codec::take_varint(rest);
  if (version != kVersion || level != kFormatLevel) return std::nullopt;
  const auto seq = codec::take_varint(rest);
  const auto turn_first = codec::take_varint(rest);
  const auto flags = codec::take_varint(rest);
  if (!seq || !turn_first || !flags || rest.size() < 32) return std::nullopt;
  const auto leaf = base::Hash256::from_bytes(rest.substr(0, 32));
  auto state = kind.decode_state(rest.substr(32));
  if (!leaf || !state) return std::nullopt;
  const StreamHead head{.seq = *seq,
                        .leaf = *leaf,
                        .turn_first = *turn_first,
                        .in_flight = (*flags & kInFlight) != 0,
                        .unanswered = (*flags & kUnanswered) != 0};
  return StreamFold(kind, stream, head, std::move(*state));
}

}  // namespace sandglass::engine::fold
