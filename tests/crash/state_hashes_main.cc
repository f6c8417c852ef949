// state_hashes FOLDER: makes every row that the engine keeps beside a stopped server's records anew, from the
// records alone (J1): state snapshots, what is in flight, due, undelivered, seen, answered, listed. Each must
// be there, byte for byte, and no other. Prints one hash of all streams' states.
#include <cstdio>
#include <map>
#include <string>

#include "engine/base/hash.h"
#include "engine/journal/kafka/place.h"
#include "engine/server/compose/kinds.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"
#include "tests/support/made_anew.h"

namespace {

using namespace sandglass::engine;

int fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

int replay(const view::View& view) {
  fold::Registry kinds;
  for (auto& kind : server::compose::all_kinds()) kinds.add(std::move(kind));
  const auto made = sandglass::tests::make_anew(view, kinds);
  if (!made) return fail(made.error().message);
  std::map<std::string, std::string> live;
  for (std::string from;;) {
    const auto page = view.scan_now({.first = from, .last = std::string(64, '\xff')});
    if (!page) return fail(page.error().message);
    for (const auto& row : page->rows) live.emplace(row.key, row.value);
    if (!page->more) break;
    from = page->rows.back().key + '\0';
  }
  const auto different = sandglass::tests::differences(live, *made);
  if (!different.empty()) return fail(different.front());
  std::printf("%llu streams replay to state hash %.16s, %zu rows are equal\n",
              static_cast<unsigned long long>(made->report.streams), made->report.states.hex().c_str(),
              made->rows.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: state_hashes FOLDER");
  const std::string path = std::string(argv[1]) + "/journal";
  const auto place = journal::kafka::load_place(std::string(argv[1]) + "/" + journal::kafka::kPlaceFile);
  if (!place) return fail(place.error().message);
  auto database = view::Database::open({.path = path, .create_if_missing = false, .read_only = true});
  if (!database) return fail(database.error().message);
  const view::RocksView view(**database, 0);
  if (*place) {  // says how much of the topic it is that replays
    const auto applied = journal::kafka::read_applied(view);
    if (!applied) return fail(applied.error().message);
    const std::string told = journal::kafka::describe(**place, *applied);
    if (applied->empty()) return fail(told);
    std::printf("%s\n", told.c_str());
  }
  return replay(view);
}
