// Says where in a stopped server's table files a row lies, so that a test can damage just that row's block:
//
//   place FILE OFFSET BYTES     the data block that holds it, FILE below the data folder
//   nowhere                     it is in no table
//
// Usage: row-place FOLDER record STREAM SEQ
//        row-place FOLDER index NUMBER             the row in the middle of that index (engine/view/keys.h)
//
// RocksDB tells nobody where a row is. It is seen by the last read of a table that finding the row takes.
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

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

base::Result<std::string> middle_of(const view::View& view, view::Index index) {
  const auto partitions = journal::RowReader(view).partitions();
  if (!partitions) return std::unexpected(partitions.error());
  std::vector<std::string> keys;
  for (std::uint16_t partition = 0; partition < *partitions; ++partition) {
    auto [first, last] = view::index_range(partition, index);
    auto page = view.scan_now(
        {.first = std::move(first), .last = std::move(last), .limit = 1'000'000, .max_bytes = 1 << 30});
    if (!page) return std::unexpected(page.error());
    for (view::Row& row : page->rows) keys.push_back(std::move(row.key));
  }
  if (keys.empty()) return base::fail(base::Code::not_found, "the index has no rows");
  return std::move(keys[keys.size() / 2]);
}

base::Result<std::string> wanted_key(const view::View& view, const std::vector<std::string_view>& words) {
  if (words.size() == 3 && words[0] == "record") {
    const auto stream = core::StreamId::parse(words[1]);
    if (stream) return view::record_key(*stream, std::strtoull(words[2].data(), nullptr, 10));
  } else if (words.size() == 2 && words[0] == "index") {
    return middle_of(view, static_cast<view::Index>(std::strtoul(words[1].data(), nullptr, 10)));
  }
  return base::fail(base::Code::invalid_argument, "usage: row-place FOLDER record STREAM SEQ | index NUMBER");
}

base::Result<std::optional<Read>> place_of(const base::DataFolder& folder,
                                           const std::vector<std::string_view>& words) {
  const auto disk = std::make_shared<WatchedDisk>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(disk);
  const view::DatabaseOptions options{
      .path = folder.journal(), .mark = folder.journal_mark(), .read_only = true, .env = env.get()};
  std::string key;
  {
    const auto database = view::Database::open(options);
    if (!database) return std::unexpected(database.error());
    auto found = wanted_key(view::RocksView(**database, 0), words);
    if (!found) return std::unexpected(found.error());
    key = std::move(*found);
  }
  const auto database = view::Database::open(options);  // anew: no block of it is in memory
  if (!database) return std::unexpected(database.error());
  disk->newest.reset();
  const auto row = (*database)->scan({.first = key, .last = key + '\0', .limit = 1});
  if (!row) return std::unexpected(row.error());
  if (row->rows.empty()) return base::fail(base::Code::not_found, "there is no such row");
  return disk->newest;
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
