#include "engine/server/compose/storage.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/log.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "engine/journal/kafka/journal.h"
#include "engine/journal/kafka/place.h"
#include "engine/journal/kafka/scan/topic_scan.h"
#include "engine/journal/rocksdb/journal.h"
#include "engine/journal/rows/move.h"
#include "engine/server/compose/belongings.h"

namespace sandglass::engine::server::compose {

namespace {

namespace kafka = journal::kafka;

constexpr unsigned kReaderThreads = 2;
constexpr std::int64_t kTopicTimeoutMs = 30'000;
constexpr std::size_t kRowsAtOnce = 1'000;
constexpr const char* kAside = "set-aside-";

std::string random_name(base::Random& random) {
  std::array<std::uint8_t, 16> bytes{};
  random.fill(bytes);
  return base::to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

base::Status open_view(const StorageOptions& options, bool log, Storage& storage) {
  auto opened = view::Database::open(
      {.path = options.folder.journal(), .mark = options.folder.journal_mark(), .log = log});
  if (!opened) return std::unexpected(opened.error());
  storage.database = std::move(*opened);
  storage.view = std::make_unique<view::RocksView>(*storage.database, kReaderThreads, options.wake);
  return {};
}

journal::JournalMeta new_meta(const StorageOptions& options, std::string journal_id) {
  return {.journal_id = std::move(journal_id),
          .partitions = options.config.engine.partitions,
          .key_check = key_check_of(options.tenant_key),
          .folder_id = options.folder.id()};
}

/// Which topic the folder has its history on, if it has: the view itself may have lost that in a crash.
base::Result<std::optional<kafka::Place>> place_of(const StorageOptions& options) {
  return kafka::load_place(options.folder.file(kafka::kPlaceFile));
}

base::Status is_view(const StorageOptions& options, const std::string& topic) {
  return base::fail(base::Code::folder_version, "the folder " + options.folder.journal() +
                                                    " is a view of a Kafka journal: its records are on " +
                                                    topic +
                                                    ". Set journal: kafka, or move them here with "
                                                    "`sandglass migrate`");
}

base::Status check_place(const StorageOptions& options, const std::string& journal_id) {
  const KafkaSettings& wanted = options.config.kafka;
  const auto place = place_of(options);
  if (!place) return std::unexpected(place.error());
  if (*place && (*place)->journal != journal_id) {
    return base::fail(base::Code::topic_foreign,
                      "this data folder has its history on topic " + (*place)->topic + " at " +
                          (*place)->brokers + " (journal " + (*place)->journal + "), and topic " +
                          wanted.topic + " at " + wanted.bootstrap + " is of journal " + journal_id +
                          ": it is another topic, or one of another cluster. Choose the folder's own topic "
                          "with kafka.bootstrap and kafka.topic, or an empty folder with --data");
  }
  return {};
}

/// A journal that has moved away, or is on its way, has no owner.
base::Status check_open(const view::View& view, const journal::JournalMeta& meta) {
  const auto away = journal::read_move_away(view, meta);
  if (!away) return std::unexpected(away.error());
  return *away ? base::Status(std::unexpected(journal::closed_by(**away))) : base::Status();
}

base::Status open_embedded(const StorageOptions& options, Storage& storage) {
  const auto place = place_of(options);
  if (!place) return std::unexpected(place.error());
  if (*place) return is_view(options, "topic " + (*place)->topic + " at " + (*place)->brokers);
  if (auto status = open_view(options, true, storage); !status) return status;
  auto opened = journal::RocksJournal::open(
      *storage.database,
      {.meta = new_meta(options, random_name(options.random)), .on_completion = options.completed});
  if (!opened) return std::unexpected(opened.error());
  storage.meta = (*opened)->meta();
  storage.journal = std::move(*opened);
  if (!kafka::is_kafka_journal(storage.meta.journal_id)) return check_open(*storage.view, storage.meta);
  return is_view(options, "a Kafka topic");
}

/// What the folder has, without changing anything; nothing: it is empty.
base::Result<std::optional<journal::JournalMeta>> look_at_view(const StorageOptions& options) {
  const auto database = view::Database::open(
      {.path = options.folder.journal(), .create_if_missing = false, .read_only = true, .log = false});
  if (!database && database.error().code == base::Code::not_found)
    return std::optional<journal::JournalMeta>();
  if (!database) return std::unexpected(database.error());
  const view::RocksView view(**database, 0);
  auto meta = journal::read_meta(view);
  if (!meta && meta.error().code == base::Code::not_found) return std::optional<journal::JournalMeta>();
  if (!meta) return std::unexpected(meta.error());
  if (kafka::is_kafka_journal(meta->journal_id)) return std::optional(std::move(*meta));
  if (auto open = check_open(view, *meta); !open) return std::unexpected(open.error());
  return base::fail(base::Code::folder_version,
                    "the folder " + options.folder.journal() +
                        " has an embedded journal. Set journal: embedded, or move it to the topic with "
                        "`sandglass migrate`");
}

/// The topic's journal: usually the one that every node makes out of cluster and topic alike. One that was
/// moved there has an id of its own behind that, which the folder's view knows, or else the topic.
base::Result<std::string> find_journal_id(const StorageOptions& options,
                                          const kafka::cluster::Settings& brokers,
                                          const std::string& cluster) {
  const std::string& topic = options.config.kafka.topic;
  const std::string usual = kafka::journal_id_of(cluster, topic);
  const auto has = look_at_view(options);
  if (!has) return std::unexpected(has.error());
  const auto place = place_of(options);
  if (!place) return std::unexpected(place.error());
  if (*has || *place) {
    std::string id = *has ? (*has)->journal_id : (*place)->journal;
    return journal::is_moved_to(id, usual) ? id : usual;
  }
  auto scan =
      kafka::scan::TopicScan::open(brokers, topic, kafka::scan::Isolation::everything, kTopicTimeoutMs);
  if (!scan) return std::unexpected(scan.error());
  std::string found = usual;
  const auto read = (*scan)->read(0, [&](const kafka::Message& message) {
    const std::string_view id = kafka::journal_of(message);
    if (journal::is_moved_to(id, usual)) found = id;
    return id != usual && found == usual;
  });
  if (!read) return std::unexpected(read.error());
  return found;
}

}  // namespace

base::Result<KafkaOpened> open_kafka_journal(const StorageOptions& options, bool reopen, Storage& storage) {
  const KafkaSettings& wanted = options.config.kafka;
  auto settings = kafka::cluster::read_settings(wanted.bootstrap, wanted.client, wanted.client_file);
  if (!settings) return std::unexpected(settings.error());
  const auto topic = kafka::cluster::make_topic(
      *settings, {.topic = wanted.topic, .partitions = options.config.engine.partitions}, kTopicTimeoutMs);
  if (!topic) return std::unexpected(topic.error());
  const auto journal_id = find_journal_id(options, *settings, topic->cluster);
  if (!journal_id) return std::unexpected(journal_id.error());
  auto skips = kafka::parse_skips(wanted.skip);
  if (!skips) return std::unexpected(skips.error());
  auto self = lease_name(options.folder, options.tenant_key, options.random);
  if (!self) return std::unexpected(self.error());
  auto brokers = kafka::client::KafkaClient::open({.settings = std::move(*settings),
                                                   .topic = wanted.topic,
                                                   .journal_id = *journal_id,
                                                   .partitions = options.config.engine.partitions});
  if (!brokers) return std::unexpected(brokers.error());
  storage.brokers = std::move(*brokers);
  if (auto status = check_place(options, *journal_id); !status) return std::unexpected(status.error());
  if (auto status = open_view(options, false, storage); !status) return std::unexpected(status.error());
  storage.projector =
      std::make_unique<fold::Projector>(options.kinds, *storage.view, options.config.engine.partitions);
  auto opened = kafka::KafkaJournal::open(
      {.view = *storage.view,
       .write = [database = storage.database.get()](auto groups) { return database->write(groups); }},
      options.clock, options.random,
      {.meta = new_meta(options, *journal_id),
       .brokers = [client = storage.brokers.get()](
                      core::PartitionId partition,
                      int wake_fd) { return client->broker(partition, wake_fd); },
       .projection = [projector = storage.projector.get()](
                         core::PartitionId partition, const core::OrderedRecord& record,
                         auto& changes) { return projector->project(partition, record, changes); },
       .owner = {.publish_interval_ms = wanted.publish_interval_ms},
       .republish_from_view = wanted.republish_from_view,
       .reopen = reopen,
       .self = {.key = self->key, .blobs = self->blobs},
       .skips = std::move(*skips),
       .on_completion = options.completed});
  if (!opened) return std::unexpected(opened.error());
  storage.meta = (*opened)->meta();
  // Before anybody is fenced.
  if (auto ours = check_belongings(storage.meta, options.folder, options.tenant_key); !ours)
    return std::unexpected(ours.error());
  if (auto kept =
          kafka::save_place(options.folder.file(kafka::kPlaceFile),
                            {.journal = *journal_id, .topic = wanted.topic, .brokers = wanted.bootstrap});
      !kept)
    return std::unexpected(kept.error());
  return KafkaOpened{.journal = std::move(*opened), .cluster = topic->cluster, .self = std::move(*self)};
}

/// Until this engine has the lease, unless it shall take over from whoever has it.
base::Status begin_leasing(const StorageOptions& options, const KafkaOpened& opened, Storage& storage) {
  const KafkaSettings& wanted = options.config.kafka;
  auto settings = kafka::cluster::read_settings(wanted.bootstrap, wanted.client, wanted.client_file);
  if (!settings) return std::unexpected(settings.error());
  auto lease = Lease::open({.settings = *settings,
                            .topic = wanted.topic,
                            .group = opened.journal->meta().journal_id,
                            .self = opened.self,
                            .session_ms = wanted.lease_ms,
                            .on_lost = options.standby.lost});
  if (!lease) return std::unexpected(lease.error());
  storage.lease = std::move(*lease);
  const auto stood_by = wait_for_lease(*storage.lease, *opened.journal, opened.self, wanted, options.standby);
  if (!stood_by) return std::unexpected(stood_by.error());
  if (!*stood_by) return {};
  // Much may have been changed since this engine began to wait (J28).
  const auto topic = kafka::cluster::check_topic(
      *settings,
      {.topic = wanted.topic, .partitions = opened.journal->meta().partitions, .cluster = opened.cluster},
      kTopicTimeoutMs);
  return topic ? base::Status() : std::unexpected(topic.error());
}

namespace {

base::Status open_kafka(const StorageOptions& options, Storage& storage) {
  auto opened = open_kafka_journal(options, false, storage);
  if (!opened) return std::unexpected(opened.error());
  if (auto leased = begin_leasing(options, *opened, storage); !leased) return leased;
  const auto& journal = opened->journal;
  // All side by side: each waits for the brokers most of the time.
  for (core::PartitionId partition = 0; partition < storage.meta.partitions; ++partition)
    journal->begin_owning(partition);
  for (core::PartitionId partition = 0; partition < storage.meta.partitions; ++partition) {
    if (auto status = journal->wait_owned(partition); !status) return status;
  }
  storage.journal = std::move(opened->journal);
  return {};
}

/// A view that does not fit its topic, or whose files are damaged, is kept, unmodified, beside the one that
/// is made anew (J26).
base::Status set_aside(const StorageOptions& options, const base::Error& why) {
  namespace fs = std::filesystem;
  const fs::path view = options.folder.journal();
  const fs::path aside = view / (std::string(kAside) + std::to_string(options.clock.wall_ms()));
  std::error_code failed;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(view, failed)) {
    if (!entry.path().filename().string().starts_with(kAside)) files.push_back(entry.path());
  }
  if (!failed) fs::create_directory(aside, failed);
  for (const fs::path& file : files) {
    if (!failed) fs::rename(file, aside / file.filename(), failed);
  }
  if (failed)
    return std::unexpected(base::system_error("cannot set the view aside in", aside, failed.value()));
  base::log(base::LogLevel::warning, "view_set_aside", {{"folder", aside.string()}, {"reason", why.message}});
  return {};
}

/// Its files, not what they say.
bool has_damaged_view(const StorageOptions& options) {
  const auto database = view::Database::open(
      {.path = options.folder.journal(), .create_if_missing = false, .read_only = true, .log = false});
  if (!database) return database.error().code == base::Code::record_damaged;
  for (std::string next;;) {
    const auto page = (*database)->scan({.first = next, .limit = kRowsAtOnce});
    if (!page) return page.error().code == base::Code::record_damaged;
    if (!page->more) return false;
    next = page->rows.back().key + '\0';
  }
}

/// Whether opening fails for what another view would mend: the operator said so, or the topic has all of it.
bool needs_another_view(const StorageOptions& options, base::Code code) {
  if (code == base::Code::journal_diverged || code == base::Code::journal_incomplete)
    return options.config.kafka.accept_loss;
  return options.config.journal == JournalKind::kafka && code == base::Code::record_damaged &&
         has_damaged_view(options);
}

base::Result<Storage> open_kind(const StorageOptions& options) {
  Storage storage;
  const bool on_kafka = options.config.journal == JournalKind::kafka;
  if (auto status = on_kafka ? open_kafka(options, storage) : open_embedded(options, storage); !status)
    return std::unexpected(status.error());
  return storage;
}

}  // namespace

base::Result<Storage> open_storage(const StorageOptions& options) {
  auto opened = open_kind(options);
  if (!opened && needs_another_view(options, opened.error().code)) {
    if (auto status = set_aside(options, opened.error()); !status) return std::unexpected(status.error());
    opened = open_kind(options);
  }
  if (!opened) return opened;
  Storage& storage = *opened;
  if (auto ours = check_belongings(storage.meta, options.folder, options.tenant_key); !ours)
    return std::unexpected(ours.error());
  if (const auto newest = journal::newest_record_ms(*storage.view, storage.meta))
    options.clock.not_before(*newest);
  return opened;
}

}  // namespace sandglass::engine::server::compose
