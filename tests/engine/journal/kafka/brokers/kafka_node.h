// A node of the Kafka journal in tests: a view on disk, and a journal on it that comes and goes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/system_ports.h"
#include "engine/journal/kafka/client/client.h"
#include "engine/journal/kafka/journal.h"
#include "engine/view/rocksdb/database.h"
#include "engine/view/rocksdb/view.h"
#include "tests/engine/journal/journal_fixture.h"
#include "tests/support/temp_folder.h"

namespace sandglass::engine::journal::kafka {

/// A node's folder, database and client; a journal on it comes and goes.
class Node {
 public:
  /// `folder` outlives the node and any crash of it; empty: one of its own.
  Node(const std::string& bootstrap, const std::string& topic, std::string folder = {},
       std::int64_t delivery_timeout_ms = 30'000)
      : folder_(folder.empty() ? own_folder_.file("view") : std::move(folder)) {
    auto opened = client::KafkaClient::open({.settings = {.bootstrap = bootstrap},
                                             .topic = topic,
                                             .journal_id = topic,
                                             .delivery_timeout_ms = delivery_timeout_ms});
    EXPECT_TRUE(opened) << opened.error().message;
    client_ = std::move(*opened);
    reopen();
  }

  std::unique_ptr<KafkaJournal> journal(KafkaJournalOptions options = {}) {
    options.meta = kMeta;
    options.close_ms = 0;  // as a kill
    options.brokers = [this](core::PartitionId partition, int wake_fd) {
      return client_->broker(partition, wake_fd);
    };
    ViewStore store{.view = *view_,
                    .write = [database = database_.get()](auto groups) { return database->write(groups); }};
    auto journal = KafkaJournal::open(std::move(store), clock_, random_, std::move(options));
    EXPECT_TRUE(journal) << journal.error().message;
    return std::move(*journal);
  }
  view::RocksView& view() { return *view_; }
  /// As after a kill: what was not flushed is gone. No journal may be open.
  void reopen() {
    view_.reset();
    database_.reset();
    auto opened = view::Database::open({.path = folder_, .log = false, .flush_on_close = false});
    ASSERT_TRUE(opened) << opened.error().message;
    database_ = std::move(*opened);
    view_ = std::make_unique<view::RocksView>(*database_, 2);
  }

 private:
  tests::support::TempFolder own_folder_;
  std::string folder_;
  base::SystemClock clock_;
  base::SystemRandom random_;
  std::unique_ptr<client::KafkaClient> client_;
  std::unique_ptr<view::Database> database_;
  std::unique_ptr<view::RocksView> view_;
};

}  // namespace sandglass::engine::journal::kafka
