// Messages of the Kafka journal: exact bytes, and what is not accepted.
#include "engine/journal/kafka/wire.h"

#include <gtest/gtest.h>

#include "engine/codec/header.h"
#include "engine/journal/rows/owners.h"
#include "engine/view/keys.h"
#include "tests/engine/journal/kafka/history.h"

namespace sandglass::engine::journal::kafka {
namespace {

Message first_record() {
  HistoryWriter writer;
  writer.begin_epoch(3);
  return writer.record("header bytes").message;
}

std::string& value_of(Message& message, std::string_view name) {
  for (Header& header : message.headers) {
    if (header.name == name) return header.value;
  }
  ADD_FAILURE() << "no header " << name;
  static std::string none;
  return none;
}

TEST(KafkaWire, ARecordIsItsStoredRowUnderTextHeaders) {
  HistoryWriter writer;
  writer.begin_epoch(3);
  const Written written = writer.record("header bytes");
  const Message& message = written.message;
  EXPECT_EQ(message.key, written.record.record.stream.text());
  EXPECT_EQ(message.value, codec::encode_record(written.record.record));
  const std::vector<Header> headers = {{"sg.format", "1"},       {"sg.kind", "record"},
                                       {"sg.journal", kJournal}, {"sg.epoch", "3"},
                                       {"sg.sequence", "2"},     {"sg.previous", written.previous.hex()},
                                       {"sg.stream-seq", "2"}};
  EXPECT_EQ(message.headers, headers);
}

TEST(KafkaWire, WhatIsDecodedIsWhatWasEncodedWithHashesMadeAnew) {
  HistoryWriter writer;
  for (const Written& written :
       {writer.begin_epoch(7), writer.record("a"), writer.record(std::string(9000, 'b'))}) {
    const auto envelope = decode_envelope(written.message);
    ASSERT_TRUE(envelope) << envelope.error().message;
    EXPECT_EQ(envelope->previous, written.previous);
    const auto record = decode_record(*envelope, written.message.value, kPartition);
    ASSERT_TRUE(record) << record.error().message;
    EXPECT_EQ(record->link.chain, written.record.link.chain);
    EXPECT_EQ(record->link.leaf, written.record.link.leaf);
    EXPECT_EQ(record->link.epoch, 7u);
    EXPECT_EQ(record->record.header, written.record.record.header);
    const Message again = encode_record(kJournal, envelope->kind, record->link, envelope->previous,
                                        codec::encode_record(record->record));
    EXPECT_EQ(again.key, written.message.key);
    EXPECT_EQ(again.value, written.message.value);
    EXPECT_EQ(again.headers, written.message.headers);
  }
}

TEST(KafkaWire, FencesAndFillersSayNothingOfTheOrder) {
  const auto fence = decode_envelope(encode_fence(kJournal, "0a1b"));
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->kind, Kind::fence);
  EXPECT_EQ(fence->nonce, "0a1b");
  EXPECT_FALSE(fence->sequenced());
  const auto filler = decode_envelope(encode_filler(kJournal));
  ASSERT_TRUE(filler);
  EXPECT_EQ(filler->kind, Kind::filler);
  EXPECT_EQ(filler->journal, kJournal);
}

TEST(KafkaWire, EpochRecordsChainThroughTheStreamOfOwners) {
  const auto owners = owners_stream(kPartition, kPartitions);
  EXPECT_EQ(view::partition_of(owners.bucket(), kPartitions), kPartition);
  EXPECT_NE(owners, owners_stream(kPartition + 1, kPartitions));
  const core::StoredRecord first = make_epoch_record(owners, nullptr, 4, 1'000);
  const core::StoredRecord second = make_epoch_record(owners, &first, 6, 2'000);
  const auto header = codec::decode_header(second);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->seq, 2u);
  EXPECT_EQ(header->previous, codec::leaf_hash(first));
  EXPECT_EQ(header->epoch, 6u);
  EXPECT_TRUE(header->events.empty());
}

TEST(KafkaWire, HeadersOfOthersAreKeptOutOfAccount) {
  Message message = first_record();
  message.headers.push_back({"traceparent", "00-ab"});
  message.headers.push_back({"traceparent", "00-cd"});
  EXPECT_TRUE(decode_envelope(message));
}

TEST(KafkaWire, ANewerFormatIsToldFromDamage) {
  Message newer = first_record();
  value_of(newer, "sg.format") = "2";
  EXPECT_EQ(decode_envelope(newer).error().code, base::Code::format_unknown);
  Message unknown = first_record();
  unknown.headers.push_back({"sg.signature", "x"});
  EXPECT_EQ(decode_envelope(unknown).error().code, base::Code::format_unknown);
}

TEST(KafkaWire, EveryDamageOfHeadersAndKeyIsRefused) {
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"sg.format", ""},
      {"sg.format", "0"},
      {"sg.format", "one"},
      {"sg.kind", "records"},
      {"sg.kind", ""},
      {"sg.epoch", "0"},
      {"sg.epoch", "-1"},
      {"sg.epoch", "03"},
      {"sg.epoch", "3 "},
      {"sg.epoch", "9999999999999999999"},
      {"sg.sequence", ""},
      {"sg.sequence", "0x2"},
      {"sg.sequence", "99999999999999999999999"},
      {"sg.previous", "ab"},
      {"sg.previous", std::string(64, 'g')},
      {"sg.previous", std::string(64, 'A')},
      {"sg.stream-seq", "2.0"},
      {"sg.kind", "fence"},
      {"sg.kind", "filler"},
  };
  for (const auto& [name, value] : damages) {
    Message message = first_record();
    value_of(message, name) = value;
    const auto envelope = decode_envelope(message);
    ASSERT_FALSE(envelope) << name << " = " << value;
    EXPECT_EQ(envelope.error().code, base::Code::record_damaged) << name << " = " << value;
  }
  const std::size_t count = first_record().headers.size();
  for (std::size_t i = 0; i < count; ++i) {
    Message missing = first_record();
    missing.headers.erase(missing.headers.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(decode_envelope(missing)) << first_record().headers[i].name << " is missing";
    Message twice = first_record();
    twice.headers.push_back(twice.headers[i]);
    EXPECT_FALSE(decode_envelope(twice)) << first_record().headers[i].name << " stands there twice";
  }
  for (const std::string key : {"", "run-", "nothing-00112233445566778899aabbccddeeff", "test-0011"}) {
    Message message = first_record();
    message.key = key;
    EXPECT_FALSE(decode_envelope(message)) << key;
  }
  EXPECT_FALSE(decode_envelope({.offset = 4, .key = "k", .value = "v"}));
  Message fence = encode_fence(kJournal, "n");
  fence.value = "more";
  EXPECT_FALSE(decode_envelope(fence));
}

TEST(KafkaWire, EveryFlippedBitOfAValueIsSeen) {
  const Message whole = first_record();
  const auto envelope = decode_envelope(whole);
  ASSERT_TRUE(envelope);
  for (std::size_t bit = 0; bit < 8 * whole.value.size(); ++bit) {
    std::string value = whole.value;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decode_record(*envelope, value, kPartition)) << "bit " << bit;
  }
  for (std::size_t length = 0; length < whole.value.size(); ++length)
    EXPECT_FALSE(decode_record(*envelope, whole.value.substr(0, length), kPartition));
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka
