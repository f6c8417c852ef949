// Keys and values of rows, stored trees, sealed snapshots, JSON in payloads. Oracle: what is accepted is made
// again byte for byte (stored bytes have one reading, J22).
#include <string>

#include "engine/base/check.h"
#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/codec/snapshot.h"
#include "engine/codec/tree.h"
#include "engine/fold/project.h"
#include "engine/view/keys.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass::engine;

void check_keys(std::string_view key) {
  if (const auto parsed = view::parse_stream_key(key)) {
    const view::StreamKey stream(parsed->bucket, parsed->stream);
    const auto range = view::stream_range(stream, parsed->kind);
    SG_CHECK(range.first <= key && (range.last.empty() || key < range.last), "a key outside of its range");
  }
  if (const auto parsed = view::parse_index_key(key)) {
    const view::StreamKey stream(0, parsed->stream);
    SG_CHECK(view::index_key(parsed->partition, parsed->index, parsed->sort, stream, parsed->suffix) == key,
             "another index key when made again");
    const auto range = view::index_range(parsed->partition, parsed->index);
    SG_CHECK(range.first <= key && key < range.last, "an index key outside of its range");
  }
  if (const auto parsed = view::parse_order_key(key)) {
    SG_CHECK(view::order_key(parsed->partition, parsed->sequence) == key, "another order key");
  }
  const auto range = view::prefix_range(std::string(key));
  SG_CHECK(range.last.empty() || range.first < range.last, "an empty range of a prefix");
  if (const auto id = core::StreamId::from_bytes(key)) SG_CHECK(id->bytes() == key, "another stream id");
  if (const auto id = core::StreamId::parse(key)) SG_CHECK(id->text() == key, "another text of a stream id");
}

void check_values(std::string_view value) {
  if (const auto link = codec::decode_order(7, value)) {
    SG_CHECK(codec::encode_order(*link) == value, "another order row");
  }
  if (const auto row = fold::decode_request_row(value)) {
    SG_CHECK(fold::encode_request_row(*row) == value, "another request row");
  }
  if (const auto row = fold::decode_inbox_row(value)) {
    SG_CHECK(fold::encode_inbox_row(*row) == value, "another inbox row");
  }
  (void)codec::open_snapshot(1, value);
  (void)codec::open_snapshot(1, codec::seal_snapshot(1, value));
}

}  // namespace

FUZZ_TARGET(rows) {
  sandglass::tests::fuzz::Input in(input);
  switch (in.byte() % 4) {
    case 0:
      return check_keys(in.rest());
    case 1:
      return check_values(in.rest());
    case 2:
      if (const auto tree = codec::decode_tree(in.rest())) {
        const auto bytes = codec::encode_tree(*tree);
        if (!bytes) return;
        const auto again = codec::decode_tree(*bytes);
        SG_CHECK(again && again->entries.size() == tree->entries.size(), "another tree when written again");
      }
      return;
    default: {
      const auto row = in.rest();
      const auto record = codec::decode_record(core::StreamId::named(core::StreamKind::test, "t"), 1, row);
      if (!record) return;
      SG_CHECK(codec::encode_record(*record) == row, "another record row when made again");
      SG_CHECK(codec::encoded_size(record->header.size(), record->slots) == row.size(), "another size");
      (void)codec::leaf_hash(*record);
      if (const auto header = codec::decode_header(1, record->header)) {
        const std::string bytes = codec::encode_header(*header);
        const auto again = codec::decode_header(1, bytes);
        SG_CHECK(again && *again == *header, "another header when made again");
      }
    }
  }
}
