#include "engine/server/migrate/to_topic.h"

#include <iterator>
#include <utility>
#include <vector>

#include "engine/base/crash_point.h"
#include "engine/base/system_ports.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/journal/kafka/journal.h"
#include "engine/journal/rows/move.h"
#include "engine/server/migrate/place.h"
#include "engine/server/migrate/steps.h"
#include "engine/view/keys.h"
#include "replay-tools/audit/audit.h"

namespace sandglass::engine::server::migrate {
namespace {

namespace kafka = journal::kafka;
using base::Code;

class ToTopic : Steps {
 public:
  explicit ToTopic(const Options& options) : Steps(options) {}

  base::Result<Report> run() {
    if (auto done = check(); !done) return std::unexpected(done.error());
    if (auto done = close(); !done) return std::unexpected(done.error());
    report_.from = move_.from;
    report_.to = move_.new_id();
    report_.place = move_.place;
    if (auto done = copy(false); !done) return std::unexpected(done.error());
    if (auto done = send(); !done) return std::unexpected(done.error());
    if (auto done = compare(); !done) return std::unexpected(done.error());
    auto kept = put_in_place(folder_, kafka::Place{.journal = report_.to,
                                                   .topic = topic_.name,
                                                   .brokers = options_.config.kafka.bootstrap});
    if (!kept) return std::unexpected(kept.error());
    report_.kept = std::move(*kept);
    report_.moved = true;
    return std::move(report_);
  }

 private:
  /// Nothing is changed but that the topic is made.
  base::Status check() {
    tell("checking the journal and the topic");
    const auto source = read_own_journal();
    if (!source) return std::unexpected(source.error());
    if (options_.config.engine.partitions != meta_.partitions) {
      return base::fail(Code::config_invalid,
                        "the journal has " + std::to_string(meta_.partitions) +
                            " partitions, and so must the topic: set engine.partitions: " +
                            std::to_string(meta_.partitions));
    }
    auto away = journal::read_move_away(*source->view, meta_);
    if (!away) return std::unexpected(away.error());
    if (auto topic = find_topic(true); !topic) return topic;
    const std::string to = kafka::journal_id_of(topic_.cluster, topic_.name);
    if (*away) {
      if ((*away)->to != to) {
        return base::fail(Code::topic_foreign, "the move that was begun leads to " + (*away)->place +
                                                   ", and the configuration names topic " + topic_.name +
                                                   " of cluster " + topic_.cluster +
                                                   ". Name that one, or give the move up with --back");
      }
      move_ = std::move(**away);
      return {};
    }
    const auto whole = replay_tools::audit::verify(journal::RowReader(*source->view));
    if (!whole) return std::unexpected(whole.error());
    if (!whole->good()) {
      return base::fail(
          Code::record_damaged,
          "the journal is damaged: " + whole->findings.front().what +
              ". It is not moved, and nothing was changed; `sandglass audit verify` has the rest");
    }
    if (auto empty = check_empty(topic_); !empty) return empty;
    if (auto room = check_room(folder_); !room) return room;
    move_ = {.from = meta_.journal_id,
             .to = to,
             .place = "topic " + topic_.name + " of cluster " + topic_.cluster,
             .folder = folder_.id()};
    return {};
  }

  /// All partitions in one write: from here on no engine owns it.
  base::Status close() {
    if (!move_.heads.empty()) return {};
    tell("closing the journal");
    auto source = write_journal(folder_);
    if (!source) return std::unexpected(source.error());
    auto heads = journal::read_heads(*source->view, meta_);
    if (!heads) return std::unexpected(heads.error());
    move_.heads = std::move(*heads);
    const std::string text = journal::encode_move(move_);
    std::vector<view::ViewChange> rows;
    for (core::PartitionId partition = 0; partition < meta_.partitions; ++partition) {
      auto some =
          journal::owners_record_rows(*source->view, meta_, partition, text, base::SystemClock().wall_ms());
      if (!some) return std::unexpected(some.error());
      rows.insert(rows.end(), std::make_move_iterator(some->begin()), std::make_move_iterator(some->end()));
    }
    SG_CRASH_POINT("migrate.before_close");
    if (auto written = source->write(rows); !written) return written;
    SG_CRASH_POINT("migrate.closed");
    return {};
  }

