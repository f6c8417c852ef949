// J22: a move to another journal, as its records tell of it: whose text makes the new id, and which journal
// is closed.
#include "engine/journal/rows/move.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/codec/record.h"
#include "engine/view/memory/disk.h"
#include "engine/view/memory/view.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::journal {
namespace {

constexpr std::uint16_t kParts = 2;
constexpr std::int64_t kTimeMs = 1'700'000'000'000;

Move some_move() {
  return {.from = "journal a",
          .to = "kafka-0123",
          .place = "topic history of cluster c",
          .folder = "f01d",
          .heads = {{.sequence = 3, .chain = base::sha256("three")}, {.chain = base::sha256("none")}}};
}

TEST(Move, ReadsWhatItWrites) {
  const auto read = decode_move(encode_move(some_move()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, some_move());
}

TEST(Move, EveryPrefixAndEveryOtherTextIsRefused) {
  const std::string text = encode_move(some_move());
  const std::size_t heads = text.find("3 ");
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto read = decode_move(std::string_view(text).substr(0, length));
    // Without one of its last lines it is another's, of fewer partitions.
    if (length > heads && text[length - 1] == '\n') continue;
    EXPECT_FALSE(read) << length;
  }
  EXPECT_FALSE(decode_move(text + "\n"));
  EXPECT_FALSE(decode_move(text + "03 " + base::sha256("x").hex() + "\n"));
  const auto newer = decode_move("sandglass move 2\n");
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, base::Code::format_unknown);
}

TEST(Move, TheNewIdDependsOnEveryPartOfIt) {
  const std::string id = some_move().new_id();
  EXPECT_TRUE(is_moved(id));
  EXPECT_TRUE(is_moved_to(id, "kafka-0123"));
  EXPECT_FALSE(is_moved_to(id, "kafka-012"));
  EXPECT_FALSE(is_moved("kafka-0123456789abcdef0123456789abcdef"));
  EXPECT_FALSE(is_moved(base::sha256("a").hex()));
  Move other = some_move();
  other.heads[1].sequence = 1;
  EXPECT_NE(other.new_id(), id);
  other = some_move();
  other.heads[0].chain = base::sha256("four");
  EXPECT_NE(other.new_id(), id);
  other = some_move();
  other.from = "journal b";
  EXPECT_NE(other.new_id(), id);
}

class MovedJournal : public testing::Test {
 protected:
  void tell(const std::string& move) {
    for (core::PartitionId partition = 0; partition < kParts; ++partition) {
      auto rows = owners_record_rows(view_, meta_, partition, move, kTimeMs);
      ASSERT_TRUE(rows) << rows.error().message;
      ASSERT_TRUE(disk_.sync(disk_.write(partition, std::move(*rows))));
    }
  }
  Move move_of_it() {
    Move move = some_move();
    move.from = meta_.journal_id;
    move.heads = read_heads(view_, meta_).value();
    return move;
  }

  tests::support::SeededRandom random_{1};
  view::MemoryDisk disk_{random_};
  view::MemoryView view_{disk_, random_};
  JournalMeta meta_{.journal_id = "journal a", .partitions = kParts};
};

TEST_F(MovedJournal, IsClosedUntilTheMoveIsGivenUp) {
  EXPECT_FALSE(*read_move_away(view_, meta_));
  const Move move = move_of_it();
  tell(encode_move(move));
  const auto away = read_move_away(view_, meta_);
  ASSERT_TRUE(away && *away);
  EXPECT_EQ(**away, move);
  tell({});
  EXPECT_FALSE(*read_move_away(view_, meta_));
  // Chains and epochs go on: the next move begins where this one was given up.
  for (core::PartitionId partition = 0; partition < kParts; ++partition) {
    const auto owned = read_ownership(view_, meta_, partition);
    ASSERT_TRUE(owned) << owned.error().message;
    EXPECT_EQ(owned->last_sequence, 2u);
    EXPECT_EQ(owned->epoch, 2u);
  }
  tell(encode_move(move_of_it()));
  EXPECT_NE((*read_move_away(view_, meta_))->new_id(), move.new_id());
}

