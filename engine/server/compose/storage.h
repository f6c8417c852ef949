// What the engine keeps its records in: a journal of the kind that the configuration names, and the view
// beside it.
//
//   embedded   records and rows in one database of the data folder
//   kafka      records on a topic; the folder's database is a view of it, made anew when it is gone. While
//              another engine serves the topic, opening waits (standby.h). Files of it that are damaged are
//              set aside, and it is made anew (FR-102)
//
// Thread rule: open from one thread, before anything else; the parts as they say. Ownership: `kinds` and the
// options' clock and random outlive it. Errors: those of database, journal and topic checks; topic_foreign or
// folder_version when the folder belongs to the other kind, or has moved on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/steady_clock.h"
#include "engine/fold/projector.h"
#include "engine/journal/journal.h"
#include "engine/journal/kafka/client/client.h"
#include "engine/journal/kafka/journal.h"
#include "engine/journal/rows/rows.h"
#include "engine/server/compose/standby.h"
#include "engine/server/config.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"

namespace sandglass::engine::server::compose {

struct StorageOptions {
  const base::DataFolder& folder;
  const Config& config;
  const fold::Registry& kinds;
  const std::string& tenant_key;
  base::SteadyClock& clock;  // is set to be no earlier than the newest record
  base::Random& random;
  std::function<void()> wake;       // the view has news
  std::function<void()> completed;  // the journal has news
  StandbyPorts standby;             // kafka
};

/// In the order in which they begin; they end in the opposite one.
struct Storage {
  std::unique_ptr<view::Database> database;
  std::unique_ptr<view::RocksView> view;
  std::unique_ptr<fold::Projector> projector;                    // kafka
  std::unique_ptr<journal::kafka::client::KafkaClient> brokers;  // kafka
  std::unique_ptr<Lease> lease;                                  // kafka; given up after the journal
  std::unique_ptr<journal::Journal> journal;
  journal::JournalMeta meta;
};

base::Result<Storage> open_storage(const StorageOptions& options);

// The beginning of open_storage with a journal on Kafka, for whoever goes another way from there.

struct KafkaOpened {
  std::unique_ptr<journal::kafka::KafkaJournal> journal;
  std::string cluster;
  journal::kafka::client::LeaseHolder self;
};
/// The topic's journal, before any partition of it is owned. `reopen`: its move to another place is given up.
base::Result<KafkaOpened> open_kafka_journal(const StorageOptions& options, bool reopen, Storage& storage);
/// Waits for the lease; `cancelled`, when the options' standby.ends says so.
base::Status begin_leasing(const StorageOptions& options, const KafkaOpened& opened, Storage& storage);

}  // namespace sandglass::engine::server::compose
