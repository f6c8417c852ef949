// What every blob store must do, in memory and in a folder alike; then what only a folder can suffer.
#include "engine/blob/blob.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "engine/base/system_ports.h"
#include "engine/blob/files/store.h"
#include "engine/blob/memory/store.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::blob {
namespace {

namespace fs = std::filesystem;

struct InMemory {
  std::unique_ptr<BlobStore> store = std::make_unique<MemoryBlobStore>();
};
struct InFolder {
  tests::support::TempFolder folder;
  base::SystemRandom random;
  std::unique_ptr<BlobStore> store = *FileBlobStore::open_folder(folder.file("blobs"), random);
};

template <class Kind>
class BlobContract : public testing::Test {
 protected:
  Kind kind_;
  BlobStore& store_ = *kind_.store;
};
using Kinds = testing::Types<InMemory, InFolder>;
TYPED_TEST_SUITE(BlobContract, Kinds);

TYPED_TEST(BlobContract, ContentLiesUnderItsDigest) {
  for (const std::string& bytes :
       {std::string(), std::string("text"), std::string(1'000'000, 'x'), std::string("\0\n", 2)}) {
    const auto digest = this->store_.put("tenant", bytes);
    ASSERT_TRUE(digest) << digest.error().message;
    EXPECT_EQ(*digest, core::public_digest(bytes));
    EXPECT_EQ(this->store_.get("tenant", *digest), bytes);
    EXPECT_EQ(this->store_.put("tenant", bytes), digest);
  }
}

TYPED_TEST(BlobContract, PiecesMakeOneBlobAndComeBackInPieces) {  // ADV-F7
  const auto writer = this->store_.create("tenant");
  ASSERT_TRUE(writer);
  std::string whole;
  for (int i = 0; i < 100; ++i) {
    whole += std::string(1000, static_cast<char>(i));
    ASSERT_TRUE((*writer)->write(std::string(1000, static_cast<char>(i))));
  }
  const auto digest = (*writer)->finish();
  ASSERT_TRUE(digest);
  EXPECT_EQ(*digest, core::public_digest(whole));
  const auto reader = this->store_.open("tenant", *digest);
  ASSERT_TRUE(reader);
  EXPECT_EQ((*reader)->size(), whole.size());
  std::string read;
  for (auto piece = (*reader)->read(777); !piece->empty(); piece = (*reader)->read(777)) read += *piece;
  EXPECT_EQ(read, whole);
  EXPECT_FALSE(this->store_.get("tenant", *digest, whole.size() - 1));
}

TYPED_TEST(BlobContract, ATenantCannotReachAnotherTenantsBlob) {  // J23, ADV-F15
  const auto digest = this->store_.put("a", "secret of a");
  ASSERT_TRUE(digest);
  for (const std::string& tenant :
       {std::string("b"), std::string(), std::string("../a"), std::string("a/"), std::string("a\0b", 3)}) {
    const auto read = this->store_.get(tenant, *digest);
    ASSERT_FALSE(read) << tenant;
    EXPECT_EQ(read.error().code, base::Code::blob_missing);
  }
}

TYPED_TEST(BlobContract, WhatIsNotFinishedIsNotThere) {
  {
    const auto writer = this->store_.create("tenant");
    ASSERT_TRUE((*writer)->write("half"));
  }
  EXPECT_FALSE(this->store_.get("tenant", core::public_digest("half")));
}

TEST(MemoryBlobs, DamagedBytesAreMissing) {
  MemoryBlobStore store;
  const auto digest = store.put("t", "text");
  store.tamper("t", *digest, "tex?");
  EXPECT_EQ(store.get("t", *digest).error().code, base::Code::blob_missing);
}

class FileBlobs : public testing::Test {
 protected:
  /// The file of the only blob.
  fs::path only() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_.file("blobs"))) {
      if (entry.path().filename().string().size() == 64) return entry.path();
    }
    return {};
  }
  std::size_t files() const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.file("blobs")))
      count += entry.is_regular_file();
    return count;
  }

  tests::support::TempFolder folder_;
  base::SystemRandom random_;
  std::unique_ptr<FileBlobStore> store_ = *FileBlobStore::open_folder(folder_.file("blobs"), random_);
};

TEST_F(FileBlobs, ADamagedOrShortenedFileIsMissingAndAnotherPutHealsIt) {  // ADV-F5
  const auto digest = store_->put("t", "the text");
  ASSERT_TRUE(digest);
  for (const std::string& damage :
       {std::string("the tex?"), std::string("the"), std::string("the text and more")}) {
    std::ofstream(only(), std::ios::trunc) << damage;
    const auto read = store_->get("t", *digest);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, base::Code::blob_missing);
    EXPECT_EQ(store_->put("t", "the text"), digest);
    EXPECT_EQ(store_->get("t", *digest), "the text");
  }
}

TEST_F(FileBlobs, LinksAndPipesAreNotFollowed) {
  const auto digest = store_->put("t", "the text");
  const fs::path file = only();
  const std::string outside = folder_.file("outside");
  std::ofstream(outside) << "the text";
  fs::remove(file);
  fs::create_symlink(outside, file);
  EXPECT_FALSE(store_->get("t", *digest));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(store_->get("t", *digest));
  fs::remove(file);
  fs::rename(file.parent_path(), folder_.file("moved"));
  fs::create_directory_symlink(folder_.file("moved"), file.parent_path());
  std::ofstream(fs::path(folder_.file("moved")) / file.filename()) << "the text";
  EXPECT_FALSE(store_->get("t", *digest));
  EXPECT_FALSE(store_->put("t", "the text"));
}

TEST_F(FileBlobs, AnAbandonedOrKilledWriterLeavesNothing) {
  {
    const auto writer = store_->create("t");
  }
  EXPECT_EQ(files(), 0u);
  std::ofstream(folder_.file("blobs/new/left")) << "of a killed process";
  store_ = *FileBlobStore::open_folder(folder_.file("blobs"), random_);
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileBlobs, ReadingOnlyTakesNothingAndChangesNothing) {
  const auto digest = store_->put("t", "x");
  const auto writer = store_->create("t");
  const auto reader = FileBlobStore::open_read_only(folder_.file("blobs"));
  ASSERT_TRUE(reader);
  EXPECT_EQ((*reader)->get("t", *digest), "x");
  EXPECT_FALSE((*reader)->create("t"));
  EXPECT_EQ(files(), 2u);
  EXPECT_FALSE(FileBlobStore::open_read_only(folder_.file("none")));
}

}  // namespace
}  // namespace sandglass::engine::blob