TEST_F(MovedJournal, IsOpenUnderTheIdThatTheMoveGives) {
  const Move move = move_of_it();
  const JournalMeta moved{.journal_id = move.new_id(), .partitions = kParts};
  for (core::PartitionId partition = 0; partition < kParts; ++partition)
    EXPECT_FALSE(read_moves(view_, moved, partition)->here);
  tell(encode_move(move));
  for (core::PartitionId partition = 0; partition < kParts; ++partition) {
    const auto moves = read_moves(view_, moved, partition);
    ASSERT_TRUE(moves) << moves.error().message;
    EXPECT_FALSE(moves->away);
    ASSERT_TRUE(moves->here);
    EXPECT_EQ(*moves->here, move);
    EXPECT_FALSE(moves->owned_since);
  }
  const JournalMeta another{.journal_id = "journal b", .partitions = kParts};
  EXPECT_FALSE(read_moves(view_, another, 0)->here);
  tell({});
  EXPECT_TRUE(read_moves(view_, moved, 1)->owned_since);
}

TEST_F(MovedJournal, WhatAnOwnerSaysOfItselfIsNoMoveAndOpensItAgain) {
  EXPECT_EQ(encode_owner({}), "");
  const OwnerMark mark{.key = "0123", .blobs = "4567"};
  tell(encode_owner(mark));
  EXPECT_EQ(read_moves(view_, meta_, 0)->owner, mark);
  tell(encode_move(move_of_it()));
  EXPECT_TRUE(*read_move_away(view_, meta_));
  const OwnerMark other{.key = "89ab", .blobs = "4567"};
  tell(encode_owner(other));
  EXPECT_FALSE(*read_move_away(view_, meta_));
  EXPECT_EQ(read_moves(view_, meta_, 0)->owner, other);
  tell({});
  EXPECT_EQ(read_moves(view_, meta_, 0)->owner, other);
}

TEST_F(MovedJournal, AnOwnersRecordThatIsNewerOrDamagedIsNeverPassedOver) {
  const auto owners = owners_stream(0, kParts);
  const auto code = [&](std::string_view text) {
    const auto read = move_of(make_epoch_record(owners, nullptr, 1, kTimeMs, text));
    return read ? base::Code::ok : read.error().code;
  };
  EXPECT_EQ(code("sandglass owner 2\nkey 0\n"), base::Code::format_unknown);
  EXPECT_EQ(code("sandglass owner 1\nkey 0\n"), base::Code::record_damaged);
  EXPECT_EQ(code("sandglass owner 1\nkey 0\nblobs 1\nmore 2\n"), base::Code::record_damaged);
}

// ADV-E9: what is written without an engine's clock must not take the time back that the engine's begins
// with.
TEST_F(MovedJournal, ItsRecordIsNoEarlierThanTheOneBeforeIt) {
  tell({});
  const auto newest = [&] { return *newest_record_ms(view_, meta_); };
  const auto tell_at = [&](base::WallMs now_ms) {
    for (core::PartitionId partition = 0; partition < kParts; ++partition) {
      auto rows = owners_record_rows(view_, meta_, partition, {}, now_ms);
      ASSERT_TRUE(rows) << rows.error().message;
      ASSERT_TRUE(disk_.sync(disk_.write(partition, std::move(*rows))));
    }
  };
  tell_at(kTimeMs - 7'200'000);
  EXPECT_EQ(newest(), kTimeMs);
  tell_at(kTimeMs + 5);
  EXPECT_EQ(newest(), kTimeMs + 5);
  // A clock that was days ahead was wrong: its time is left (decision 7).
  tell_at(kTimeMs - 3 * 86'400'000LL);
  EXPECT_EQ(newest(), kTimeMs - 3 * 86'400'000LL);
}

}  // namespace
}  // namespace sandglass::engine::journal
