// sandglass: names the adapters and stream kinds that its commands read with.
#include <csignal>
#include <cstdlib>
#include <memory>

#include "engine/base/crash_point.h"
#include "engine/base/data_folder.h"
#include "engine/journal/kafka/place.h"
#include "engine/journal/kafka/scan/topic_scan.h"
#include "engine/journal/rows/rows.h"
#include "engine/server/compose/kinds.h"
#include "engine/server/config.h"
#include "engine/server/migrate/migrate.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"
#include "replay-tools/cli/options.h"
#include "replay-tools/replay/run_describer.h"

namespace {

using namespace sandglass;

constexpr std::int64_t kBrokersWithinMs = 30'000;

class FolderJournal final : public replay_tools::cli::OpenedJournal {
 public:
  explicit FolderJournal(std::unique_ptr<engine::view::Database> database)
      : database_(std::move(database)), view_(*database_, 0), reader_(view_) {}
  const engine::journal::Reader& reader() const override { return reader_; }
  engine::base::Result<std::vector<engine::journal::kafka::Applied>> applied() const override {
    return engine::journal::kafka::read_applied(view_);
  }

 private:
  std::unique_ptr<engine::view::Database> database_;
  engine::view::RocksView view_;
  engine::journal::RowReader reader_;
};

engine::base::Result<std::unique_ptr<replay_tools::cli::OpenedJournal>> open_journal(
    const engine::base::DataFolder& folder) {
  namespace kafka = engine::journal::kafka;
  const auto place = kafka::load_place(folder.file(kafka::kPlaceFile));
  auto database = engine::view::Database::open({.path = folder.journal(),
                                                .mark = folder.journal_mark(),
                                                .create_if_missing = false,
                                                .read_only = true,
                                                .log = !place || !*place});  // a view has none, nor a mark
  if (!database) return std::unexpected(database.error());
  return std::make_unique<FolderJournal>(std::move(*database));
}

/// Whether the files are those that were copied is known by their hashes: there is no mark beside a copy.
engine::base::Result<std::unique_ptr<replay_tools::cli::OpenedJournal>> open_copy(const std::string& files) {
  auto database = engine::view::Database::open(
      {.path = files, .create_if_missing = false, .read_only = true, .log = false});
  if (!database) return std::unexpected(database.error());
  return std::make_unique<FolderJournal>(std::move(*database));
}

engine::base::Result<replay_tools::rebuild::Report> rebuild_journal(const engine::base::DataFolder& folder,
                                                                    const std::string& new_journal) {
  namespace kafka = engine::journal::kafka;
  const auto place = kafka::load_place(folder.file(kafka::kPlaceFile));
  if (!place) return std::unexpected(place.error());
  if (*place) {
    return engine::base::fail(
        engine::base::Code::usage,
        "the history is on topic " + (*place)->topic + " at " + (*place)->brokers + ", and " +
            folder.journal() +
            " is a view of it: empty that folder and start the server, which makes the view anew from there");
  }
  const auto from = engine::view::Database::open({.path = folder.journal(),
                                                  .mark = folder.journal_mark(),
                                                  .create_if_missing = false,
                                                  .read_only = true});
  if (!from) return std::unexpected(from.error());
  const auto to = engine::view::Database::open({.path = new_journal, .mark = new_journal + ".mark"});
  if (!to) return std::unexpected(to.error());
  engine::fold::Registry kinds;
  for (auto& kind : engine::server::compose::all_kinds()) kinds.add(std::move(kind));
  const engine::view::RocksView view(**from, 0);
  return replay_tools::rebuild::rebuild(
      view, kinds, [&](std::vector<engine::view::ViewChange> rows) { return (*to)->write({&rows, 1}); });
}

class Topic final : public replay_tools::audit::TopicSource {
 public:
  explicit Topic(std::unique_ptr<engine::journal::kafka::scan::TopicScan> scan) : scan_(std::move(scan)) {}
  std::uint16_t partitions() const override { return scan_->partitions(); }
  engine::base::Status read(
      engine::core::PartitionId partition,
      const std::function<bool(const engine::journal::kafka::Message&)>& take) override {
    return scan_->read(partition, take);
  }

 private:
  std::unique_ptr<engine::journal::kafka::scan::TopicScan> scan_;
};

engine::base::Result<std::unique_ptr<replay_tools::audit::TopicSource>> open_topic(
    const replay_tools::cli::TopicPlace& place) {
  namespace kafka = engine::journal::kafka;
  auto settings = kafka::cluster::read_settings(place.brokers, place.settings, place.settings_file);
  if (!settings) return std::unexpected(settings.error());
  auto scan = kafka::scan::TopicScan::open(*settings, place.topic, kafka::scan::Isolation::published,
                                           kBrokersWithinMs);
  if (!scan) return std::unexpected(scan.error());
  return std::make_unique<Topic>(std::move(*scan));
}

engine::base::Result<replay_tools::cli::MigrateReport> migrate(const engine::base::DataFolder& folder,
                                                               const replay_tools::cli::MigrateArgs& args,
                                                               const replay_tools::cli::MigrateTell& tell) {
  namespace server = engine::server;
  std::vector<std::string> settings;
  if (const char* set = std::getenv("SANDGLASS_SET"); set != nullptr) settings = server::split_settings(set);
  settings.insert(settings.end(), args.settings.begin(), args.settings.end());
  const bool named = !args.config.empty();
  const auto config = server::load_config(
      named ? args.config : engine::base::DataFolder::config_file(folder.path()), named, settings);
  if (!config) return std::unexpected(config.error());
  using server::migrate::Wish;
  const auto report = server::migrate::migrate({.folder = folder,
                                                .config = *config,
                                                .wish = args.back    ? Wish::give_up
                                                        : args.go_on ? Wish::go_on
                                                                     : Wish::begin,
                                                .tell = [&](const server::migrate::Progress& progress) {
                                                  tell(progress.stage, progress.done, progress.of);
                                                }});
  if (!report) return std::unexpected(report.error());
  return replay_tools::cli::MigrateReport{.moved = report->moved,
                                          .from = report->from,
                                          .to = report->to,
                                          .place = report->place,
                                          .records = report->records,
                                          .streams = report->streams,
                                          .states_before = report->states_before.hex(),
                                          .states_after = report->states_after.hex(),
                                          .kept = report->kept};
}

std::shared_ptr<const replay_tools::replay::Kinds> kinds() {
  auto known = std::make_shared<replay_tools::replay::Kinds>();
  for (auto& kind : engine::server::compose::all_kinds()) {
    const bool is_run = kind->kind() == engine::core::StreamKind::run;
    known->add(std::move(kind), is_run ? std::make_unique<replay_tools::replay::RunDescriber>() : nullptr);
  }
  return known;
}

}  // namespace

int main(int argc, char** argv) {
  if (engine::base::list_crash_points(argc, argv)) return 0;
  std::signal(SIGPIPE, SIG_IGN);
  return static_cast<int>(replay_tools::cli::run_command_line(argc, argv,
                                                              {.open_journal = open_journal,
                                                               .open_copy = open_copy,
                                                               .rebuild_journal = rebuild_journal,
                                                               .open_topic = open_topic,
                                                               .migrate = migrate,
                                                               .kinds = kinds()}));
}
