// Where a folder's history is: what the file says, and how much of the topic a view has.
#include "engine/journal/kafka/place.h"

#include <gtest/gtest.h>

#include "engine/base/data_folder.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::journal::kafka {
namespace {

const Place kPlace{.journal = "kafka-0123", .topic = "history", .brokers = "one:9092,two:9092"};

TEST(Place, IsReadAsItWasWritten) {
  tests::support::TempFolder folder;
  const std::string path = folder.file("topic");
  EXPECT_EQ(*load_place(path), std::nullopt);
  ASSERT_TRUE(save_place(path, kPlace));
  EXPECT_EQ(**load_place(path), kPlace);
  Place moved = kPlace;
  moved.brokers = "three:9092";
  ASSERT_TRUE(save_place(path, moved));
  EXPECT_EQ(**load_place(path), moved);
}

TEST(Place, EveryChangedByteIsFound) {
  const std::string text = encode_place(kPlace);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(decode_place(changed)) << at;
    EXPECT_FALSE(decode_place(std::string_view(text).substr(0, at))) << at;
  }
  EXPECT_FALSE(decode_place(text + "more\n"));
}

TEST(Place, AViewSaysHowFarItHasCome) {
  EXPECT_EQ(describe(kPlace, {}),
            "this folder's history is on topic history at one:9092,two:9092 (journal kafka-0123); the view "
            "here has nothing of it on disk yet");
  std::vector<Applied> applied = {{.partition = 1, .sequence = 12, .offset = 17}};
  EXPECT_TRUE(describe(kPlace, applied).ends_with("up to partition 1 sequence 12 (offset 17)"));
  applied.resize(10, {.partition = 2, .sequence = 1, .offset = 2});
  EXPECT_TRUE(describe(kPlace, applied).ends_with(" and so on for 2 more"));
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka
