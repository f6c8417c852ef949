// A journal's topic is verified from its messages alone: what is whole is found good, and every way to change
// it is named.
#include "replay-tools/audit/topic.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "engine/journal/kafka/skip.h"
#include "engine/journal/rows/move.h"
#include "tests/replay-tools/replay/history_fixture.h"

namespace sandglass::replay_tools::audit {
namespace {

namespace kafka = engine::journal::kafka;
using testing::HasSubstr;
using testing::IsEmpty;

/// Messages of each partition, as a topic holds them.
class Topic final : public TopicSource {
 public:
  std::vector<std::vector<kafka::Message>> messages;

  std::uint16_t partitions() const override { return static_cast<std::uint16_t>(messages.size()); }
  base::Status read(core::PartitionId partition,
                    const std::function<bool(const kafka::Message&)>& take) override {
    std::int64_t offset = 0;
    for (kafka::Message message : messages.at(partition)) {
      message.offset = offset++;
      if (!take(message)) break;
    }
    return {};
  }
};

class TopicAudit : public testing::Test {
 protected:
  TopicAudit() {
    for (int each = 0; each < 4; ++each) histories_.sample(std::to_string(each));
    const std::string journal = *histories_.reader.journal_id();
    for (core::PartitionId partition = 0; partition < Histories::kPartitions; ++partition) {
      auto& messages = topic_.messages.emplace_back();
      base::Hash256 previous = codec::genesis_chain(journal, partition);
      for (const auto& each : *histories_.reader.read_order(partition, 1, 1000)) {
        messages.push_back(kafka::encode_record(journal, kafka::Kind::record, each.link, previous,
                                                codec::encode_record(each.record)));
        previous = each.link.chain;
      }
      EXPECT_GE(messages.size(), 9u) << "no stream in this partition";
    }
  }
  TopicReport verified(const std::string& journal = {}) {
    auto report = verify_topic(topic_, journal);
    EXPECT_TRUE(report) << report.error().message;
    return *report;
  }
  /// The only finding.
  std::string finding() {
    const TopicReport report = verified();
    EXPECT_EQ(report.report.findings.size(), 1u);
    return report.report.findings.empty() ? "" : report.report.findings[0].what;
  }
  std::vector<kafka::Message>& first() { return topic_.messages[0]; }
  /// An owner's record at the end of the first partition, with this text.
  void owner_says(const std::string& text, core::OwnerEpoch epoch = 2) {
    const core::StreamId owners = engine::journal::owners_stream(0, Histories::kPartitions);
    const auto record = engine::journal::make_epoch_record(owners, nullptr, epoch, 1'000, text);
    const Head head = verified().report.heads[0];
    core::OrderLink link{.sequence = head.sequence + 1,
                         .epoch = epoch,
                         .stream = owners,
                         .stream_seq = 1,
                         .leaf = codec::leaf_hash(record)};
    link.chain = codec::chain_hash(head.chain, 0, link.sequence, epoch, link.leaf);
    first().push_back(kafka::encode_record("histories", kafka::Kind::epoch, link, head.chain,
                                           codec::encode_record(record)));
  }
  /// Where partitions of a journal with other chains would end, had it these records.
  journal::Move move_from(const std::string& former) {
    journal::Move move{.from = former, .to = "histories", .place = "here", .folder = "f"};
    for (core::PartitionId partition = 0; partition < Histories::kPartitions; ++partition) {
      journal::ChainHead head{.chain = codec::genesis_chain(former, partition)};
      for (const auto& each : *histories_.reader.read_order(partition, 1, 1000)) {
        head.sequence = each.link.sequence;
        head.chain = codec::chain_hash(head.chain, partition, head.sequence, each.link.epoch, each.link.leaf);
      }
      move.heads.push_back(head);
    }
    return move;
  }

  Histories histories_;
  Topic topic_;
};

TEST_F(TopicAudit, AnUntouchedTopicIsGoodAndHasTheHeadsOfTheJournal) {
  const TopicReport report = verified();
  EXPECT_TRUE(report.report.good());
  EXPECT_EQ(report.journal, "histories");
  EXPECT_EQ(report.report.records, 4u * 9u);
  EXPECT_EQ(report.report.streams, 4u);
  EXPECT_EQ(report.ignored, 0u);
  const auto journal = verify(histories_.reader);
  ASSERT_EQ(report.report.heads.size(), journal->heads.size());
  for (std::size_t partition = 0; partition < journal->heads.size(); ++partition) {
    EXPECT_EQ(report.report.heads[partition].sequence, journal->heads[partition].sequence);
    EXPECT_EQ(report.report.heads[partition].chain, journal->heads[partition].chain);
  }
}

TEST_F(TopicAudit, RecordsThatComeAgainAndMarksChangeNothing) {
  const std::vector<kafka::Message> again(first().begin() + 2, first().begin() + 6);
  first().insert(first().begin() + 6, again.begin(), again.end());
  first().push_back(kafka::encode_filler("histories"));
  first().insert(first().begin(), kafka::encode_fence("histories", "nonce"));
  const TopicReport report = verified();
  EXPECT_TRUE(report.report.good());
  EXPECT_EQ(report.again, 4u);
  EXPECT_EQ(report.marks, 2u);
}

TEST_F(TopicAudit, EveryChangedByteIsFound) {
  // Of a record in the middle; the last one has no successor, so that the next test is about it.
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}}) {
    const kafka::Message whole = first()[at];
    for (std::size_t byte = 0; byte < whole.value.size(); ++byte) {
      first()[at].value[byte] = static_cast<char>(whole.value[byte] ^ 0x01);
      EXPECT_FALSE(verified().report.good()) << "byte " << byte << " of the value of record " << at;
      first()[at] = whole;
    }
    for (std::size_t header = 0; header < whole.headers.size(); ++header) {
      for (std::size_t byte = 0; byte < whole.headers[header].value.size(); ++byte) {
        first()[at].headers[header].value[byte] = static_cast<char>(whole.headers[header].value[byte] ^ 0x01);
        const auto report = verify_topic(topic_, "histories");
        EXPECT_FALSE(report && report->report.good())
            << "byte " << byte << " of " << whole.headers[header].name;
        first()[at] = whole;
      }
    }
    for (std::size_t byte = 0; byte < whole.key.size(); ++byte) {
      first()[at].key[byte] = static_cast<char>(whole.key[byte] ^ 0x01);
      EXPECT_FALSE(verified().report.good()) << "byte " << byte << " of the key";
      first()[at] = whole;
    }
  }
}

