#include "engine/journal/kafka/journal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"

namespace sandglass::engine::journal::kafka {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kSayWaitingNs = 10'000 * kNsPerMs;
constexpr int kLongestSleepMs = 1'000;
constexpr std::size_t kIdBytes = 16;
constexpr std::string_view kIdPrefix = "kafka-";

std::string draw_nonce(base::Random& random) {
  std::array<std::uint8_t, kIdBytes> bytes{};
  random.fill(bytes);
  return base::to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// A view may have been made with a key that its topic's owners do not have: it takes over nothing, and what
/// it has of the topic is right. Once the folder has theirs it is that one's.
base::Status keep_key_check(ViewStore& store, JournalMeta& meta, const KafkaJournalOptions& options) {
  if (meta.key_check == options.meta.key_check || options.self.key.empty()) return {};
  for (core::PartitionId partition = 0; partition < meta.partitions; ++partition) {
    const auto moves = read_moves(store.view, meta, partition);
    if (!moves) return std::unexpected(moves.error());
    if (!moves->newest) continue;
    if (!moves->owner || moves->owner->key != options.self.key) return {};
  }
  meta.key_check = options.meta.key_check;
  const std::vector<view::ViewChange> rows = meta_rows(meta);
  return store.write({&rows, 1});
}

}  // namespace

std::string journal_id_of(const std::string& cluster, const std::string& topic) {
  base::Sha256 hash;
  hash.update("sandglass kafka journal 1").update_u64(cluster.size()).update(cluster).update(topic);
  return std::string(kIdPrefix) + base::to_hex(hash.finish().view().substr(0, kIdBytes));
}

bool is_kafka_journal(std::string_view journal_id) {
  return journal_id.starts_with(kIdPrefix);
}

/// A partition on the worker.
struct KafkaJournal::Part {
  Part(AppliedView opened, const Projection& projection, std::vector<SkippedMessage> skips)
      : view(std::move(opened)), catch_up(view, projection, std::move(skips)) {}

