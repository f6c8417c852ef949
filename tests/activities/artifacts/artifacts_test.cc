#include "activities/artifacts/artifacts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/blob/memory/store.h"

namespace sandglass::activities::artifacts {
namespace {

using base::Code;
using Json = nlohmann::json;

struct InlineRunner final : base::TaskRunner {
  void run(std::move_only_function<void()> closure) override { closure(); }
};

struct Artifacts : testing::Test {
  Artifacts() { register_artifact_activity(registry, blobs, runner); }
  core::ActivityResult store(const Json& input, const std::string& key = "k") {
    core::ActivityCall call{.name = kStoreActivity, .key = key};
    call.input = std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, input.dump()});
    std::optional<core::ActivityResult> result;
    registry.find(kStoreActivity)->start(std::move(call), [&](core::ActivityResult answer) {
      result = std::move(answer);
    });
    return *result;
  }
  engine::blob::MemoryBlobStore blobs;
  InlineRunner runner;
  core::ActivityRegistry registry;
};

TEST_F(Artifacts, ATextAndABlobAreKeptWithTheirPublicDigest) {
  const Json text = Json::parse(store({{"tenant", "t"}, {"name", "a.md"}, {"text", "hello"}}).bytes);
  EXPECT_EQ(text["size"], 5);
  EXPECT_EQ(text["mime"], "text/markdown");
  EXPECT_EQ(text["public_digest"], base::sha256("hello").hex());
  const std::string digest = blobs.put("t", "diff --git")->hash.hex();
  const Json blob = Json::parse(store({{"tenant", "t"}, {"name", "a.diff"}, {"blob", digest}}).bytes);
  EXPECT_EQ(blob["public_digest"], digest);
  EXPECT_EQ(blob["mime"], "text/x-diff");
  EXPECT_TRUE(blob["stored_name"].get<std::string>().ends_with(".bin")) << "ADV-F17";
}

TEST_F(Artifacts, TheSameStepHasTheSameIdAndAnotherAnother) {
  const Json input{{"tenant", "t"}, {"name", "a"}, {"text", "x"}};
  EXPECT_EQ(store(input).bytes, store(input).bytes);
  EXPECT_NE(store(input).bytes, store(input, "other").bytes);
}

TEST_F(Artifacts, AnotherTenantsBlobIsNotThere) {  // J23
  const std::string digest = blobs.put("t", "secret")->hash.hex();
  EXPECT_EQ(store({{"tenant", "u"}, {"name", "a"}, {"blob", digest}}).code, Code::blob_missing);
}

TEST_F(Artifacts, ANameThatMeansSomethingElsewhereIsRefused) {  // ADV-F17
  for (const char* name : {"", ".", "..", ".bashrc", "-rf", "a/b", "a\\b", "a\nb", "a\r\nSet-Cookie: x",
                           "\xE2\x80\xAE"
                           "gnp.exe",
                           "a\x1b[2J", "bad\xff"}) {
    EXPECT_FALSE(is_artifact_name(name)) << name;
  }
  EXPECT_TRUE(is_artifact_name("test result (1).txt"));
  EXPECT_EQ(store({{"tenant", "t"}, {"name", "../x"}, {"text", "x"}}).code, Code::arguments_invalid);
  EXPECT_EQ(store({{"tenant", "t"}, {"name", "x"}}).code, Code::arguments_invalid);
}

TEST_F(Artifacts, TheTypeIsSniffedAndNothingIsServedAsSomethingThatRuns) {
  EXPECT_EQ(guess_mime("x.png", "\x89PNG\r\n\x1a\n"), "image/png");
  EXPECT_EQ(guess_mime("x.png", "<html>"), "text/plain");
  EXPECT_EQ(guess_mime("x.svg", "<svg onload=…>"), "text/plain");
  EXPECT_EQ(guess_mime("x.txt", std::string("a\0b", 3)), "application/octet-stream");
  EXPECT_EQ(guess_mime("x.txt", std::string(511, 'a') + "\xC3"), "text/plain") << "cut inside a character";
  EXPECT_EQ(guess_mime("empty.bin", ""), "text/plain");
}

}  // namespace
}  // namespace sandglass::activities::artifacts
