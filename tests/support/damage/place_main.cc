// Says where in a stopped server's table files a row lies, so that a test can damage just that row's block:
//
//   place FILE OFFSET BYTES     the data block that holds it, FILE below the data folder
//   nowhere                     it is in no table
//
// Usage: row-place FOLDER record STREAM SEQ
//        row-place FOLDER index NUMBER LAST        a row of that index (engine/view/keys.h) whose block holds
//                                                  rows of the indexes NUMBER to LAST and nothing else
//
// RocksDB tells nobody where a row is. It is seen by the last read of a table that getting the row takes.
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/data_folder.h"
#include "engine/core/stream_id.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/keys.h"
#include "engine/view/read_row.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"

namespace sandglass::tests {
namespace {

using namespace engine;

struct Read {
  std::string file;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

/// A file system that keeps the newest read of a table.
class WatchedDisk final : public rocksdb::FileSystemWrapper {
 public:
  WatchedDisk() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "WatchedDisk"; }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    auto status = target()->NewRandomAccessFile(name, options, file, debug);
    if (status.ok() && name.ends_with(".sst")) *file = std::make_unique<Table>(std::move(*file), *this, name);
    return status;
  }

  std::optional<Read> newest;

 private:
  class Table final : public rocksdb::FSRandomAccessFileOwnerWrapper {
   public:
    Table(std::unique_ptr<rocksdb::FSRandomAccessFile> file, WatchedDisk& disk, std::string name)
        : rocksdb::FSRandomAccessFileOwnerWrapper(std::move(file)), disk_(disk), name_(std::move(name)) {}
    rocksdb::IOStatus Read(std::uint64_t offset, std::size_t bytes, const rocksdb::IOOptions& options,
                           rocksdb::Slice* result, char* scratch,
                           rocksdb::IODebugContext* debug) const override {
      disk_.newest = {.file = name_, .offset = offset, .bytes = bytes};
      return rocksdb::FSRandomAccessFileOwnerWrapper::Read(offset, bytes, options, result, scratch, debug);
    }

   private:
    WatchedDisk& disk_;
    const std::string name_;
  };
};

int fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

/// The rows of a stopped server's journal and where they lie.
class Places {
 public:
  explicit Places(const base::DataFolder& folder)
      : disk_(std::make_shared<WatchedDisk>()),
        env_(rocksdb::NewCompositeEnv(disk_)),
        options_{
            .path = folder.journal(), .mark = folder.journal_mark(), .read_only = true, .env = env_.get()} {}

  /// nullopt: in no table. Opened anew for each, when no block is in memory.
  base::Result<std::optional<Read>> of(const std::string& key) const {
    const auto database = view::Database::open(options_);
    if (!database) return std::unexpected(database.error());
    disk_->newest.reset();
    const auto row = view::read_row(view::RocksView(**database, 0), key);
    if (!row) return std::unexpected(row.error());
    if (!*row) return base::fail(base::Code::not_found, "there is no such row");
    return disk_->newest;
  }

  /// Of these indexes, in their order, which is also that of the tables' blocks.
  base::Result<std::vector<std::string>> keys_of(view::Index from, view::Index to) const {
    const auto database = view::Database::open(options_);
    if (!database) return std::unexpected(database.error());
    const view::RocksView view(**database, 0);
    const auto partitions = journal::RowReader(view).partitions();
    if (!partitions) return std::unexpected(partitions.error());
    if (*partitions != 1)
      return base::fail(base::Code::invalid_argument, "other rows lie between partitions");
    auto page = view.scan_now({.first = view::index_range(0, from).first,
                               .last = view::index_range(0, to).last,
                               .limit = 1'000'000,
                               .max_bytes = 1 << 30});
    if (!page) return std::unexpected(page.error());
    std::vector<std::string> keys;
    for (view::Row& row : page->rows) keys.push_back(std::move(row.key));
    return keys;
  }

 private:
  const std::shared_ptr<WatchedDisk> disk_;
  const std::unique_ptr<rocksdb::Env> env_;
  const view::DatabaseOptions options_;
};

/// The block of keys[at], if others of the keys lie in blocks before it and behind it; else nullopt.
base::Result<std::optional<Read>> block_alone(const Places& places, const std::vector<std::string>& keys,
                                              std::size_t at) {
  auto found = places.of(keys[at]);
  if (!found || !*found) return found;
  const auto lies = [&](const std::string& key, bool before) -> base::Result<bool> {
    const auto other = places.of(key);
    if (!other) return std::unexpected(other.error());
    if (!*other || (*other)->file != (*found)->file) return false;
    return before ? (*other)->offset<(*found)->offset : (*other)->offset>(*found)->offset;
  };
  base::Result<bool> before = false;
  for (std::size_t i = 0; i < at && before && !*before; ++i) before = lies(keys[i], true);
  if (!before) return std::unexpected(before.error());
  base::Result<bool> behind = false;
  for (std::size_t i = keys.size(); --i > at && behind && !*behind;) behind = lies(keys[i], false);
  if (!behind) return std::unexpected(behind.error());
  return *before && *behind ? found : std::nullopt;
}

base::Result<std::optional<Read>> block_of_index(const Places& places, view::Index index, view::Index last) {
  const auto keys = places.keys_of(index, last);
  if (!keys) return std::unexpected(keys.error());
  const auto end = std::ranges::lower_bound(*keys, view::index_range(0, index).last);
  const auto count = static_cast<std::size_t>(end - keys->begin());
  if (count == 0) return base::fail(base::Code::not_found, "the index has no rows");
  for (const std::size_t eighths : {4U, 3U, 5U, 2U, 6U, 1U, 7U, 8U}) {
    const std::size_t at = std::min(count * eighths / 8, count - 1);
    auto block = block_alone(places, *keys, at);
    if (!block || *block) return block;
  }
  return base::fail(base::Code::not_found, "no block holds nothing but the " + std::to_string(count) +
                                               " rows of this index or the " +
                                               std::to_string(keys->size() - count) +
                                               " rows of those up to the last");
}

base::Result<std::optional<Read>> place_of(const base::DataFolder& folder,
                                           const std::vector<std::string_view>& words) {
  const Places places(folder);
  if (words.size() == 3 && words[0] == "record") {
    const auto stream = core::StreamId::parse(words[1]);
    if (stream) return places.of(view::record_key(*stream, std::strtoull(words[2].data(), nullptr, 10)));
  } else if (words.size() == 3 && words[0] == "index") {
    const auto index = [&](std::size_t word) {
      return static_cast<view::Index>(std::strtoul(words[word].data(), nullptr, 10));
    };
    return block_of_index(places, index(1), index(2));
  }
  return base::fail(base::Code::invalid_argument,
                    "usage: row-place FOLDER record STREAM SEQ | index NUMBER LAST");
}

int run(const std::string& path, const std::vector<std::string_view>& words) {
  const auto folder = base::DataFolder::open_read_only(path);
  if (!folder) return fail(folder.error().message);
  const auto place = place_of(*folder, words);
  if (!place) return fail(place.error().message);
  if (!*place) {
    std::puts("nowhere");
    return 0;
  }
  const std::string file = std::filesystem::relative((*place)->file, path).string();
  std::printf("place %s %llu %zu\n", file.c_str(), static_cast<unsigned long long>((*place)->offset),
              (*place)->bytes);
  return 0;
}

}  // namespace
}  // namespace sandglass::tests

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return sandglass::tests::run(argv[1], {argv + 2, argv + argc});
}
