// Opens a data folder as the engine does, runs nothing, and says what it found, a line each:
//
//   refused CODE MESSAGE                the folder was not opened; nothing else follows
//   rows COUNT HASH | rows damaged MESSAGE       every row but those that each opening changes
//   listed COUNT | listed damaged MESSAGE     rows of the visibility index, which `list` reads
//   audit RECORDS FINDINGS | audit error MESSAGE
//   stream ID HEAD HASH | stream ID damaged MESSAGE     its state; all that are in the list, or that there
//   are
//
// Usage: damage-probe FOLDER NOW_MS [STREAM…]. NOW_MS is the time that it is: no timer fires after the fact.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/system_ports.h"
#include "engine/journal/rocksdb/journal.h"
#include "engine/server/compose/belongings.h"
#include "engine/server/compose/kinds.h"
#include "engine/shard/shard_set.h"
#include "engine/view/keys.h"
#include "engine/view/rocksdb/view.h"
#include "engine/workflow/slot_file.h"
#include "replay-tools/audit/audit.h"

namespace sandglass::tests {
namespace {

using namespace engine;

/// One line, whatever is in it.
std::string line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

int refused(const base::Error& error) {
  std::printf("refused %u %s\n", static_cast<unsigned>(error.code), line(error.message).c_str());
  return 0;
}

struct NoActivator final : core::Activator {
  bool is_live_at(const core::StreamId&, std::uint64_t) const override { return false; }
  std::uint64_t restart_point(const core::StreamState&) const override { return 1; }
  void submit(core::ActivationRequest) override {}
  void poll(std::vector<core::ActivationAnswer>&) override {}
  void evict(const core::StreamId&) override {}
  void evict_all() override {}
};
struct NoDispatcher final : core::Dispatcher {
  void submit(const core::StreamId&, core::Action) override {}
  void poll(std::vector<core::FinishedAction>&) override {}
  void abandon_all() override {}
};

/// Rows that an opening itself writes.
bool changes_at_opening(const std::string& key, std::uint16_t partitions) {
  for (std::uint16_t partition = 0; partition < partitions; ++partition) {
    if (key == view::owner_epoch_key(partition) || key == view::low_water_key(partition, view::Index::due))
      return true;
  }
  return false;
}

/// What is there, row by row; the streams that have records.
std::set<core::StreamId> read_rows(const view::View& view, std::uint16_t partitions) {
  std::set<core::StreamId> streams;
  base::Sha256 hash;
  std::uint64_t count = 0;
  std::string first;
  while (true) {
    const auto page = view.scan_now({.first = first, .last = {}});
    if (!page) {
      std::printf("rows damaged %s\n", line(page.error().message).c_str());
      return streams;
    }
    for (const view::Row& row : page->rows) {
      const auto key = view::parse_stream_key(row.key);
      const auto stream = key ? core::StreamId::from_bytes(key->stream) : std::nullopt;
      if (stream && key->kind == view::StreamRow::record) streams.insert(*stream);
      if (changes_at_opening(row.key, partitions)) continue;
      ++count;
      hash.update_u64(row.key.size()).update(row.key).update_u64(row.value.size()).update(row.value);
    }
    if (!page->more) break;
    first = page->rows.back().key + '\0';
  }
  std::printf("rows %llu %s\n", static_cast<unsigned long long>(count), hash.finish().hex().c_str());
  return streams;
}

void read_listing(const view::View& view, std::uint16_t partitions) {
  std::size_t count = 0;
  for (std::uint16_t partition = 0; partition < partitions; ++partition) {
    auto [first, last] = view::index_range(partition, view::Index::visibility);
    const auto page = view.scan_now(
        {.first = std::move(first), .last = std::move(last), .limit = 1'000'000, .max_bytes = 1 << 30});
    if (!page) {
      std::printf("listed damaged %s\n", line(page.error().message).c_str());
      return;
    }
    count += page->rows.size();
  }
  std::printf("listed %zu\n", count);
}

void audit(const journal::Reader& reader) {
  const auto report = replay_tools::audit::verify(reader);
  if (!report) {
    std::printf("audit error %s\n", line(report.error().message).c_str());
  } else {
    std::printf("audit %llu %zu\n", static_cast<unsigned long long>(report->records),
                report->findings.size());
  }
}

int read_streams(view::Database& database, const base::DataFolder& folder, const std::string& tenant_key,
                 const std::set<core::StreamId>& streams, std::int64_t now_ms) {
  fold::Registry kinds;
  for (auto& kind : server::compose::all_kinds()) kinds.add(std::move(kind));
  view::RocksView view(database, 1);
  auto journal = journal::RocksJournal::open(database, {.meta = {.journal_id = "none"}, .on_completion = {}});
  if (!journal) return refused(journal.error());
  const auto ours = server::compose::check_belongings((*journal)->meta(), folder, tenant_key);
  if (!ours) return refused(ours.error());
  shard::ViewReads reads(view);
  NoActivator activator;
  NoDispatcher dispatcher;
  auto set = shard::ShardSet::open({.partitions = (*journal)->meta().partitions},
                                   {kinds, view, reads, **journal, activator, dispatcher});
  if (!set) return refused(set.error());
  std::size_t left = streams.size();
  for (const core::StreamId& stream : streams) {
    (*set)->read(stream, [&, stream](base::Result<shard::StreamRead> read) {
      --left;
      if (!read) {
        std::printf("stream %s damaged %u %s\n", stream.text().c_str(),
                    static_cast<unsigned>(read.error().code), line(read.error().message).c_str());
        return;
      }
      const std::string state = kinds.find(stream.kind)->encode_state(*read->state);
      std::printf("stream %s %llu %s\n", stream.text().c_str(), static_cast<unsigned long long>(read->head),
                  base::sha256(state).hex().c_str());
    });
  }
  for (std::int64_t tick = 0; left > 0; ++tick) {
    if (!(*set)->poll({.wall_ms = now_ms, .monotonic_ns = tick * 1000})) std::this_thread::yield();
    if ((*set)->lost()) return refused(*(*set)->lost());
  }
  return 0;
}

int probe(const std::string& path, std::int64_t now_ms, std::set<core::StreamId> streams) {
  base::SystemRandom random;
  auto folder = base::DataFolder::open(path, random);
  if (!folder) return refused(folder.error());
  const auto key = folder->tenant_key();
  if (!key) return refused(key.error());
  if (const auto slots = workflow::SlotFile::open(folder->file("run/slots")); !slots)
    return refused(slots.error());
  {
    const auto database =
        view::Database::open({.path = folder->journal(), .mark = folder->journal_mark(), .read_only = true});
    if (!database) return refused(database.error());
    const view::RocksView view(**database, 0);
    const journal::RowReader reader(view);
    const auto partitions = reader.partitions();
    if (!partitions) return refused(partitions.error());
    const auto found = read_rows(view, *partitions);
    if (streams.empty()) streams = found;
    read_listing(view, *partitions);
    audit(reader);
  }
  const auto database = view::Database::open({.path = folder->journal(), .mark = folder->journal_mark()});
  if (!database) return refused(database.error());
  return read_streams(**database, *folder, *key, streams, now_ms);
}

}  // namespace
}  // namespace sandglass::tests

int main(int argc, char** argv) {
  using sandglass::engine::core::StreamId;
  if (argc < 3) return 2;
  std::set<StreamId> streams;
  for (int i = 3; i < argc; ++i) {
    const auto stream = StreamId::parse(argv[i]);
    if (!stream) return 2;
    streams.insert(*stream);
  }
  return sandglass::tests::probe(argv[1], std::strtoll(argv[2], nullptr, 10), std::move(streams));
}
