#include "engine/codec/record.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/codec/header.h"
#include "engine/codec/messages.h"
#include "engine/view/keys.h"

namespace sandglass::engine::codec {
namespace {

using core::StreamId;
using core::StreamKind;

core::SlotPtr slot(std::string bytes) {
  return std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, std::move(bytes)});
}

core::StoredRecord sample() {
  return {.stream = StreamId::named(StreamKind::run, "a"),
          .seq = 7,
          .header = "header",
          .slots = {slot("{}"), slot("")}};
}

TurnHeader full_header() {
  TurnHeader header{.stream = StreamId::named(StreamKind::run, "a"), .seq = 7, .time_ms = -5, .epoch = 3};
  header.previous = base::sha256("x");
  header.continues = 6;
  header.request_id = "any bytes \xFF";  // bad UTF-8 must not make a record unreadable
  header.consumed = ConsumedMessage{
      .source = StreamId::named(StreamKind::pool, "p"), .source_seq = 4, .index = 1, .closing = true};
  header.events = {{.type = 1, .version = 1, .body = "one"}, {.type = 9, .version = 2, .body = ""}};
  header.timers_started = {{.key = "t", .due_ms = 100}};
  header.timers_ended = {{.key = "u\xFF", .due_ms = -1}};
  header.in_flight = InFlightChange::entered;
  header.reply_slot = 0;
  header.unanswered = true;
  header.request_digest = base::sha256("r");
  header.reply_digest = {base::sha256("q")};
  header.messages.push_back({.target = StreamId::named(StreamKind::pool, "p"),
                             .type = 3,
                             .body = "b",
                             .correlation = "c\xFE",
                             .closing = true,
                             .payload_slot = 1,
                             .payload_digest = {base::sha256("p")}});
  return header;
}

TEST(Record, RowsGiveBackTheSameRecord) {
  const core::StoredRecord record = sample();
  const std::string row = encode_record(record);
  EXPECT_EQ(row.size(), encoded_size(record.header.size(), record.slots));
  const auto read = decode_record(record.stream, record.seq, row);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->header, record.header);
  ASSERT_EQ(read->slots.size(), 2u);
  EXPECT_EQ(*read->slots[0], *record.slots[0]);
  EXPECT_EQ(leaf_hash(*read), leaf_hash(record));
}

TEST(Record, ARowCutAnywhereIsDamagedAndNeverReadAsShorter) {
  const core::StoredRecord record = sample();
  const std::string row = encode_record(record);
  for (std::size_t length = 0; length < row.size(); ++length) {
    const auto read = decode_record(record.stream, record.seq, std::string_view(row).substr(0, length));
    ASSERT_FALSE(read) << length;
    EXPECT_EQ(read.error().code, base::Code::record_damaged);
  }
  EXPECT_FALSE(decode_record(record.stream, record.seq, row + "x"));
}

TEST(Record, AnotherFormatIsRefusedByName) {
  core::StoredRecord record = sample();
  record.format = core::kRecordFormat + 1;
  const auto read = decode_record(record.stream, record.seq, encode_record(record));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, base::Code::format_unknown);
}

// J4: damage parks one stream, what is newer stops the shard; a flipped bit must never look like the latter.
TEST(Record, AnyFlippedBitIsDamageAndNotANewerFormat) {
  const core::StoredRecord record = sample();
  const std::string row = encode_record(record);
  for (std::size_t bit = 0; bit < row.size() * 8; ++bit) {
    std::string flipped = row;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto read = decode_record(record.stream, record.seq, flipped);
    ASSERT_FALSE(read) << "bit " << bit;
    ASSERT_EQ(read.error().code, base::Code::record_damaged) << "bit " << bit;
  }
}

// J22: whatever is stored is hashed, and a byte cannot move from one part into another.
TEST(Record, TheLeafChangesWithEveryStoredByte) {
  const core::StoredRecord record = sample();
  const base::Hash256 leaf = leaf_hash(record);
  core::StoredRecord other = record;
  other.header += "x";
  EXPECT_NE(leaf_hash(other), leaf);
  other = record;
  other.slots.pop_back();
  EXPECT_NE(leaf_hash(other), leaf);
  other = record;
  other.slots[0] = std::make_shared<const core::Slot>(core::Slot{core::Encoding::bytes, "{}"});
  EXPECT_NE(leaf_hash(other), leaf);
  other = record;
  other.slots = {slot("{"), slot("}")};
  EXPECT_NE(leaf_hash(other), leaf);
  // A pinned value: the leaf of given bytes never changes.
  EXPECT_EQ(leaf.hex(), "fa3dca58112f80a3c5410518cec24c716eb5b7e7a20758a6c06a7e47a7250f9e");
}

