#include "engine/server/migrate/steps.h"

#include <utility>

#include "engine/base/crash_point.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "engine/server/compose/belongings.h"
#include "engine/server/migrate/place.h"

namespace sandglass::engine::server::migrate {
namespace {

namespace cluster = journal::kafka::cluster;

constexpr std::int64_t kTopicTimeoutMs = 30'000;

}  // namespace

void Steps::tell(std::string stage, std::uint64_t done, std::uint64_t of) const {
  if (options_.tell) options_.tell({std::move(stage), done, of});
}

base::Result<Store> Steps::read_own_journal() {
  auto journal = read_journal(folder_);
  if (!journal) return journal;
  meta_ = journal->meta;
  const auto key = folder_.tenant_key();
  if (!key) return std::unexpected(key.error());
  if (auto ours = compose::check_belongings(meta_, folder_, *key); !ours)
    return std::unexpected(ours.error());
  return journal;
}

base::Status Steps::find_topic(bool may_make) {
  const KafkaSettings& wanted = options_.config.kafka;
  auto settings = cluster::read_settings(wanted.bootstrap, wanted.client, wanted.client_file);
  if (!settings) return std::unexpected(settings.error());
  const cluster::TopicRules topic{.topic = wanted.topic, .partitions = meta_.partitions};
  const auto found = may_make ? cluster::make_topic(*settings, topic, kTopicTimeoutMs)
                              : cluster::check_topic(*settings, topic, kTopicTimeoutMs);
  if (!found) return std::unexpected(found.error());
  topic_ = {.brokers = std::move(*settings), .name = wanted.topic, .cluster = found->cluster};
  return {};
}

base::Status Steps::copy(bool embedded) {
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
  if (auto made = copy_as(as, *source->view, unfinished_copy(folder_), embedded); !made) return made;
  return finish_copy(folder_);
}

base::Status Steps::compare_states(const view::View& before, const view::View& after,
                                   const std::string& what) {
  const auto folded = fold_all(before);
  if (!folded) return std::unexpected(folded.error());
  const auto again = fold_all(after);
  if (!again) return std::unexpected(again.error());
  report_.records = again->records;
  report_.streams = again->streams;
  report_.states_before = folded->states;
  report_.states_after = again->states;
  if (folded->states == again->states && folded->records == again->records) {
    SG_CRASH_POINT("migrate.compared");
    return {};
  }
  return base::fail(base::Code::chain_broken, what + "'s records fold to state hash " + folded->states.hex() +
                                                  ", those of their copy to " + again->states.hex() +
                                                  ": the copy is not taken, and " + what +
                                                  " is as it was. Give the move up with --back");
}

}  // namespace sandglass::engine::server::migrate
