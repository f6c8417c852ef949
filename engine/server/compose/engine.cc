#include "engine/server/compose/engine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/api/engine_methods.h"
#include "engine/api/gate.h"
#include "engine/api/refusal_log.h"
#include "engine/api/rpc_server.h"
#include "engine/api/run_list.h"
#include "engine/api/schedules.h"
#include "engine/api/standby_api.h"
#include "engine/base/log.h"
#include "engine/base/steady_clock.h"
#include "engine/base/system_ports.h"
#include "engine/base/take_over.h"
#include "engine/base/text.h"
#include "engine/base/wakeup.h"
#include "engine/blob/files/store.h"
#include "engine/dispatch/local_dispatcher.h"
#include "engine/dispatch/running_scope.h"
#include "engine/journal/rows/rows.h"
#include "engine/schedule/zones/zones.h"
#include "engine/server/compose/checkpoints.h"
#include "engine/server/compose/first_start.h"
#include "engine/server/compose/kinds.h"
#include "engine/server/compose/loop.h"
#include "engine/server/compose/publishing.h"
#include "engine/server/compose/storage.h"
#include "engine/server/compose/work.h"
#include "engine/shard/view_reads.h"
#include "engine/view/keys.h"
#include "engine/workflow/threaded_activator.h"

namespace sandglass::engine::server::compose {

namespace {

using base::Code;

constexpr const char* kVersion = "0.1.0";

std::string utc_text(std::int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

void add_check(::sandglass::v1::StatusReply& status, const Check& found) {
  auto& check = *status.add_checks();
  check.set_name(found.name);
  check.set_verdict(found.verdict);
  check.set_detail(found.detail);
}

}  // namespace

/// In the order in which they begin; they end in the opposite one.
struct Engine::Parts {
  Parts(base::DataFolder data_folder, Config settings, Check apart)
      : folder(std::move(data_folder)),
        config(std::move(settings)),
        separation(std::move(apart)),
        loop(clock),
        gate({.calls_in_flight = config.limits.calls_in_flight, .streams = config.limits.follows}) {}

  const base::DataFolder folder;
  const Config config;
  const Check separation;
  base::SystemClock machine_clock;
  base::SteadyClock clock{machine_clock};
  base::SystemRandom random;
  std::int64_t started_ms = 0;
  std::int64_t recovered_ms = 0;
  std::string tenant_key;

  fold::Registry kinds;
  std::unique_ptr<blob::FileBlobStore> blobs;
  // Woken by what follows, hence before it.
  Loop loop;
  base::Wakeup durable;
  Storage storage;
  std::unique_ptr<journal::RowReader> reader;
  std::unique_ptr<Publisher> publisher;  // with publish: kafka
  std::unique_ptr<Checkpoints> checkpoints;
  std::unique_ptr<shard::ViewReads> reads;
  std::shared_ptr<workflow::SlotFile> slots;
  std::unique_ptr<base::ThreadPool> tasks;
  std::unique_ptr<dispatch::GuardedRunner> runner;  // tasks, each marked as the step that gave it
  std::unique_ptr<Work> work;
  std::unique_ptr<workflow::ThreadedActivator> activator;
  std::unique_ptr<dispatch::WorkerPool> workers;
  std::unique_ptr<dispatch::LocalDispatcher> dispatcher;
  api::Gate gate;
  std::unique_ptr<api::Backend> backend;
  std::unique_ptr<api::Methods> methods;
  std::unique_ptr<api::RefusalLog> refusals;
  std::unique_ptr<api::StandbyApi> standby;  // while another engine serves
  std::unique_ptr<api::RpcServer> server;

  /// Streams that are parked as damaged; asked by the API's threads.
  mutable std::mutex damage_mutex;
  std::map<core::StreamId, base::Error> damaged;

  std::uint64_t records_when_counted = ~0ULL;
  bool work_is_open = true;

