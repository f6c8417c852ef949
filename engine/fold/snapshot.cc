#include "engine/fold/snapshot.h"

#include <utility>

#include "engine/codec/record.h"
#include "engine/codec/snapshot.h"

namespace sandglass::engine::fold {
namespace {

// Sealed (version in front, checksum behind): level · seq · first record of the turn · flags · leaf(32) ·
// state
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kLeafBytes = 32;
constexpr std::uint64_t kInFlight = 1;
constexpr std::uint64_t kUnanswered = 2;

}  // namespace

std::string encode_snapshot(const StreamFold& fold) {
  const StreamHead& head = fold.head();
  std::string body;
  codec::put_varint(body, kFormatLevel);
  codec::put_varint(body, head.seq);
  codec::put_varint(body, head.turn_first);
  codec::put_varint(body, (head.in_flight ? kInFlight : 0) | (head.unanswered ? kUnanswered : 0));
  body += head.leaf.view();
  body += fold.kind().encode_state(*fold.state());
  return codec::seal_snapshot(kVersion, body);
}

std::optional<StreamFold> decode_snapshot(const AnyKind& kind, const core::StreamId& stream,
                                          std::string_view row) {
  const auto body = codec::open_snapshot(kVersion, row);
  if (!body) return std::nullopt;
  std::string_view rest = *body;
  if (codec::take_varint(rest) != kFormatLevel) return std::nullopt;
  const auto seq = codec::take_varint(rest);
  const auto turn_first = codec::take_varint(rest);
  const auto flags = codec::take_varint(rest);
  if (!seq || !turn_first || !flags || rest.size() < kLeafBytes) return std::nullopt;
  const auto leaf = base::Hash256::from_bytes(rest.substr(0, kLeafBytes));
  auto state = kind.decode_state(rest.substr(kLeafBytes));
  if (!leaf || !state) return std::nullopt;
  const StreamHead head{.seq = *seq,
                        .leaf = *leaf,
                        .turn_first = *turn_first,
                        .in_flight = (*flags & kInFlight) != 0,
                        .unanswered = (*flags & kUnanswered) != 0};
  return StreamFold(kind, stream, head, std::move(*state));
}

}  // namespace sandglass::engine::fold
