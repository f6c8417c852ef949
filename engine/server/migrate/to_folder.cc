#include "engine/server/migrate/to_folder.h"

#include <utility>

#include "engine/base/crash_point.h"
#include "engine/journal/kafka/journal.h"
#include "engine/journal/rows/move.h"
#include "engine/server/migrate/owning.h"
#include "engine/server/migrate/place.h"
#include "engine/server/migrate/steps.h"

namespace sandglass::engine::server::migrate {
namespace {

namespace kafka = journal::kafka;
using base::Code;

class ToFolder : Steps {
 public:
  explicit ToFolder(const Options& options) : Steps(options) {}

  base::Result<Report> move() {
    if (auto done = check(); !done) return std::unexpected(done.error());
    if (auto done = close(); !done) return std::unexpected(done.error());
    if (auto done = copy(true); !done) return std::unexpected(done.error());
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
  base::Status check() {
    tell("checking the journal and the topic");
    if (auto source = read_own_journal(); !source) return std::unexpected(source.error());
    if (auto topic = find_topic(false); !topic) return topic;
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
    return compare_states(*source->view, *copied->view, "the topic");
  }
};

}  // namespace

base::Result<Report> move_to_folder(const Options& options) {
  return ToFolder(options).move();
}

base::Result<Report> stay_on_topic(const Options& options) {
  return ToFolder(options).stay();
}

}  // namespace sandglass::engine::server::migrate