  base::Status send() {
    const auto copied = open_copy(whole_copy(folder_), true);
    if (!copied) return std::unexpected(copied.error());
    const auto heads = journal::read_heads(*copied->view, copied->meta);
    if (!heads) return std::unexpected(heads.error());
    for (const journal::ChainHead& head : *heads) records_ += head.sequence;
    tell("publishing", 0, records_);
    const journal::RowReader reader(*copied->view);
    const auto ends = read_ends(topic_, reader);
    if (!ends) return std::unexpected(ends.error());
    if (auto sent = publish(topic_, reader, *ends,
                            [this](std::uint64_t done) { tell("publishing", done, records_); });
        !sent)
      return sent;
    SG_CRASH_POINT("migrate.published");
    return {};
  }

  /// The topic alone must have every record, and the same states must come of the journal and of its copy.
  base::Status compare() {
    tell("comparing");
    auto copied = open_copy(whole_copy(folder_), false);
    if (!copied) return std::unexpected(copied.error());
    const auto heads = journal::read_heads(*copied->view, copied->meta);
    if (!heads) return std::unexpected(heads.error());
    const auto ends = read_ends(topic_, journal::RowReader(*copied->view));
    if (!ends) return std::unexpected(ends.error());
    std::vector<view::ViewChange> positions;
    for (core::PartitionId partition = 0; partition < meta_.partitions; ++partition) {
      const TopicEnd& end = ends->at(partition);
      if (end.head != heads->at(partition)) {
        return base::fail(Code::chain_broken,
                          "partition " + std::to_string(partition) + " of the topic ends at record " +
                              std::to_string(end.head.sequence) + ", and the journal at " +
                              std::to_string(heads->at(partition).sequence) +
                              ". The journal is as it was: --continue tries again, --back gives it up");
      }
      positions.push_back(
          {view::applied_key(partition),
           kafka::encode_position(
               {.offset = end.offset, .published = end.head.sequence, .published_from = end.offset})});
    }
    const auto source = read_journal(folder_);
    if (!source) return std::unexpected(source.error());
    if (auto same = compare_states(*source->view, *copied->view, "the journal"); !same) return same;
    if (auto written = copied->write(positions); !written) return written;
    return copied->database->flush();
  }

  journal::Move move_;
  std::uint64_t records_ = 0;
};

}  // namespace

base::Result<Report> move_to_topic(const Options& options) {
  return ToTopic(options).run();
}

base::Result<Report> stay_in_folder(const Options& options) {
  if (auto removed = remove_copies(options.folder); !removed) return std::unexpected(removed.error());
  SG_CRASH_POINT("migrate.copies_removed");
  auto store = write_journal(options.folder);
  if (!store) return std::unexpected(store.error());
  const auto away = journal::read_move_away(*store->view, store->meta);
  if (!away) return std::unexpected(away.error());
  if (!*away) return base::fail(Code::usage, "no move was begun");
  std::vector<view::ViewChange> rows;
  for (core::PartitionId partition = 0; partition < store->meta.partitions; ++partition) {
    auto some =
        journal::owners_record_rows(*store->view, store->meta, partition, {}, base::SystemClock().wall_ms());
    if (!some) return std::unexpected(some.error());
    rows.insert(rows.end(), std::make_move_iterator(some->begin()), std::make_move_iterator(some->end()));
  }
  if (auto written = store->write(rows); !written) return std::unexpected(written.error());
  SG_CRASH_POINT("migrate.reopened");
  return Report{.from = (*away)->from, .to = (*away)->new_id(), .place = (*away)->place};
}

}  // namespace sandglass::engine::server::migrate