  api::RpcOptions rpc_options() const;
  StandbyPorts standby_ports(const OpenPorts& ports);
  base::Status open_storage(const OpenPorts& ports);
  base::Result<std::unique_ptr<shard::ShardSet>> open_shards();
  void open_dispatcher();
  base::Status open_loop(base::UniqueFd effect, std::function<void(const base::Error&)> on_lost);
  base::Status open_api();
  std::optional<base::Error> damage_of(const core::StreamId& stream) const;
  void found_damaged(const core::StreamId& stream, const base::Error& damage);
  /// At most `enough` are counted: newest first, so that an open run is found without reading what is
  /// finished.
  std::uint64_t count_open_runs(std::uint64_t enough) const;
  /// One that will fire again.
  bool any_active_schedule() const;
  bool anything_in_flight() const;
  /// On the loop's thread.
  std::optional<std::string> step_place(const core::StreamId& stream, const std::string& path) const;
  void fill_status(::sandglass::v1::StatusReply& status, bool checks);
  void add_queue_checks(::sandglass::v1::StatusReply& status);
};

api::RpcOptions Engine::Parts::rpc_options() const {
  return {.socket = folder.api_socket(),
          .tcp = config.listen_tcp,
          .max_message_bytes = config.limits.request_bytes};
}

StandbyPorts Engine::Parts::standby_ports(const OpenPorts& ports) {
  return {
      .standing_by =
          [this, told = ports.standing_by](const std::string& served_by) {
            if (!standby) {
              auto started = api::StandbyApi::start(rpc_options(), loop, clock);
              if (!started) {
                base::log(base::LogLevel::warning, "standby_unheard", {{"reason", started.error().message}});
                return;
              }
              standby = std::move(*started);
              told();
            }
            standby->set_reason(std::string(base::kStandsBy) + served_by +
                                " serves this journal. Call that one, or try again: this one takes over "
                                "when the other's lease ends, or when `sandglass take-over` tells it to");
          },
      .taking_over =
          [this](const std::string& served_by) {
            if (standby) standby->set_reason(std::string(base::kTakesOver) + served_by + " still serves");
          },
      .ends = ports.ends,
      .told_to_take_over = [told = folder.file(base::kTakeOverOrder)] { return ::unlink(told.c_str()) == 0; },
      .lost = [this, lost = ports.lost](
                  const base::Error& error) { loop.post([lost, error](shard::ShardSet&) { lost(error); }); }};
}

base::Status Engine::Parts::open_storage(const OpenPorts& ports) {
  auto key = folder.tenant_key();
  if (!key) return std::unexpected(key.error());
  tenant_key = std::move(*key);
  for (auto& kind : all_kinds()) kinds.add(std::move(kind));
  auto opened = compose::open_storage({.folder = folder,
                                       .config = config,
                                       .kinds = kinds,
                                       .tenant_key = tenant_key,
                                       .clock = clock,
                                       .random = random,
                                       .wake = [this] { loop.wake(); },
                                       .completed =
                                           [this] {
                                             loop.wake();
                                             durable.signal();
                                           },

                                       .standby = standby_ports(ports)});
  if (!opened) return std::unexpected(opened.error());
  standby.reset();
  // Only now: opening the store ends what another engine has begun to write there.
  auto store = blob::FileBlobStore::open_folder(folder.blobs(), random);
  if (!store) return std::unexpected(store.error());
  blobs = std::move(*store);
  storage = std::move(*opened);
  reader = std::make_unique<journal::RowReader>(*storage.view);
  reads = std::make_unique<shard::ViewReads>(*storage.view);
  checkpoints = std::make_unique<Checkpoints>(folder, *storage.database);
  if (!config.publish_on_kafka) return {};
  auto publishing = open_publisher(folder, config.kafka, *reader, durable);
  if (!publishing) return std::unexpected(publishing.error());
  publisher = std::move(*publishing);
  return {};
}

base::Result<std::unique_ptr<shard::ShardSet>> Engine::Parts::open_shards() {
  // What the folder was made with counts, not what the configuration says today.
  const std::uint16_t partitions = storage.meta.partitions;
  return shard::ShardSet::open(
      {.partitions = partitions, .activation_wait_us = std::int64_t{config.engine.activation_wait_ms} * 1000},
      {.kinds = kinds,
       .view = *storage.view,
       .reads = *reads,
       .journal = *storage.journal,
       .activator = *activator,
       .dispatcher = *dispatcher,
       .on_damaged = [this](const core::StreamId& stream, const base::Error& damage) {
         found_damaged(stream, damage);
       }});
}

void Engine::Parts::open_dispatcher() {
  workers = std::make_unique<dispatch::WorkerPool>(
      clock, dispatch::WorkerSettings{.lease_ms = config.workers.lease_ms,
                                      .rates = config.workers.per_second,
                                      .weights = config.workers.weights});
  dispatcher = std::make_unique<dispatch::LocalDispatcher>(dispatch::DispatchPorts{
      .activities = work->activities(),
      .operations = work->operations(),
      .reads = *reads,
      .clock = clock,
      .digest_key =
          [this](const core::StreamId& stream) { return core::DigestKey(tenant_key, stream.text()); },
      .on_news = [this] { loop.wake(); },
      .running = slots.get(),
      .workers = workers.get()});
}

base::Status Engine::Parts::open_loop(base::UniqueFd effect,
                                      std::function<void(const base::Error&)> on_lost) {
  auto opened_slots = workflow::SlotFile::open(folder.file("run/slots"));
  if (!opened_slots) return std::unexpected(opened_slots.error());
  slots = std::move(*opened_slots);
  tasks = std::make_unique<base::ThreadPool>(config.engine.task_threads);
  runner = std::make_unique<dispatch::GuardedRunner>(*tasks, *slots);
  work = std::make_unique<Work>(WorkPorts{.folder = folder,
                                          .config = config,
                                          .clock = clock,
                                          .blobs = *blobs,
                                          .runner = *runner,
                                          .loop = loop,
                                          .tenant_key = tenant_key,
                                          .effect = std::move(effect)});
  activator = std::make_unique<workflow::ThreadedActivator>(
      work->workflows(), [this](const std::string&) { return tenant_key; }, clock,
      workflow::ThreadedActivatorOptions{
          .wake = [this] { loop.wake(); }, .slots = slots, .exhausted = on_lost});
  open_dispatcher();
  auto shards = open_shards();
  if (!shards) return std::unexpected(shards.error());
  loop.start(std::move(*shards),
             {.poll = [this] { work->poll(); }, .wake_fd = [this] { return work->wake_fd(); }},
             std::move(on_lost));
  if (auto tokens = ensure_first_tokens(loop, folder, random); !tokens) return tokens;
  if (auto begun = work->begin(); !begun) return begun;
  std::promise<base::Status> shown;
  auto seen = shown.get_future();
  refresh_identities(loop, gate, [&shown](base::Status status) { shown.set_value(std::move(status)); });
  return seen.get();
}

base::Status Engine::Parts::open_api() {
  std::map<std::string, std::string> workflows;
  for (const auto& [name, version] : work->workflows().list())
    workflows[name] = work->workflows().latest(name);
  backend = std::make_unique<api::Backend>(
      api::Backend{.engine = loop,
                   .pool = *tasks,
                   .view = *storage.view,
                   .reader = *reader,
                   .kinds = kinds,
                   .blobs = *blobs,
                   .tenant_key = tenant_key,
                   .partitions = storage.meta.partitions,
                   .workflows = std::move(workflows),
                   .upload = {.bytes = config.limits.upload_bytes, .files = config.limits.upload_files},
                   .find_zone = schedule::zones::find_zone,
                   .damage_of = [this](const core::StreamId& stream) { return damage_of(stream); },
                   .found_damaged = [this](const core::StreamId& stream,
                                           const base::Error& damage) { found_damaged(stream, damage); },
                   .checkpoint = [this] { return checkpoints->make(); },
                   .step_place = [this](const core::StreamId& stream,
                                        const std::string& path) { return step_place(stream, path); },
                   .fill_status = [this](::sandglass::v1::StatusReply& status,
                                         bool checks) { fill_status(status, checks); },
                   .identities_changed =
                       [this](std::move_only_function<void(base::Status)> then) {
                         refresh_identities(loop, gate, std::move(then));
                       }});
  methods = api::engine_methods(*backend);
  refusals = std::make_unique<api::RefusalLog>(loop, clock, tenant_key);
  auto started = api::RpcServer::start(rpc_options(), gate, methods.get(), *refusals, workers.get());
  if (!started) return std::unexpected(started.error());
  server = std::move(*started);
  workers->opened();
  return {};
}

std::optional<base::Error> Engine::Parts::damage_of(const core::StreamId& stream) const {
  const std::lock_guard lock(damage_mutex);
  const auto found = damaged.find(stream);
  return found == damaged.end() ? std::nullopt : std::optional(found->second);
}

void Engine::Parts::found_damaged(const core::StreamId& stream, const base::Error& damage) {
  const std::lock_guard lock(damage_mutex);
  damaged.insert_or_assign(stream, damage);
}

std::uint64_t Engine::Parts::count_open_runs(std::uint64_t enough) const {
  const identity::Caller everyone{.roles = static_cast<identity::Roles>(identity::Role::admin)};
  ::sandglass::v1::ListRunsRequest request;
  request.set_page_size(static_cast<std::uint32_t>(std::min<std::uint64_t>(enough, 500)));
  request.add_status(::sandglass::v1::RUN_STATUS_RUNNING);
  request.add_status(::sandglass::v1::RUN_STATUS_STUCK);
  std::uint64_t open = 0;
  for (;;) {
    auto page = api::list_runs(*storage.view, storage.meta.partitions, everyone, request);
    if (!page) return open + 1;  // not known: do not end because of it
    open += static_cast<std::uint64_t>(page->runs_size());
    if (page->next_page_token().empty() || open >= enough) return open;
    request.set_page_token(page->next_page_token());
  }
}

bool Engine::Parts::any_active_schedule() const {
  const identity::Caller everyone{.roles = static_cast<identity::Roles>(identity::Role::admin)};
  ::sandglass::v1::ListSchedulesRequest request;
  request.set_page_size(500);
  for (;;) {
    auto page = api::list_schedules(*storage.view, storage.meta.partitions, everyone, request);
    if (!page) return true;  // not known: do not end because of it
    for (const auto& schedule : page->schedules()) {
      if (schedule.next_ms() != 0) return true;
    }
    if (page->next_page_token().empty()) return false;
    request.set_page_token(page->next_page_token());
  }
}

bool Engine::Parts::anything_in_flight() const {
  for (std::uint16_t partition = 0; partition < storage.meta.partitions; ++partition) {
    for (const auto index : {view::Index::in_flight, view::Index::undelivered}) {
      auto range = view::index_range(partition, index);
      auto rows = storage.view->scan_now(
          {.first = std::move(range.first), .last = std::move(range.last), .limit = 1});
      if (!rows || !rows->rows.empty()) return true;
    }
  }
  return false;
}

std::optional<std::string> Engine::Parts::step_place(const core::StreamId& stream,
                                                     const std::string& path) const {
  const auto place = dispatcher->whereabouts(stream, path);
  if (!place) return std::nullopt;
  return place->text + " since " + utc_text(place->since_ms);
}

/// E13, E14: what waits for workers, how long, and whether anybody serves it.
void Engine::Parts::add_queue_checks(::sandglass::v1::StatusReply& status) {
  const auto promise = std::make_shared<std::promise<std::vector<dispatch::QueueView>>>();
  auto answer = promise->get_future();
  loop.post([this, promise](shard::ShardSet&) { promise->set_value(workers->queues()); });
  if (answer.wait_for(std::chrono::seconds(2)) != std::future_status::ready) return;
  for (const dispatch::QueueView& queue : answer.get()) {
    std::string detail = std::to_string(queue.workers) + " workers, " + std::to_string(queue.out) +
                         " steps with them, " + std::to_string(queue.waiting) + " waiting";
    if (queue.oldest_ms != 0) detail += " since " + utc_text(queue.oldest_ms);
    const bool unserved = queue.workers == 0 && queue.waiting != 0;
    if (unserved) detail += "; start a worker of " + queue.name;
    add_check(status, {.name = "steps of " + base::escape_for_terminal(queue.name),
                       .verdict = unserved ? "missing" : "works",
                       .detail = base::escape_for_terminal(detail)});
  }
}

void Engine::Parts::fill_status(::sandglass::v1::StatusReply& status, bool checks) {
  const auto counters = gate.counters();
  status.set_version(kVersion);
  status.set_pid(getpid());
  status.set_started_ms(started_ms);
  status.set_recovered_ms(static_cast<std::uint64_t>(recovered_ms));
  status.set_clients(counters.in_flight);
  const auto refusal = refusals->counters();
  auto& refused = *status.mutable_refused();
  refused.set_unauthenticated(counters.unauthenticated);
  refused.set_overloaded(counters.overloaded);
  refused.set_malformed(refusal.malformed);
  refused.set_denied(counters.denied);
  refused.set_refused(refusal.refused - std::min(refusal.refused, counters.denied));
  refused.set_recorded(refusal.recorded);
  refused.set_dropped(refusal.dropped);
  status.set_refused_calls(counters.unauthenticated + counters.overloaded + refusal.malformed +
                           refusal.refused);
  if (!checks) return;
  status.set_open_runs(count_open_runs(std::numeric_limits<std::uint64_t>::max()));
  add_check(status, separation);
  if (publisher)
    add_check(status, publishing_check(publisher->status(), config.kafka, *storage.view, storage.meta));
  add_queue_checks(status);
  work->fill_status(status);
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() {
  close(0);
}

base::Result<std::unique_ptr<Engine>> Engine::open(const base::DataFolder& folder, const Config& config,
                                                   Check separation, base::UniqueFd effect, OpenPorts ports) {
  auto parts = std::make_unique<Parts>(folder, config, std::move(separation));
  parts->started_ms = parts->clock.wall_ms();
  const auto began = parts->clock.monotonic_ns();
  std::unique_ptr<Engine> engine(new Engine(std::move(parts)));
  Parts& opened = *engine->parts_;
  if (auto status = opened.open_storage(ports); !status) return std::unexpected(status.error());
  if (auto status = opened.open_loop(std::move(effect), ports.lost); !status)
    return std::unexpected(status.error());
  opened.recovered_ms = (opened.clock.monotonic_ns() - began) / 1'000'000;
  if (auto status = opened.open_api(); !status) return std::unexpected(status.error());
  base::log(base::LogLevel::info, "ready",
            {{"data", folder.path()},
             {"partitions", opened.storage.meta.partitions},
             {"opened_ms", opened.recovered_ms}});
  return engine;
}

void Engine::attach_effect(base::UniqueFd socket) {
  // The executor belongs to the loop's thread.
  auto shared = std::make_shared<base::UniqueFd>(std::move(socket));
  parts_->loop.post(
      [work = parts_->work.get(), shared](shard::ShardSet&) { work->attach_effect(std::move(*shared)); });
}

bool Engine::idle() {
  if (parts_->gate.counters().in_flight != 0 || !parts_->loop.quiet()) return false;
  if (parts_->publisher && is_busy(parts_->publisher->status())) return false;
  if (parts_->records_when_counted != parts_->loop.records()) {
    parts_->records_when_counted = parts_->loop.records();
    parts_->work_is_open =
        parts_->anything_in_flight() || parts_->count_open_runs(1) != 0 || parts_->any_active_schedule();
  }
  return !parts_->work_is_open;
}

void Engine::close(std::int64_t grace_ms) {
  if (!parts_) return;
  if (parts_->server) parts_->server->stop(grace_ms);
  parts_->server.reset();
  parts_->loop.stop();
  parts_.reset();
}

}  // namespace sandglass::engine::server::compose
