#include "engine/server/migrate/to_folder.h"

#include <utility>

#include "engine/base/crash_point.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "engine/journal/kafka/journal.h"
#include "engine/journal/rows/move.h"
#include "engine/server/compose/belongings.h"
#include "engine/server/migrate/owning.h"
#include "engine/server/migrate/place.h"
#include "engine/server/migrate/store.h"
#include "engine/server/migrate/topic.h"

namespace sandglass::engine::server::migrate {
namespace {

namespace kafka = journal::kafka;
using base::Code;

constexpr std::int64_t kTopicTimeoutMs = 30'000;

class ToFolder {
 public:
  explicit ToFolder(const Options& options) : options_(options), folder_(options.folder) {}

  base::Result<Report> move() {
    if (auto done = check(); !done) return std::unexpected(done.error());
    if (auto done = close(); !done) return std::unexpected(done.error());
    if (auto done = copy(); !done) return std::unexpected(done.error());
    if (auto done = compare(); !done) return std::unexpected(done.error());
    auto kept = put_in_place(folder_, std::nullopt);
    if (!kept) return std::unexpected(kept.error());
    report_.kept = std::move(*kept);
    report_.moved = true;
    return std::move(report_);
  }

  base::Result<Report> stay() {
    if (auto done = check(); !done) return std::unexpected(done.error());
    tell("taking over the topic");
    auto closed = look_at_topic(folder_, options_.config);
    if (!closed) return std::unexpected(closed.error());
    if (!closed->move) return base::fail(Code::usage, "no move was begun");
    if (auto removed = remove_copies(folder_); !removed) return std::unexpected(removed.error());
    SG_CRASH_POINT("migrate.copies_removed");
    if (auto opened = reopen_topic(folder_, options_.config); !opened) return std::unexpected(opened.error());
    SG_CRASH_POINT("migrate.reopened");
    return Report{.from = closed->move->from, .to = closed->move->new_id(), .place = closed->move->place};
  }

 private:
  void tell(std::string stage) const {
    if (options_.tell) options_.tell({.stage = std::move(stage)});
  }

  base::Status check() {
    tell("checking the journal and the topic");
    auto source = read_journal(folder_);
    if (!source) return std::unexpected(source.error());
    meta_ = source->meta;
    const auto key = folder_.tenant_key();
    if (!key) return std::unexpected(key.error());
    if (auto ours = compose::check_belongings(meta_, folder_, *key); !ours) return ours;
    const KafkaSettings& wanted = options_.config.kafka;
    auto settings = kafka::cluster::read_settings(wanted.bootstrap, wanted.client, wanted.client_file);
    if (!settings) return std::unexpected(settings.error());
    const auto topic = kafka::cluster::check_topic(
        *settings, {.topic = wanted.topic, .partitions = meta_.partitions}, kTopicTimeoutMs);
    if (!topic) return std::unexpected(topic.error());
    topic_ = {.brokers = std::move(*settings), .name = wanted.topic, .cluster = topic->cluster};
    const std::string id = kafka::journal_id_of(topic_.cluster, topic_.name);
    if (meta_.journal_id == id || journal::is_moved_to(meta_.journal_id, id)) return check_room(folder_);
    return base::fail(Code::topic_foreign, "the folder's journal is " + meta_.journal_id +
                                               ", and that of topic " + topic_.name + " of cluster " +
                                               topic_.cluster + " is " + id +
                                               ": name the folder's own topic with kafka.topic");
  }

  base::Status close() {
    tell("taking over the topic");
    auto closed = look_at_topic(folder_, options_.config);
    if (!closed) return std::unexpected(closed.error());
    if (closed->move && options_.wish == Wish::begin) {
      return base::fail(Code::usage,
                        "a move was begun and has not ended: --continue goes on with it, --back gives it up");
    }
    if (!closed->move && options_.wish == Wish::go_on)
      return base::fail(Code::usage, "no move was begun: `sandglass migrate` alone begins one");
    if (!closed->all) {
      // A part of them was closed, and the others have had an owner since.
      if (closed->move) {
        if (auto opened = reopen_topic(folder_, options_.config); !opened) return opened;
      }
      tell("closing the topic");
      auto move = close_topic(folder_, options_.config,
                              {.from = meta_.journal_id,
                               .to = std::string(journal::kMovedToFolder),
                               .place = "the embedded journal of data folder " + folder_.id(),
                               .folder = folder_.id()});
      if (!move) return std::unexpected(move.error());
      closed->move = std::move(*move);
    }
    report_.from = closed->move->from;
    report_.to = closed->move->new_id();
    report_.place = closed->move->place;
    return {};
  }

  base::Status copy() {
    if (exists(whole_copy(folder_))) {
      const auto copied = open_copy(whole_copy(folder_), true);
      if (copied && copied->meta.journal_id == report_.to) return {};
    }
    tell("copying the journal");
    if (auto removed = remove_copies(folder_); !removed) return removed;
    const auto source = read_journal(folder_);
    if (!source) return std::unexpected(source.error());
    journal::JournalMeta as = meta_;
    as.journal_id = report_.to;
    if (auto made = copy_as(as, *source->view, unfinished_copy(folder_), true); !made) return made;
    return finish_copy(folder_);
  }

  /// The topic alone must end as its view does, and the same states must come of the view and of the copy.
  base::Status compare() {
    tell("comparing");
    const auto source = read_journal(folder_);
    if (!source) return std::unexpected(source.error());
    const auto heads = journal::read_heads(*source->view, meta_);
    if (!heads) return std::unexpected(heads.error());
    if (auto same = check_published(topic_, meta_.journal_id, *heads); !same) return same;
    const auto copied = open_copy(whole_copy(folder_), true);
    if (!copied) return std::unexpected(copied.error());
    const auto before = fold_all(*source->view);
    if (!before) return std::unexpected(before.error());
    const auto after = fold_all(*copied->view);
    if (!after) return std::unexpected(after.error());
    report_.records = after->records;
    report_.streams = after->streams;
    report_.states_before = before->states;
    report_.states_after = after->states;
    if (before->states == after->states && before->records == after->records) {
      SG_CRASH_POINT("migrate.compared");
      return {};
    }
    return base::fail(
        Code::chain_broken,
        "the topic's records fold to state hash " + before->states.hex() + ", those of their copy to " +
            after->states.hex() +
            ": the copy is not taken, and the topic is as it was. Give the move up with --back");
  }

  const Options& options_;
  const base::DataFolder& folder_;
  journal::JournalMeta meta_;
  Topic topic_;
  Report report_;
};

}  // namespace

base::Result<Report> move_to_folder(const Options& options) {
  return ToFolder(options).move();
}

base::Result<Report> stay_on_topic(const Options& options) {
  return ToFolder(options).stay();
}

}  // namespace sandglass::engine::server::migrate
