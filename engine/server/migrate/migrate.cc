#include "engine/server/migrate/migrate.h"

#include "engine/journal/kafka/journal.h"
#include "engine/journal/rows/move.h"
#include "engine/server/migrate/place.h"
#include "engine/server/migrate/store.h"
#include "engine/server/migrate/to_folder.h"
#include "engine/server/migrate/to_topic.h"

namespace sandglass::engine::server::migrate {
namespace {

using base::Code;

/// Whether what is beside the journal is the one that was moved to it: the move was killed at its very end.
bool has_former(const base::DataFolder& folder, const journal::JournalMeta& meta) {
  if (!exists(whole_copy(folder))) return false;
  const auto former = open_copy(whole_copy(folder), true);
  if (!former) return false;
  const auto away = journal::read_move_away(*former->view, former->meta);
  return away && *away && (*away)->new_id() == meta.journal_id;
}

base::Result<std::string> end_exchange(const Options& options, const journal::JournalMeta& meta) {
  OnTopic topic;
  if (journal::kafka::is_kafka_journal(meta.journal_id)) {
    topic = {.journal = meta.journal_id,
             .topic = options.config.kafka.topic,
             .brokers = options.config.kafka.bootstrap};
  }
  return finish_exchange(options.folder, topic);
}

base::Result<Report> already_there(const Options& options, const journal::JournalMeta& meta) {
  if (has_former(options.folder, meta) && options.wish != Wish::give_up) {
    auto kept = end_exchange(options, meta);
    if (!kept) return std::unexpected(kept.error());
    return Report{.moved = true, .to = meta.journal_id, .kept = std::move(*kept)};
  }
  return base::fail(
      Code::usage, std::string("the journal is where the configuration says, ") +
                       (journal::kafka::is_kafka_journal(meta.journal_id) ? "on Kafka" : "in the folder") +
                       ": there is nothing to move. To move it, change `journal` in the configuration first");
}

}  // namespace

base::Result<Report> migrate(const Options& options) {
  if (auto made = make_files_as_engine(options.folder); !made) return std::unexpected(made.error());
  journal::JournalMeta meta;
  bool begun = false;
  {
    const auto store = read_journal(options.folder);
    if (!store) return std::unexpected(store.error());
    meta = store->meta;
    const auto away = journal::read_move_away(*store->view, meta);
    if (!away) return std::unexpected(away.error());
    begun = away->has_value();
  }
  const bool on_kafka = journal::kafka::is_kafka_journal(meta.journal_id);
  const bool shall_be = options.config.journal == JournalKind::kafka;
  if (options.wish == Wish::give_up && on_kafka && !has_former(options.folder, meta))
    return stay_on_topic(options);
  if (begun && options.wish == Wish::give_up) return stay_in_folder(options);
  if (begun && options.wish == Wish::begin) {
    return base::fail(Code::usage,
                      "a move was begun and has not ended: --continue goes on with it, --back gives it up");
  }
  if (begun && on_kafka == shall_be) {
    return base::fail(Code::usage,
                      std::string("the move that was begun leads ") +
                          (on_kafka ? "to the folder" : "to Kafka") +
                          ", and the configuration says journal: " + (on_kafka ? "kafka" : "embedded") +
                          ". Change that to go on, or give the move up with --back");
  }
  if (on_kafka == shall_be) return already_there(options, meta);
  // The end of the former move, which a kill has left.
  if (has_former(options.folder, meta)) {
    if (auto ended = end_exchange(options, meta); !ended) return std::unexpected(ended.error());
  }
  // What the view knows of a topic may be old: there, the topic is asked.
  if (on_kafka) return move_to_folder(options);
  if (!begun && options.wish != Wish::begin)
    return base::fail(Code::usage, "no move was begun: `sandglass migrate` alone begins one");
  return move_to_topic(options);
}

}  // namespace sandglass::engine::server::migrate
