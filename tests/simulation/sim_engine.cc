#include "tests/simulation/sim_engine.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/journal/rows/rows.h"
#include "engine/view/keys.h"

namespace sandglass::tests::simulation {
namespace {

constexpr base::MonotonicNs kTick = 100'000;

}  // namespace

SimEngine::SimEngine(const SimOptions& options, support::SeededRandom& random,
                     const engine::fold::Registry& kinds, Workload workload, SimResult& result)
    : options_(options),
      random_(random),
      clock_random_(options.seed * 6700417 + 1),
      kinds_(kinds),
      workload_(std::move(workload)),
      result_(result),
      disk_(random) {}

SimEngine::~SimEngine() {
  end();
}

/// One row of three of this kind is not found.
bool SimEngine::misses(view::Index index, const view::Row& row) {
  const auto key = view::parse_index_key(row.key);
  return key && key->index == index && random_.next() % 3 == 0;
}

bool SimEngine::misses(view::StreamRow kind, const view::Row& row) {
  const auto key = view::parse_stream_key(row.key);
  return key && key->kind == kind && random_.next() % 3 == 0;
}

void SimEngine::plant_in_journal(journal::Journal*& used) {
  const auto meddle = [&](auto change) {
    planted_journal_ = std::make_unique<MeddlingJournal>(*journal_, change);
  };
  switch (options_.plant) {
    case Plant::reply_before_sync:
      planted_journal_ = std::make_unique<LyingJournal>(*journal_);
      break;
    case Plant::effect_before_intent:
      meddle([this](const journal::Batch& batch) { workload_.peek(batch); });
      break;
    case Plant::row_not_written:
      meddle([this](journal::Batch& batch) {
        if (!batch.view_changes.empty() && random_.next() % 20 == 0) batch.view_changes.pop_back();
      });
      break;
    case Plant::record_altered:
      meddle([this](journal::Batch& batch) {
        for (auto& ordered : batch.records) {
          if (!ordered.record.slots.empty() && random_.next() % 20 == 0) ordered.record.slots.pop_back();
        }
      });
      break;
    default:
      return;
  }
  used = planted_journal_.get();
}

void SimEngine::plant_in_view(view::View*& used) {
  const auto meddle = [&](auto change) {
    planted_view_ = std::make_unique<MeddlingView>(*view_, change);
    used = planted_view_.get();
  };
  switch (options_.plant) {
    case Plant::timer_lost:
      return meddle([this](const view::Row& row) { return !misses(view::Index::due, row); });
    case Plant::timer_early:
      return meddle([](view::Row& row) {
        constexpr std::int64_t kEarlyMs = 40;
        const auto key = view::parse_index_key(row.key);
        if (key && key->index == view::Index::due) {
          row.key = view::due_key(key->partition, view::from_sortable(key->sort) - kEarlyMs, {0, key->stream},
                                  key->suffix);
        }
        return true;
      });
    case Plant::message_lost:
      return meddle([this](const view::Row& row) { return !misses(view::Index::undelivered, row); });
    case Plant::run_forgotten:
      return meddle([this](const view::Row& row) { return !misses(view::Index::in_flight, row); });
    case Plant::message_taken_twice:
      return meddle([this](const view::Row& row) { return !misses(view::StreamRow::inbox, row); });
    case Plant::call_applied_twice:
      return meddle([this](const view::Row& row) { return !misses(view::StreamRow::request, row); });
    default:
      return;
  }
}

void SimEngine::start() {
  // An engine that starts takes the machine's clock as it is: ahead of the former engine's, it would rightly
  // miss deadlines.
  if (steady_) {
    const base::WallMs right_ms = clock_.wall_ms() - clock_.off_ms;
    clock_.off_ms = std::min(clock_.off_ms, steady_->wall_ms() - right_ms);
  }
  journal::MemoryJournalOptions journal_options{
      .meta = {.journal_id = "simulation", .partitions = kPartitions}};
  if (options_.crashes) journal_options.unknown_per_mille = 1;
  if (!options_.disorder) journal_options.sync_per_mille = journal_options.report_per_mille = 1000;
  journal_ = std::make_unique<journal::MemoryJournal>(disk_, random_, journal_options);
  view_ = std::make_unique<view::MemoryView>(disk_, random_, options_.disorder ? 3 : 0);
  if (options_.plant == Plant::clock_not_steadied) {
    steady_ = std::make_unique<SimClock::Raw>(clock_);
  } else {
    auto steady = std::make_unique<base::SteadyClock>(clock_);
    if (const auto newest = journal::newest_record_ms(*view_, journal_options.meta))
      steady->not_before(*newest);
    steady_ = std::move(steady);
  }
  journal::Journal* used_journal = journal_.get();
  view::View* used_view = view_.get();
  plant_in_journal(used_journal);
  plant_in_view(used_view);
  reads_ = std::make_unique<shard::ViewReads>(*used_view);
  registry_ = std::make_unique<core::ActivityRegistry>();
  workload_.add_activities(*registry_);
  dispatcher_ = std::make_unique<engine::dispatch::LocalDispatcher>(engine::dispatch::DispatchPorts{
      *registry_,
      workload_.operations(),
      *reads_,
      *steady_,
      [](const core::StreamId& stream) { return core::DigestKey("tenant key", stream.text()); },
      {}});
  activator_ = workload_.make_activator(options_.disorder);

  shard::ShardConfig config{.partitions = kPartitions};
  config.evict_always = options_.evict_always;
  config.timer_horizon_ms = 60;
  config.max_timers = 3;
  config.max_resident = options_.disorder || options_.evict_always ? 2 : 100;
  config.max_live = 2;
  if (!options_.disorder) config.activation_wait_us = 1'000'000'000;  // late output depends on reading times
  auto opened =
      shard::ShardSet::open(config, {kinds_, *used_view, *reads_, *used_journal, *activator_, *dispatcher_});
  SG_CHECK(opened, opened.error().message);
  set_ = std::move(*opened);
}

void SimEngine::end() {
  if (set_) {
    result_.records += set_->counters().records;
    result_.rebuilds += set_->counters().rebuilds;
    result_.late += set_->counters().late;
  }
  set_.reset();
  dispatcher_.reset();
  activator_.reset();
  registry_.reset();
  reads_.reset();
  planted_view_.reset();
  view_.reset();
  planted_journal_.reset();
  journal_.reset();
  ++process_;
}

void SimEngine::crash() {
  ++result_.crashes;
  end();
  disk_.crash();
  start();
}

void SimEngine::play(const SimResult& result, const Play& play) {
  constexpr std::uint64_t kTwoHoursMs = 7'200'000;
  start();
  const std::uint64_t calm_after = options_.crashes ? play.calm_least + random_.next() % play.calm_spread : 0;
  while ((result.polls % 16 != 0 || !play.done()) && result.polls < play.max_polls &&
         result.violations.empty()) {
    const bool calm = result.polls >= calm_after;
    if (!calm && random_.next() % play.crash_every == 0) {
      play.process_ended();
      crash();
    }
    if (!calm && options_.disorder && options_.clock_steps && clock_random_.next() % play.crash_every == 0) {
      const auto off = static_cast<base::WallMs>(clock_random_.next() % (2 * kTwoHoursMs));
      set_wall_clock(off - static_cast<base::WallMs>(kTwoHoursMs));
    }
    play.talk();
    if (step()) play.process_ended();
    play.polled();
  }
}

bool SimEngine::step() {
  ++result_.polls;
  const shard::Now now{steady_->wall_ms(), clock_.monotonic_ns(), steady_->calendar_ms()};
  const bool worked = set_->poll(now);
  workload_.poll_outside();
  if (set_->lost()) {
    if (!options_.crashes) result_.violations.push_back("lost without a reason: " + set_->lost()->message);
    crash();
    return true;
  }
  // Time passes while something is under way; else it leaps to what comes next.
  if (options_.disorder) clock_.ns += kTick;
  if (!worked && journal_->waiting() == 0 && view_->waiting() == 0) {
    const std::int64_t wall_ms = steady_->wall_ms();
    const std::int64_t wake_ms = set_->next_wake_ms({wall_ms, clock_.monotonic_ns(), steady_->calendar_ms()});
    const std::int64_t wake_ns = clock_.ns + (wake_ms - wall_ms) * 1'000'000 - clock_.ns % 1'000'000;
    clock_.ns = std::max(clock_.ns, std::min(wake_ns, workload_.next_outside_ns()));
  }
  return false;
}

}  // namespace sandglass::tests::simulation
