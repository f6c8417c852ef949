#include "engine/server/migrate/store.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "engine/fold/stream_kind.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/journal/kafka/journal.h"
#include "engine/server/compose/kinds.h"
#include "engine/view/keys.h"

namespace sandglass::engine::server::migrate {
namespace {

namespace rebuild = replay_tools::rebuild;

base::Result<Store> open(const view::DatabaseOptions& options) {
  auto database = view::Database::open(options);
  if (!database) return std::unexpected(database.error());
  Store store{.database = std::move(*database)};
  store.view = std::make_unique<view::RocksView>(*store.database, 0);
  auto meta = journal::read_meta(*store.view);
  if (!meta) return std::unexpected(meta.error());
  store.meta = std::move(*meta);
  return store;
}

fold::Registry registry() {
  fold::Registry kinds;
  for (auto& kind : compose::all_kinds()) kinds.add(std::move(kind));
  return kinds;
}

base::Result<rebuild::Report> whole(base::Result<rebuild::Report> report) {
  if (!report || report->damaged.empty()) return report;
  const rebuild::Damaged& first = report->damaged.front();
  return base::fail(base::Code::record_damaged,
                    first.stream.text() + " record " + std::to_string(first.seq) + ": " + first.what +
                        ". A journal with damaged records is not moved; `sandglass audit verify` lists them");
}

}  // namespace

base::Result<Store> read_journal(const base::DataFolder& folder) {
  // A view of a topic has no mark: what it lacks the topic has.
  auto store = open({.path = folder.journal(), .create_if_missing = false, .read_only = true, .log = false});
  if (!store || journal::kafka::is_kafka_journal(store->meta.journal_id)) return store;
  return open({.path = folder.journal(),
               .mark = folder.journal_mark(),
               .create_if_missing = false,
               .read_only = true});
}

base::Result<Store> write_journal(const base::DataFolder& folder) {
  return open({.path = folder.journal(), .mark = folder.journal_mark(), .create_if_missing = false});
}

base::Result<Store> open_copy(const std::string& path, bool read_only) {
  return open({.path = path, .create_if_missing = false, .read_only = read_only, .log = false});
}

base::Result<rebuild::Report> fold_all(const view::View& view) {
  return whole(
      rebuild::rebuild(view, registry(), [](std::vector<view::ViewChange>) { return base::Status(); }));
}

base::Status copy_as(const journal::JournalMeta& as, const view::View& from, const std::string& path,
                     bool embedded) {
  if (mkdir(path.c_str(), 0700) != 0)
    return std::unexpected(base::system_error("cannot make the folder", path, errno));
  const auto database = view::Database::open({.path = path, .log = embedded});
  if (!database) return std::unexpected(database.error());
  const fold::Registry kinds = registry();
  const auto copied = whole(rebuild::rebuild_as(
      as, from, kinds, [&](std::vector<view::ViewChange> rows) { return (*database)->write({&rows, 1}); }));
  if (!copied) return std::unexpected(copied.error());
  return (*database)->flush();
}

}  // namespace sandglass::engine::server::migrate