  AppliedView view;
  CatchUp catch_up;
  std::unique_ptr<Broker> broker;
  std::optional<Takeover> takeover;
  std::optional<Owner> owner;
  bool stands_by = false;
  std::optional<base::Error> error;  // it does nothing any more
  bool told_of = false;              // the takeover's end
  std::uint64_t ownership = 0;
  JournalCounters counted;
  base::MonotonicNs said_ns = 0;
};

base::Result<std::unique_ptr<KafkaJournal>> KafkaJournal::open(ViewStore store, const base::Clock& clock,
                                                               base::Random& random,
                                                               KafkaJournalOptions options) {
  auto meta = read_meta(store.view);
  if (!meta && meta.error().code == base::Code::not_found) {
    const std::vector<view::ViewChange> rows = meta_rows(options.meta);
    if (auto written = store.write({&rows, 1}); !written) return std::unexpected(written.error());
    meta = options.meta;
  }
  if (!meta) return std::unexpected(meta.error());
  if (auto kept = keep_key_check(store, *meta, options); !kept) return std::unexpected(kept.error());
  if (meta->journal_id != options.meta.journal_id || meta->partitions != options.meta.partitions) {
    return base::fail(
        base::Code::topic_foreign,
        "this data folder belongs to journal " + meta->journal_id + " of " +
            std::to_string(meta->partitions) + " partitions, the topic to journal " +
            options.meta.journal_id + " of " + std::to_string(options.meta.partitions) +
            ": it is another topic, or one of another cluster. Choose the folder's own topic with "
            "journal.kafka, or an empty folder with --data");
  }
  std::unique_ptr<KafkaJournal> journal(
      new KafkaJournal(std::move(store), clock, random, *meta, std::move(options)));
  if (!journal->event_)
    return base::fail(base::Code::io_error, "the kernel gives no eventfd for the Kafka journal");
  journal->worker_ = std::thread([journal = journal.get()] { journal->work(); });
  return journal;
}

KafkaJournal::KafkaJournal(ViewStore store, const base::Clock& clock, base::Random& random, JournalMeta meta,
                           KafkaJournalOptions options)
    : store_(std::move(store)),
      clock_(clock),
      random_(random),
      meta_(std::move(meta)),
      options_(std::move(options)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

KafkaJournal::~KafkaJournal() {
  if (!worker_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  worker_.join();
}

// ---- the calling thread

void KafkaJournal::begin_owning(core::PartitionId partition) {
  if (partition >= meta_.partitions || std::exchange(begun_[partition], true)) return;
  owned_.erase(partition);
  {
    const std::lock_guard lock(mutex_);
    results_[partition].decided = false;
    orders_.emplace_back(partition, Order::own);
  }
  wake();
}

base::Result<Ownership> KafkaJournal::own(core::PartitionId partition) {
  if (partition >= meta_.partitions) {
    return base::fail(
        base::Code::invalid_argument,
        "partition " + std::to_string(partition) + " of a journal with " + std::to_string(meta_.partitions));
  }
  begin_owning(partition);
  static_cast<void>(wait_owned(partition));
  begun_[partition] = false;
  const std::lock_guard lock(mutex_);
  const Result& result = results_[partition];
  if (result.owned) owned_.insert_or_assign(partition, SequenceGuard(*result.owned));
  return result.owned;
}

base::Status KafkaJournal::wait_owned(core::PartitionId partition) {
  std::unique_lock lock(mutex_);
  const Result& result = results_[partition];
  decided_.wait(lock, [&] { return result.decided; });
  return result.owned ? base::Status() : std::unexpected(result.owned.error());
}

void KafkaJournal::stand_by(core::PartitionId partition) {
  {
    const std::lock_guard lock(mutex_);
    orders_.emplace_back(partition, Order::stand_by);
  }
  wake();
}

KafkaJournal::Standing KafkaJournal::standing(core::PartitionId partition) const {
  const std::lock_guard lock(mutex_);
  const auto found = results_.find(partition);
  if (found == results_.end()) return {};
  return {.head = found->second.head, .error = found->second.error};
}

Takeover::Times KafkaJournal::takeover_times(core::PartitionId partition) const {
  const std::lock_guard lock(mutex_);
  const auto found = results_.find(partition);
  return found == results_.end() ? Takeover::Times{} : found->second.times;
}

Ticket KafkaJournal::submit(Batch batch) {
  const auto owned = owned_.find(batch.partition);
  SG_CHECK(owned != owned_.end(), "a batch of a partition that is not owned");
  const Ticket ticket = ++last_ticket_;
  {
    const std::lock_guard lock(mutex_);
    const Result& result = results_[batch.partition];
    if (!result.error) owned->second.check(batch);
    waiting_.push_back({.ticket = ticket, .ownership = result.ownership, .batch = std::move(batch)});
  }
  wake();
  return ticket;
}

void KafkaJournal::poll(std::vector<Completed>& completed) {
  const std::lock_guard lock(mutex_);
  std::ranges::move(completed_, std::back_inserter(completed));
  completed_.clear();
}

JournalCounters KafkaJournal::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// ---- the worker

void KafkaJournal::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(::write(event_.get(), &one, sizeof one));
}

Takeover::Now KafkaJournal::now() const {
  return {.monotonic_ns = clock_.monotonic_ns(), .wall_ms = clock_.wall_ms()};
}

void KafkaJournal::sleep() const {
  const base::MonotonicNs at = clock_.monotonic_ns();
  std::int64_t longest = kLongestSleepMs;
  for (const auto& [id, part] : parts_) {
    const auto due = part->owner ? part->owner->due_ns() : std::nullopt;
    if (due) longest = std::min(longest, std::max<std::int64_t>(0, (*due - at) / kNsPerMs + 1));
  }
  pollfd wanted{.fd = event_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, static_cast<int>(longest)) > 0) {
    std::uint64_t count = 0;
    static_cast<void>(::read(event_.get(), &count, sizeof count));
  }
}

void KafkaJournal::work() {
  while (true) {
    sleep();
    if (!step_all()) break;
  }
  finish_all();
  parts_.clear();
}

/// False: the object is at its end.
bool KafkaJournal::step_all() {
  std::vector<std::pair<core::PartitionId, Order>> orders;
  std::vector<Waiting> waiting;
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
    waiting.swap(waiting_);
    stopping = stopping_;
  }
  for (const auto& [partition, order] : orders) obey(partition, order);
  for (Waiting& each : waiting) {
    const auto found = parts_.find(each.batch.partition);
    if (found != parts_.end() && found->second->owner && !found->second->error &&
        found->second->ownership == each.ownership) {
      found->second->owner->submit(each.ticket, std::move(each.batch));
    } else {
      // What came after the end was never with the brokers.
      const bool fenced = found != parts_.end() && found->second->ownership == each.ownership &&
                          found->second->error && found->second->error->code == base::Code::journal_fenced;
      told_.push_back(
          {.ticket = each.ticket,
           .partition = each.batch.partition,
           .completion = fenced ? Completion::fenced : Completion::unknown,
           .message = fenced ? found->second->error->message : "the ownership of the partition has ended"});
    }
  }
  for (auto& [id, part] : parts_) step(*part);
  if (told_.empty()) return !stopping;
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(told_, std::back_inserter(completed_));
  }
  told_.clear();
  if (options_.on_completion) options_.on_completion();
  return !stopping;
}

void KafkaJournal::close_part(core::PartitionId partition) {
  const auto found = parts_.find(partition);
  if (found == parts_.end()) return;
  if (found->second->owner) found->second->owner->give_up(told_);
  parts_.erase(found);
}

