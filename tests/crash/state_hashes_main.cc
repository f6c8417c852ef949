// state_hashes FOLDER: makes every row that the engine keeps beside a stopped server's records anew, from the
// records alone (J1): state snapshots, what is in flight, due, undelivered, seen, answered, listed. Each must
// be there, byte for byte, and no other. Prints one hash of all streams' states.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/hash.h"
#include "engine/fold/project.h"
#include "engine/fold/stream_fold.h"
#include "engine/journal/rows/rows.h"
#include "engine/server/compose/kinds.h"
#include "engine/view/keys.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"

namespace {

using namespace sandglass::engine;

constexpr std::size_t kChunk = 256;
constexpr std::string_view kPartitionRows = "\xff\xff";  // order, owners, marks, and the folder's own facts

int fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

/// Rows that are not made from records.
bool is_given(const std::string& key) {
  if (key.starts_with(kPartitionRows)) return true;
  if (key.starts_with("\xff\xfe")) return false;
  const auto parsed = view::parse_stream_key(key);
  return !parsed || parsed->kind == view::StreamRow::record;
}

std::string name_of(const std::string& key) {
  std::string hex;
  for (const char byte : key) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    hex += digits;
  }
  return hex;
}

class Replay {
 public:
  explicit Replay(const view::View& view) : view_(view), reader_(view) {
    for (auto& kind : server::compose::all_kinds()) kinds_[kind->kind()] = kind;
  }

  base::Status fold_all() {
    const auto partitions = reader_.partitions();
    if (!partitions) return std::unexpected(partitions.error());
    partitions_ = *partitions;
    for (std::uint16_t partition = 0; partition < partitions_; ++partition) {
      for (core::Sequence next = 1;;) {
        const auto records = reader_.read_order(partition, next, kChunk);
        if (!records) return std::unexpected(records.error());
        if (records->empty()) break;
        for (const auto& each : *records) {
          if (auto status = apply(each.record); !status) return status;
        }
        next = records->back().link.sequence + 1;
      }
    }
    return {};
  }

  /// What is different between the rows of the folder and those made here.
  base::Status compare() const {
    auto expected = rows_.begin();
    const auto differs = [](const std::string& what, const std::string& key) {
      return base::fail(base::Code::record_damaged, what + ": row " + name_of(key));
    };
    std::string from;
    for (bool more = true; more;) {
      const auto found = view_.scan_now({.first = from, .last = std::string(64, '\xff')});
      if (!found) return std::unexpected(found.error());
      for (const auto& row : found->rows) {
        from = row.key + '\0';
        if (is_given(row.key)) continue;
        if (expected == rows_.end() || row.key < expected->first)
          return differs("no record caused it", row.key);
        if (expected->first < row.key) return differs("it is missing", expected->first);
        if (expected->second != row.value) return differs("it is not what the records say", row.key);
        ++expected;
      }
      more = found->more;
    }
    return expected == rows_.end() ? base::Status() : differs("it is missing", expected->first);
  }

  void print() const {
    base::Sha256 all;
    for (const auto& [id, fold] : streams_) {
      all.update(id.text()).update(fold->kind().encode_state(*fold->state()));
    }
    std::printf("%zu streams replay to state hash %.16s, %zu rows are equal\n", streams_.size(),
                all.finish().hex().c_str(), rows_.size());
  }

 private:
  base::Status apply(const core::StoredRecord& record) {
    const auto kind = kinds_.find(record.stream.kind);
    if (kind == kinds_.end()) return base::fail(base::Code::format_unknown, record.stream.text());
    auto& fold = streams_[record.stream];
    if (fold == nullptr) fold = std::make_unique<fold::StreamFold>(*kind->second, record.stream);
    const auto turn = fold::read_turn(*kind->second, record);
    if (!turn) return std::unexpected(turn.error());
    const auto before = fold->state();  // kept, so that it is not changed in place
    if (auto status = fold->apply(*turn); !status) return status;
    fold::ViewChanges changes;
    fold::project_record(*fold, kind->second->projects(*turn->events) ? before.get() : nullptr, turn->header,
                         partitions_, changes);
    for (auto& change : changes) {
      if (change.value) {
        rows_[change.key] = std::move(*change.value);
      } else {
        rows_.erase(change.key);
      }
    }
    return {};
  }

  const view::View& view_;
  journal::RowReader reader_;
  std::map<core::StreamKind, std::shared_ptr<const fold::AnyKind>> kinds_;
  std::uint16_t partitions_ = 0;
  std::map<core::StreamId, std::unique_ptr<fold::StreamFold>> streams_;
  std::map<std::string, std::string> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: state_hashes FOLDER");
  const std::string path = std::string(argv[1]) + "/journal";
  auto database = view::Database::open({.path = path, .create_if_missing = false, .read_only = true});
  if (!database) return fail(database.error().message);
  const view::RocksView view(**database, 0);
  Replay replay(view);
  for (const auto& status : {replay.fold_all(), replay.compare()}) {  // in this order
    if (!status) return fail(status.error().message);
  }
  replay.print();
  return 0;
}
