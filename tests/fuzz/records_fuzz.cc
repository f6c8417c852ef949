// Stored records of every stream kind, from their bytes to a folded state: accepted or refused, never a crash
// (J4, J22). Input: the kind, then rows with their length before them. A row that decodes is linked to the
// one before it, as a writer would have done, so that fuzzing gets behind the hashes.
#include <string>

#include "engine/codec/messages.h"
#include "engine/codec/record.h"
#include "engine/fold/project.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/stream_kinds.h"

namespace {

using namespace sandglass::engine;

core::StoredRecord linked(core::StoredRecord record, const fold::StreamFold& fold) {
  record.stream = fold.stream();
  record.seq = fold.head().seq + 1;
  auto header = codec::decode_header(record.format, record.header);
  if (!header) return record;
  SG_CHECK(codec::decode_header(1, codec::encode_header(*header)) == *header, "another header");
  header->stream = record.stream;
  header->seq = record.seq;
  header->previous = fold.head().leaf;
  record.header = codec::encode_header(*header);
  return record;
}

/// False: refused.
bool apply(fold::StreamFold& fold, std::string_view row) {
  auto record = codec::decode_record(fold.stream(), fold.head().seq + 1, row);
  if (!record) return false;
  SG_CHECK(codec::encode_record(*record) == row, "another row when made again");
  *record = linked(std::move(*record), fold);
  const auto turn = fold::read_turn(fold.kind(), *record);
  if (!turn) return false;
  for (std::uint32_t i = 0; i < turn->header.messages.size(); ++i) {
    (void)codec::decode_message(turn->header, i, turn->slots);
  }
  const auto before = fold.kind().copy(*fold.state());
  const auto applied = fold.apply(*turn);
  SG_CHECK(applied.has_value(), "a linked record is refused: " + applied.error().message);
  fold::ViewChanges changes;
  fold::project_record(fold, before.get(), turn->header, 8, changes);
  return true;
}

}  // namespace

FUZZ_TARGET(records) {
  sandglass::tests::fuzz::Input in(input);
  const fold::AnyKind& kind = sandglass::tests::fuzz::kind_number(in.byte());
  fold::StreamFold fold(kind, core::StreamId::named(kind.kind(), "fuzz"));
  while (!in.empty() && apply(fold, in.piece())) {
  }
  sandglass::tests::fuzz::check_state(fold);
}
