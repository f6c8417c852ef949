#include "engine/codec/snapshot.h"

#include <gtest/gtest.h>

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

namespace sandglass::engine::codec {
namespace {

struct Saved {
  std::int64_t number = 0;
  std::vector<std::string> texts;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(number, texts);
  }
  friend bool operator==(const Saved&, const Saved&) = default;
};

TEST(Snapshot, GivesBackTheSavedValue) {
  const Saved value{-3, {"a", std::string(1000, 'b')}};
  const std::string bytes = save_snapshot(7, value);
  EXPECT_EQ(load_snapshot<Saved>(7, bytes), value);
  EXPECT_EQ(snapshot_version(bytes), 7u);
}

TEST(Snapshot, AnotherVersionIsRefusedAndNamed) {
  const auto loaded = load_snapshot<Saved>(8, save_snapshot(7, Saved{}));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, base::Code::checkpoint_undecodable);
  EXPECT_NE(loaded.error().message.find('7'), std::string::npos);
}

TEST(Snapshot, EveryChangedOrMissingByteIsSeen) {
  const std::string bytes = save_snapshot(7, Saved{1, {"a"}});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(load_snapshot<Saved>(7, changed)) << i;
    EXPECT_FALSE(load_snapshot<Saved>(7, std::string_view(bytes).substr(0, i))) << i;
  }
}

TEST(Snapshot, AValueOfAnotherShapeIsAnErrorAndNotACrash) {
  // Reads the number's bytes as a length of 2^56: must not allocate it.
  EXPECT_FALSE(load_snapshot<Saved>(7, save_snapshot(7, std::string("x"))));
  EXPECT_FALSE(load_snapshot<std::int64_t>(7, save_snapshot(7, Saved{1, {"a"}})));
}

}  // namespace
}  // namespace sandglass::engine::codec