TEST(Record, TheChainCommitsToJournalPartitionSequenceAndEpoch) {
  const base::Hash256 leaf = base::sha256("leaf");
  const base::Hash256 genesis = genesis_chain("journal", 1);
  EXPECT_NE(genesis, genesis_chain("journal", 2));
  EXPECT_NE(genesis, genesis_chain("journal2", 1));
  const base::Hash256 chain = chain_hash(genesis, 1, 1, 1, leaf);
  EXPECT_NE(chain, chain_hash(genesis, 2, 1, 1, leaf));
  EXPECT_NE(chain, chain_hash(genesis, 1, 2, 1, leaf));
  EXPECT_NE(chain, chain_hash(genesis, 1, 1, 2, leaf));
  EXPECT_NE(chain, chain_hash(genesis, 1, 1, 1, base::sha256("other")));
  EXPECT_EQ(chain.hex(), "ef56a12d1aa7c2334c1a97af3108664eb89a3d55aa3ddbb9ad86c730405f3d6e");
}

TEST(Record, OrderRowsGiveBackTheSameLink) {
  const core::OrderLink link{.sequence = 5,
                             .epoch = 300,
                             .stream = StreamId::named(StreamKind::run, "a"),
                             .stream_seq = 1ULL << 40,
                             .leaf = base::sha256("l"),
                             .chain = base::sha256("c")};
  const std::string row = encode_order(link);
  const auto read = decode_order(5, row);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->stream, link.stream);
  EXPECT_EQ(read->stream_seq, link.stream_seq);
  EXPECT_EQ(read->epoch, link.epoch);
  EXPECT_EQ(read->leaf, link.leaf);
  EXPECT_EQ(read->chain, link.chain);
  for (std::size_t length = 0; length < row.size(); ++length) {
    EXPECT_FALSE(decode_order(5, std::string_view(row).substr(0, length)));
  }
}

TEST(Record, VarintsHaveOneEncodingPerNumber) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t value : {(1ULL << bit) - 1, 1ULL << bit}) {
      std::string text;
      put_varint(text, value);
      std::string_view rest = text;
      EXPECT_EQ(take_varint(rest), value);
      EXPECT_TRUE(rest.empty());
    }
  }
  std::string_view padded("\x81\x00", 2);
  EXPECT_FALSE(take_varint(padded));
  std::string_view too_long("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10);
  EXPECT_FALSE(take_varint(too_long));
}

TEST(Header, GivesBackEveryField) {
  const TurnHeader header = full_header();
  const std::string bytes = encode_header(header);
  const auto read = decode_header(core::kRecordFormat, bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, header);
  EXPECT_EQ(encode_header(*read), bytes);
}

TEST(Header, FieldsOfANewerProgramAreRefusedAndNotSkipped) {  // J4
  const std::string bytes =
      encode_header(full_header()) + std::string("\xF8\x07\x01", 3);  // field 127, varint 1
  const auto read = decode_header(core::kRecordFormat, bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, base::Code::format_unknown);
  EXPECT_EQ(decode_header(core::kRecordFormat + 1, encode_header(full_header())).error().code,
            base::Code::format_unknown);
}

TEST(Header, MustAgreeWithItsKeyAndItsSlots) {
  const TurnHeader header = full_header();
  core::StoredRecord record{.stream = header.stream,
                            .seq = header.seq,
                            .header = encode_header(header),
                            .slots = {slot("a"), slot("b")}};
  EXPECT_TRUE(decode_header(record));
  record.slots.pop_back();
  EXPECT_FALSE(decode_header(record));
  record.slots.push_back(slot("b"));
  record.seq = 8;
  EXPECT_FALSE(decode_header(record));
}

// J9: two puts and at most 400 bytes for a step in the middle of a run, keys included, slots not.
TEST(Header, AStepInTheMiddleOfARunFitsTheBudget) {
  TurnHeader header{.stream = StreamId::named(StreamKind::run, "a"),
                    .seq = 4711,
                    .time_ms = 1'900'000'000'000,
                    .epoch = 12};
  header.previous = base::sha256("x");
  const std::string completion(70, 'c');  // path, token, reference with a digest
  const std::string schedule(110, 's');   // path, name, token, input reference with a digest
  header.events = {{.type = 12, .body = completion}, {.type = 10, .body = schedule}};
  const core::StoredRecord record{
      .stream = header.stream, .seq = header.seq, .header = encode_header(header)};
  const core::OrderLink link{.sequence = 1'000'000, .epoch = 12, .stream = header.stream, .stream_seq = 4711};
  const std::size_t bytes = view::record_key(header.stream, header.seq).size() +
                            encode_record(record).size() + view::order_key(1, 1'000'000).size() +
                            encode_order(link).size();
  EXPECT_LE(bytes, 400u);
}

core::Message message_with(core::MessageBody body, core::Payload payload) {
  return {.source = StreamId::named(StreamKind::run, "a"),
          .target = StreamId::named(StreamKind::pool, "p"),
          .source_seq = 7,
          .index = 0,
          .correlation = "0/lease",
          .closing = true,
          .body = std::move(body),
          .payload = std::move(payload)};
}

TEST(Messages, EveryBodyComesBackEqual) {
  const core::ContentDigest digest{base::sha256("d")};
  const std::vector<core::MessageBody> bodies = {
      core::LeaseRequested{.template_name = "t", .tenant = "x", .user = "u", .wait_timeout_ms = -1},
      core::LeaseCancelled{},
      core::LeaseReserved{.run = StreamId::named(StreamKind::run, "a"),
                          .reservation = "r",
                          .template_name = "t",
                          .tenant = "x",
                          .user = "u"},
      core::LeaseGranted{.sandbox = "s", .token = 9, .ttl_ms = 10, .provider = "p", .unenforced = "disk"},
      core::LeaseRefused{.code = base::Code::queue_timeout, .message = "m"},
      core::LeaseQueued{.position = 3},
      core::LeaseExpiring{.sandbox = "s", .token = 1},
      core::LeaseKept{.sandbox = "s", .token = 2},
      core::LeaseReturned{.sandbox = "s", .token = 3},
      core::LeaseEnded{.sandbox = "s", .token = 4, .code = base::Code::sandbox_lost},
      core::ReservationFreed{.reservation = "r"},
      core::ApprovalRequested{
          .tenant = "x", .tool = "t", .level = 3, .arguments = digest, .expires_ms = 5, .approvers = 2},
      core::ApprovalWithdrawn{},
      core::ApprovalDecided{.code = base::Code::approval_denied, .arguments = digest},
      core::OutcomeAsked{.tenant = "x",
                         .user = "u",
                         .tool = "t",
                         .level = 3,
                         .path = "0/send#0",
                         .target = "https://example.org",
                         .key = "k",
                         .attempt = 2,
                         .code = base::Code::timed_out,
                         .sent_ms = 5,
                         .unknown_ms = 6,
                         .input = {.seq = 7, .slot = 1, .size = 8, .digest = digest}},
      core::OutcomeDecided{.arguments = digest, .verdict = core::OutcomeVerdict::again, .by = "ann"},
      core::RunStartRequested{.workflow = "w",
                              .version = "2",
                              .tenant = "x",
                              .user = "u",
                              .session = "s",
                              .history_root = "h",
                              .effect_root = "e",
                              .askers = {{StreamId::named(StreamKind::schedule, "s"), "fire 1"},
                                         {StreamId::named(StreamKind::run, "p"), "0/child#0"}},
                              .continues = StreamId::named(StreamKind::run, "before")},
      core::RunEnded{.how = core::RunEnd::failed,
                     .code = base::Code::step_failed,
                     .side = core::FailureSide::platform,
                     .run = StreamId::named(StreamKind::run, "a"),
                     .result = {.seq = 7, .slot = 1, .size = 8, .digest = digest},
                     .message = "m"},
      core::RunSignalled{.name = "s"},
      core::RunStopRequested{.terminate = true},
      core::RunAwaited{.askers = {{StreamId::named(StreamKind::run, "p"), "0/child#0"}}}};
  ASSERT_EQ(bodies.size(), std::variant_size_v<core::AnyMessageBody>);
  std::set<std::uint32_t> types;
  for (const core::MessageBody& body : bodies) {
    const core::Message message = message_with(body, {.slot = slot("{}"), .digest = digest});
    TurnHeader header{.stream = message.source, .seq = message.source_seq};
    header.messages.push_back(encode_message(message, 0));
    EXPECT_TRUE(types.insert(header.messages[0].type).second);
    EXPECT_NE(message_name(header.messages[0].type), "unknown");
    const auto read = decode_message(header, 0, {message.payload.slot});
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->body, body);
    EXPECT_EQ(read->correlation, message.correlation);
    EXPECT_EQ(read->target, message.target);
    EXPECT_TRUE(read->closing);
    EXPECT_EQ(read->payload.slot, message.payload.slot);
    EXPECT_EQ(read->payload.digest, digest);
    header.messages[0].version = 2;
    EXPECT_EQ(decode_message(header, 0, {message.payload.slot}).error().code, base::Code::event_unknown);
  }
}

TEST(Messages, AnUnknownTypeIsRefusedAndNotSkipped) {
  TurnHeader header{.stream = StreamId::named(StreamKind::run, "a"), .seq = 1};
  header.messages.push_back({.type = 9999});
  EXPECT_EQ(decode_message(header, 0, {}).error().code, base::Code::event_unknown);
}

}  // namespace
}  // namespace sandglass::engine::codec
