// docs/formats/kafka.md: its example is what the code writes, byte for byte, and what the code reads.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/journal/kafka/wire.h"
#include "tests/support/program.h"

namespace sandglass::engine::journal::kafka {
namespace {

/// The indented lines of the page: words by their name, and the bytes of the value.
struct Example {
  std::map<std::string, std::string> words;
  std::string value;

  Example() {
    std::ifstream page(tests::support::source_folder() + "/docs/formats/kafka.md");
    bool in_value = false;
    for (std::string line; std::getline(page, line);) {
      if (!line.starts_with("    ")) {
        in_value = false;
        continue;
      }
      std::istringstream rest(line);
      std::string name;
      std::string word;
      rest >> name >> word;
      if (name == "value") {
        in_value = true;
      } else if (in_value) {
        take_bytes(line.substr(4));
      } else {
        words[name] = word;
      }
    }
  }
  /// Pairs of hex digits up to the first three blanks in a row, behind which it is said what they are.
  void take_bytes(const std::string& line) {
    const std::string pairs = line.substr(0, line.find("   "));
    std::istringstream rest(pairs);
    for (std::string pair; rest >> pair;) value += *base::from_hex(pair);
  }
};

TEST(DocumentedMessage, IsWhatIsWrittenAndRead) {
  const Example example;
  const auto stream = core::StreamId::parse(example.words.at("key"));
  ASSERT_TRUE(stream);
  codec::TurnHeader header{
      .stream = *stream, .seq = 1, .time_ms = 1'700'000'000'000, .epoch = 1, .request_id = "start-1"};
  header.events.push_back({.type = 1, .version = 1, .body = std::string("\x0a\x05") + "build"});
  core::StoredRecord record{.stream = *stream, .seq = 1, .header = codec::encode_header(header)};
  record.slots.push_back(std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, "{\"a\":1}"}));
  const auto genesis = codec::genesis_chain("example", 0);
  core::OrderLink link{
      .sequence = 1, .epoch = 1, .stream = *stream, .stream_seq = 1, .leaf = codec::leaf_hash(record)};
  link.chain = codec::chain_hash(genesis, 0, 1, 1, link.leaf);
  const Message written = encode_record("example", Kind::record, link, genesis, codec::encode_record(record));

  EXPECT_EQ(base::to_hex(written.value), base::to_hex(example.value));
  EXPECT_EQ(written.key, example.words.at("key"));
  EXPECT_EQ(written.headers.size(), 7u);
  for (const Header& each : written.headers) EXPECT_EQ(each.value, example.words.at(each.name)) << each.name;
  EXPECT_EQ(link.leaf.hex(), example.words.at("leaf"));
  EXPECT_EQ(link.chain.hex(), example.words.at("chain"));

  Message as_documented{.key = example.words.at("key"), .value = example.value, .headers = written.headers};
  const auto envelope = decode_envelope(as_documented);
  ASSERT_TRUE(envelope) << envelope.error().message;
  const auto read = decode_record(*envelope, as_documented.value, 0);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->link.chain.hex(), example.words.at("chain"));
  EXPECT_EQ(read->record.slots.at(0)->bytes, "{\"a\":1}");
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka
