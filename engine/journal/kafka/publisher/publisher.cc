#include "engine/journal/kafka/publisher/publisher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/log.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "engine/journal/kafka/publisher/session.h"

namespace sandglass::engine::journal::kafka::publisher {

namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr std::int64_t check_ms = 30'000;
constexpr milliseconds first_rest{500};
constexpr milliseconds longest_rest{15'000};
constexpr milliseconds save_every{5'000};
constexpr milliseconds look_every{1'000};  // at what became of what is under way
constexpr milliseconds longest_sleep{60'000};
/// While much is written, what is new is looked for no more often than this: runs need the processors.
constexpr milliseconds shortest_round{20};

}  // namespace

base::Result<std::unique_ptr<Publisher>> Publisher::open(PublisherOptions options, const Reader& reader) {
  const auto journal = reader.journal_id();
  if (!journal) return std::unexpected(journal.error());
  const auto partitions = reader.partitions();
  if (!partitions) return std::unexpected(partitions.error());
  auto loaded = load_published(options.file);
  if (!loaded) return std::unexpected(loaded.error());
  Published published{.journal = *journal, .topic = options.topic};
  published.heads.resize(*partitions);
  if (*loaded && ((*loaded)->journal != *journal || (*loaded)->heads.size() != *partitions)) {
    return base::fail(base::Code::topic_foreign, options.file + " is of journal " + (*loaded)->journal +
                                                     "; this one is " + *journal +
                                                     ". Remove the file to publish it whole");
  }
  // Another topic has nothing of it yet.
  if (*loaded && (*loaded)->topic == options.topic) published = std::move(**loaded);
  std::unique_ptr<Publisher> publisher(new Publisher(std::move(options), reader, std::move(published)));
  publisher->thread_ = std::thread([each = publisher.get()] { each->run(); });
  return publisher;
}

Publisher::Publisher(PublisherOptions options, const Reader& reader, Published published)
    : options_(std::move(options)), reader_(reader), published_(std::move(published)) {}

Publisher::~Publisher() {
  if (!thread_.joinable()) return;
  stop_.request_stop();
  wakeup_.signal();
  thread_.join();
}

void Publisher::wake() {
  wakeup_.signal();
}

PublisherStatus Publisher::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Publisher::run() {
  milliseconds wait = first_rest;
  while (!stop_.stop_requested()) {
    const std::uint64_t before = status().published;
    note(session());
    save();
    if (status().published != before) wait = first_rest;
    const auto until = Steady::now() + wait;
    while (!stop_.stop_requested() && Steady::now() < until) {
      wakeup_.sleep(std::chrono::duration_cast<milliseconds>(until - Steady::now()) + milliseconds(1));
    }
    wait = std::min(wait * 2, longest_rest);
  }
}

base::Status Publisher::session() {
  const cluster::TopicRules rules{.topic = options_.topic,
                                  .partitions = static_cast<std::int32_t>(published_.heads.size()),
                                  .cluster = published_.cluster};
  // A topic that is gone is not made again under readers that know its beginning.
  const auto checked = published_.anything()
                           ? cluster::check_topic(options_.brokers, rules, check_ms, stop_.get_token())
                           : cluster::make_topic(options_.brokers, rules, check_ms, stop_.get_token());
  if (!checked) return std::unexpected(checked.error());
  published_.cluster = checked->cluster;
  auto session = Session::begin(options_.brokers, reader_, published_, wakeup_);
  if (!session) return std::unexpected(session.error());
  const std::uint64_t published_before = status().published;
  Steady::time_point saved = Steady::now();
  while (!stop_.stop_requested()) {
    const Steady::time_point round = Steady::now();
    auto status = (*session)->poll();
    {
      const std::lock_guard lock(mutex_);
      status_ = {.caught_up = (*session)->caught_up(),
                 .published = published_before + (*session)->acknowledged(),
                 .waiting = (*session)->in_flight(),
                 .trouble = (*session)->trouble()};
    }
    if (!status) return status;
    if (Steady::now() - saved >= save_every) {
      save();
      saved = Steady::now();
    }
    wakeup_.sleep((*session)->in_flight() != 0 ? look_every
                  : published_ != saved_       ? save_every
                                               : longest_sleep);
    if (!stop_.stop_requested()) std::this_thread::sleep_until(round + shortest_round);
  }
  return {};
}

/// Said once, however often it comes again.
void Publisher::note(const base::Status& status) {
  std::optional<base::Error> trouble;
  if (!status && !stop_.stop_requested()) trouble = status.error();
  const std::lock_guard lock(mutex_);
  if (trouble && trouble != status_.trouble) {
    base::log(base::LogLevel::warning, "publish_stopped",
              {{"code", static_cast<unsigned>(trouble->code)}, {"why", trouble->message}});
  }
  status_.caught_up = false;
  status_.waiting = 0;
  status_.trouble = std::move(trouble);
}

void Publisher::save() {
  if (published_.cluster.empty() || published_ == saved_) return;
  if (const auto saved = save_published(options_.file, published_); !saved) {
    base::log(base::LogLevel::warning, "published_not_saved", {{"why", saved.error().message}});
    return;
  }
  saved_ = published_;
}

}  // namespace sandglass::engine::journal::kafka::publisher
