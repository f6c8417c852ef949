#include "engine/journal/kafka/publisher/publisher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/log.h"
#include "engine/journal/kafka/cluster/topics.h"
#include "engine/journal/kafka/publisher/continuity.h"
#include "engine/journal/kafka/publisher/session.h"

namespace sandglass::engine::journal::kafka::publisher {

namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

/// For an answer of the brokers, before the next attempt waits longer: soon known to be away, or slow.
constexpr std::int64_t first_check_ms = 5'000;
constexpr std::int64_t longest_check_ms = 60'000;
constexpr milliseconds first_rest{500};
constexpr milliseconds longest_rest{15'000};
constexpr milliseconds save_every{5'000};
constexpr milliseconds look_every{1'000};  // at what became of what is under way
constexpr milliseconds longest_sleep{60'000};
/// While much is written, what is new is looked for no more often than this: runs need the processors.
constexpr milliseconds shortest_round{20};

}  // namespace

Publisher::Publisher(PublisherOptions options, const Reader& reader, base::Wakeup& news)
    : options_(std::move(options)), reader_(reader), news_(news), thread_([this] { run(); }) {}

Publisher::~Publisher() {
  stop_.request_stop();
  news_.signal();
  thread_.join();
}

PublisherStatus Publisher::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Publisher::run() {
  milliseconds wait = first_rest;
  std::int64_t check_ms = first_check_ms;
  while (!stop_.stop_requested()) {
    const std::uint64_t before = status().published;
    auto ended = published_ ? base::Status() : load();
    if (ended) ended = session(check_ms);
    PublisherStatus status{.published = published_ ? published_->records() : 0};
    if (!ended && !stop_.stop_requested()) status.trouble = ended.error();
    report(std::move(status));
    save();
    const bool moved = published_ && published_->records() != before;
    if (moved) wait = first_rest;
    check_ms = moved ? first_check_ms : std::min(check_ms * 2, longest_check_ms);
    const auto until = Steady::now() + wait;
    while (!stop_.stop_requested() && Steady::now() < until) {
      news_.sleep(std::chrono::duration_cast<milliseconds>(until - Steady::now()) + milliseconds(1));
    }
    wait = std::min(wait * 2, longest_rest);
  }
}

/// Errors: those of the reader; record_damaged; topic_foreign when the file is of another journal.
base::Status Publisher::load() {
  const auto journal = reader_.journal_id();
  if (!journal) return std::unexpected(journal.error());
  const auto partitions = reader_.partitions();
  if (!partitions) return std::unexpected(partitions.error());
  auto loaded = load_published(options_.file);
  if (!loaded) return std::unexpected(loaded.error());
  if (*loaded && ((*loaded)->journal != *journal || (*loaded)->heads.size() != *partitions)) {
    return base::fail(base::Code::topic_foreign, options_.file + " is of journal " + (*loaded)->journal +
                                                     "; this one is " + *journal +
                                                     ". Remove the file to publish it whole");
  }
  // Another topic has nothing of it yet.
  if (*loaded && (*loaded)->topic == options_.topic) {
    published_ = std::move(**loaded);
  } else {
    published_ = Published{.journal = *journal, .topic = options_.topic};
    published_->heads.resize(*partitions);
  }
  return {};
}

base::Status Publisher::session(std::int64_t check_ms) {
  const cluster::TopicRules rules{.topic = options_.topic,
                                  .partitions = static_cast<std::int32_t>(published_->heads.size()),
                                  .cluster = published_->cluster};
  // A topic that is gone is not made again under readers that know its beginning.
  const auto checked = published_->records() != 0
                           ? cluster::check_topic(options_.brokers, rules, check_ms, stop_.get_token())
                           : cluster::make_topic(options_.brokers, rules, check_ms, stop_.get_token());
  if (!checked) return std::unexpected(checked.error());
  published_->cluster = checked->cluster;
  if (auto status = check_heads(reader_, *published_); !status) return status;
  if (auto status = check_topic_end(options_.brokers, reader_, *published_, stop_.get_token()); !status)
    return status;
  auto session = Session::begin(options_.brokers, reader_, *published_, news_);
  if (!session) return std::unexpected(session.error());
  Steady::time_point saved = Steady::now();
  while (!stop_.stop_requested()) {
    const Steady::time_point round = Steady::now();
    if (auto status = (*session)->poll(); !status) return status;
    report({.caught_up = (*session)->caught_up(),
            .published = published_->records(),
            .waiting = (*session)->in_flight(),
            .trouble = (*session)->trouble()});
    if (Steady::now() - saved >= save_every) {
      save();
      saved = Steady::now();
    }
    news_.sleep((*session)->in_flight() != 0 ? look_every
                : *published_ != saved_      ? save_every
                                             : longest_sleep);
    if (!stop_.stop_requested()) std::this_thread::sleep_until(round + shortest_round);
  }
  return {};
}

void Publisher::report(PublisherStatus status) {
  tell(status);
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
}

/// A line for each kind of trouble, however often it is met, and one when it is over.
void Publisher::tell(const PublisherStatus& status) {
  if (status.trouble) {
    if (told_.empty()) published_when_told_ = status.published;
    if (!told_.insert(status.trouble->code).second) return;
    base::log(base::LogLevel::warning, "publish_stopped",
              {{"code", static_cast<unsigned>(status.trouble->code)},
               {"why", status.trouble->message},
               {"then", "runs go on; it is tried again"}});
  } else if (!told_.empty() && (status.caught_up || status.published > published_when_told_)) {
    told_.clear();
    base::log(base::LogLevel::info, "publish_goes_on", {{"published", status.published}});
  }
}

void Publisher::save() {
  if (!published_ || published_->cluster.empty() || *published_ == saved_) return;
  if (const auto saved = save_published(options_.file, *published_); !saved) {
    if (!save_failed_)
      base::log(base::LogLevel::warning, "published_not_saved", {{"why", saved.error().message}});
    save_failed_ = true;
    return;
  }
  save_failed_ = false;
  saved_ = *published_;
}

}  // namespace sandglass::engine::journal::kafka::publisher