void KafkaJournal::obey(core::PartitionId partition, Order order) {
  const auto found = parts_.find(partition);
  const bool goes_on = found != parts_.end() && found->second->stands_by && !found->second->error;
  if (goes_on && order == Order::stand_by) return;
  if (!goes_on) {
    close_part(partition);
    auto view = AppliedView::open(store_, meta_, partition);
    auto broker = view ? options_.brokers(partition, event_.get())
                       : base::Result<std::unique_ptr<Broker>>(std::unexpected(view.error()));
    if (!broker) {
      const std::lock_guard lock(mutex_);
      Result& result = results_[partition];
      result.error = broker.error();
      result.owned = std::unexpected(broker.error());
      result.decided = true;
      decided_.notify_all();
      return;
    }
    std::vector<SkippedMessage> skips;
    for (const Skip& skip : options_.skips) {
      if (skip.partition == partition) skips.push_back(skip.message);
    }
    auto made = std::make_unique<Part>(std::move(*view), options_.projection, std::move(skips));
    made->broker = std::move(*broker);
    parts_[partition] = std::move(made);
  }
  Part& part = *parts_.at(partition);
  {
    const std::lock_guard lock(mutex_);
    Result& result = results_[partition];
    result.error.reset();
    if (order == Order::own) part.ownership = ++result.ownership;
  }
  if (order == Order::own) return begin_takeover(part);
  part.stands_by = true;
  part.catch_up.begin(part.view.position().offset < 0);
  part.broker->read(Reading::everything,
                    part.view.position().offset < 0 ? Broker::kLogStart : part.view.position().offset, 0);
}

void KafkaJournal::begin_takeover(Part& part) {
  part.stands_by = false;
  part.broker->stop(Reading::everything);
  part.said_ns = clock_.monotonic_ns();
  part.takeover.emplace(*part.broker, part.view, part.catch_up,
                        TakeoverOptions{.nonce = draw_nonce(random_),
                                        .published_deadline_ms = options_.published_deadline_ms,
                                        .republish_from_view = options_.republish_from_view,
                                        .reopen = options_.reopen,
                                        .self = options_.self});
  part.takeover->start(now());
}

void KafkaJournal::step(Part& part) {
  if (part.error) return;
  events_.clear();
  part.broker->poll(events_);
  const Takeover::Now at = now();
  for (BrokerEvent& event : events_) {
    if (part.owner) {
      part.owner->take(event, at.monotonic_ns);
    } else if (part.takeover) {
      part.takeover->take(event, at);
      if (part.takeover->owned() && !part.owner)
        part.owner.emplace(*part.broker, part.view, part.catch_up.rule(), options_.owner);
    } else if (event.what == BrokerEvent::What::message) {
      if (auto status = part.catch_up.take(std::move(event.message)); !status) part.error = status.error();
    } else if (event.what != BrokerEvent::What::delivered) {
      part.error = base::Error{base::Code::unavailable, "the topic cannot be followed: " + event.why};
    }
    if (part.error) break;
  }
  if (part.owner) {
    part.owner->step(at.monotonic_ns, told_);
    part.error = part.owner->over();
  } else if (part.takeover) {
    part.takeover->step(at);
    if (part.takeover->error()) part.error = part.takeover->error();
    if (!part.error && at.monotonic_ns - part.said_ns > kSayWaitingNs) {
      part.said_ns = at.monotonic_ns;
      base::log(base::LogLevel::warning, "kafka_takeover_waits",
                {{"partition", part.view.partition()}, {"waits", part.takeover->stage()}});
    }
  } else if (!part.error) {
    if (auto status = part.catch_up.flush(); !status) part.error = status.error();
  }
  decide(part);
  if (part.error) part.broker.reset();  // purges; what it had under way is unknown
}

/// Tells the calling thread how the partition stands.
void KafkaJournal::decide(Part& part) {
  const std::lock_guard lock(mutex_);
  Result& result = results_[part.view.partition()];
  result.head = part.catch_up.rule().head();
  result.error = part.error;
  if (part.owner) {
    const JournalCounters& all = part.owner->counters();
    counters_.batches += all.batches - part.counted.batches;
    counters_.syncs += all.syncs - part.counted.syncs;
    counters_.records += all.records - part.counted.records;
    counters_.puts += all.puts - part.counted.puts;
    counters_.bytes += all.bytes - part.counted.bytes;
    part.counted = all;
  }
  if (part.told_of || !part.takeover || (!part.owner && !part.error)) return;
  part.told_of = true;
  result.times = part.takeover->times();
  if (part.owner) {
    result.owned = Ownership{
        .epoch = result.head.epoch, .last_sequence = result.head.sequence, .chain = result.head.chain};
  } else {
    result.owned = std::unexpected(*part.error);
  }
  result.decided = true;
  decided_.notify_all();
}

void KafkaJournal::finish_all() {
  const base::MonotonicNs until = clock_.monotonic_ns() + options_.close_ms * kNsPerMs;
  for (auto& [id, part] : parts_) {
    if (part->owner) part->owner->finish();
  }
  const auto finished = [&] {
    return std::ranges::all_of(parts_, [](const auto& each) {
      const auto& part = each.second;
      return part->error || !part->owner || part->owner->finished();
    });
  };
  while (!finished() && clock_.monotonic_ns() < until) {
    step_all();
    if (!finished()) sleep();
  }
}

}  // namespace sandglass::engine::journal::kafka