TEST_F(TopicAudit, TheHeadTellsWhetherTheLastRecordWasChanged) {
  const auto before = verified().report.heads[0];
  first().pop_back();
  const auto after = verified().report.heads[0];
  EXPECT_EQ(after.sequence, before.sequence - 1);
}

TEST_F(TopicAudit, ADroppedAMovedAndAnInsertedRecordAreNamed) {
  const std::vector<kafka::Message> whole = first();
  first().erase(first().begin() + 3);
  EXPECT_THAT(finding(), HasSubstr("sequence 4 is missing"));
  first() = whole;
  first().erase(first().begin());
  EXPECT_THAT(finding(), HasSubstr("sequence 1 is missing"));
  first() = whole;
  std::swap(first()[3], first()[4]);
  EXPECT_THAT(finding(), HasSubstr("sequence 4 is missing"));
  first() = whole;
  // Another record under a sequence that is taken, and one that goes on from the wrong place.
  kafka::Message other = whole[5];
  other.value = whole[6].value;
  first().insert(first().begin() + 6, other);
  EXPECT_THAT(finding(), HasSubstr("differs from the record"));
}

// J22
TEST_F(TopicAudit, TheChainThatRecordsHadBeforeAMoveIsMadeAnew) {
  owner_says(engine::journal::encode_move(move_from("former")));
  const TopicReport report = verified();
  EXPECT_TRUE(report.report.good());
  EXPECT_EQ(report.formers, std::vector<std::string>{"former"});
  EXPECT_THAT(report.unchecked, IsEmpty());
  first().pop_back();
  journal::Move other = move_from("former");
  other.heads[0].chain = base::sha256("another history");
  owner_says(engine::journal::encode_move(other));
  EXPECT_THAT(finding(), HasSubstr("not those of journal former"));
}

TEST_F(TopicAudit, AForgedRecordIsPassedOverWhereAnOwnerSaysSoAndIsNamed) {
  kafka::Message forged = first()[5];
  forged.value = first()[6].value;
  const auto named = kafka::name_message(9, *kafka::decode_envelope(forged), forged.value);
  engine::journal::OwnerMark mark{.skipped = {named}};
  mark.skipped[0].hash.bytes[0] ^= 1;
  owner_says(engine::journal::encode_owner(mark));
  first().insert(first().begin() + 9, forged);
  EXPECT_THAT(finding(), HasSubstr("differs from the record"));
  EXPECT_THAT(verified().skipped, IsEmpty());
  first().erase(first().begin() + 9);
  first().pop_back();
  owner_says(engine::journal::encode_owner({.skipped = {named}}));
  first().insert(first().begin() + 9, forged);
  const TopicReport report = verified();
  EXPECT_TRUE(report.report.good());
  EXPECT_EQ(report.report.records, 4u * 9u + 1u);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_THAT(report.skipped[0], HasSubstr("offset 9, hash " + named.hash.hex()));
}

TEST_F(TopicAudit, MessagesOfOthersAreCountedAndShown) {
  first().insert(first().begin(), {.key = "k", .value = "a stranger's"});
  kafka::Message foreign = topic_.messages[1].front();
  for (auto& header : foreign.headers) {
    if (header.name == "sg.journal") header.value = "another";
  }
  first().insert(first().begin() + 4, foreign);
  const TopicReport report = verified();
  EXPECT_TRUE(report.report.good());
  EXPECT_EQ(report.report.records, 4u * 9u);
  EXPECT_EQ(report.ignored, 2u);
  ASSERT_EQ(report.ignored_examples.size(), 2u);
  EXPECT_THAT(report.ignored_examples[1], HasSubstr("offset 4"));
}

TEST_F(TopicAudit, AJournalThatItMustBeAndIsNotIsAFinding) {
  EXPECT_TRUE(verified("histories").report.good());
  const TopicReport report = verified("another");
  EXPECT_FALSE(report.report.good());
  EXPECT_EQ(report.report.records, 0u);
  EXPECT_EQ(report.ignored, 4u * 9u);
}

TEST_F(TopicAudit, ANewerFormatIsAnErrorAndNothingIsSkipped) {
  first()[2].headers.push_back({.name = "sg.later", .value = "1"});
  const auto report = verify_topic(topic_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, base::Code::format_unknown);
}

TEST_F(TopicAudit, AnEmptyTopicIsGood) {
  for (auto& messages : topic_.messages) messages.clear();
  const TopicReport report = verified();
  EXPECT_TRUE(report.report.good());
  EXPECT_THAT(report.journal, IsEmpty());
}

}  // namespace
}  // namespace sandglass::replay_tools::audit
