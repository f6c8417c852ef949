// Runs of random C++ workflows on the whole engine: their results must be those of the model, every payment
// must be made once, and never may there be more sandboxes than are allowed.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/codec/record.h"
#include "engine/fold/stream_fold.h"
#include "engine/run/codec/codec.h"
#include "engine/run/decider.h"
#include "engine/run/view/run_view.h"
#include "engine/workflow/activator.h"
#include "engine/workflow/registry.h"
#include "sandbox-runtime/scheduler/codec/codec.h"
#include "tests/simulation/checks.h"
#include "tests/simulation/run_history.h"
#include "tests/simulation/run_outside.h"
#include "tests/simulation/run_program.h"
#include "tests/simulation/sim_engine.h"
#include "tests/simulation/simulation.h"

namespace sandglass::tests::simulation {
namespace {

namespace codec = engine::codec;
namespace fold = engine::fold;
namespace run = engine::run;
namespace scheduler = sandbox_runtime::scheduler;

using RunKind =
    fold::Kind<core::StreamKind::run, true, run::RunDecider, run::codec::RunCodec, run::view::RunView>;

constexpr std::size_t kRuns = 3;
constexpr std::uint64_t kMaxPolls = 40'000;
constexpr std::size_t kSandboxes = 1;
constexpr const char* kTenantKey = "tenant key";

/// A call that is repeated until it is answered.
struct Call {
  core::StreamId target;
  std::function<core::CommandPtr()> make;
  std::string id;
  std::optional<core::Question> consent = std::nullopt;  // of an update
  base::MonotonicNs not_before_ns = 0;
  std::uint64_t sent_by = ~std::uint64_t{0};
  bool acknowledged = false;
};

class RunSimulation {
 public:
  explicit RunSimulation(const SimOptions& options)
      : options_(options),
        random_(options.seed),
        outside_(options.seed * 7919, ns_, options.disorder, result_.violations),
        engine_(options, random_, kinds_, workload(), result_) {
    kinds_.add(std::make_shared<RunKind>());
    kinds_.add(scheduler::codec::make_admission_kind());
    kinds_.add(scheduler::codec::make_pool_kind());
    shard::register_partition_kind(kinds_);
    admissions_ = {scheduler::admission_stream(),
                   core::StreamId::named(core::StreamKind::admission, "another")};
    for (std::size_t i = 0; i < kRuns; ++i) add_run(i);
    workflows_.add("random", "1", [this](engine::workflow::Context& ctx, Json input) {
      const auto at = input.at("run").get<std::size_t>();
      return walk_root(ctx, programs_[at], std::move(input), waits_, admission_of(at));
    });
    workflows_.add("part", "1", [this](engine::workflow::Context& ctx, Json input) {
      const auto at = input.at("run").get<std::size_t>();
      return walk(ctx, *find_node(programs_[at], input.at("node").get<std::string>()), waits_,
                  admission_of(at));
    });
    configure();
    outside_.set_sandbox_limit(kSandboxes);
    // Planted: the engine believes "not done" although an old attempt may still take effect (J16).
    if (options.plant == Plant::not_done_too_early) outside_.believe_after(1);
  }

  SimResult run() {
    engine_.play(result_, {.done = [this] { return done(); },
                           .talk = [this] { talk(); },
                           .process_ended = [this] { outside_.process_ended(); },
                           .polled = [this] { ns_ = engine_.clock().ns; },
                           .max_polls = kMaxPolls,
                           .calm_least = 300,
                           .calm_spread = 1500,
                           .crash_every = 150});
    if (!done() && result_.violations.empty()) violation("not everything came to an end: " + open_ends());
    check_end();
    if (!result_.violations.empty()) result_.dump = dump(engine_.disk(), kPartitions);
    return std::move(result_);
  }

 private:
  void add_run(std::size_t at) {
    streams_.push_back(core::StreamId::named(core::StreamKind::run, "run" + std::to_string(at)));
    programs_.push_back(random_run(random_));
    programs_.back().number = static_cast<std::int64_t>(at);
    // Which of two runs that end together is heard of first is a matter of polls, which reads of a view take:
    // records that are compared come from runs alone.
    support::SeededRandom own(options_.seed * 31 + at);  // of its own: kept seeds stay what they were
    if (options_.disorder) spread_over_runs(programs_.back(), own);
    const core::StreamId stream = streams_.back();
    const core::DigestKey key(kTenantKey, stream.text());
    const auto payload = [key](const Json& json) { return key.make(core::Encoding::json, json.dump()); };
    add_call(stream, "start", [payload, at] {
      run::StartRun start{.workflow = "random", .version = "1", .tenant = "t", .user = "u"};
      start.input = payload({{"run", at}});
      return core::make_command<run::Command>(run::Command(std::move(start)));
    });
    for (const std::string& name : names_of(programs_.back(), Node::Kind::update)) {
      add_call(stream, "update " + name, [payload, name] {
        return core::make_command<run::Command>(run::Command(run::Update{name, payload(nullptr)}));
      });
      calls_.back().consent =
          core::Question{.kind = core::Question::Kind::consent, .name = name, .input = nullptr};
    }
    for (const std::string& name : names_of(programs_.back(), Node::Kind::signal)) {
      add_call(stream, "signal " + name, [payload, name] {
        return core::make_command<run::Command>(run::Command(run::Signal{name, payload({{"signal", name}})}));
      });
    }
  }

  void configure() {
    for (const auto& admission : admissions_) {
      add_call(admission, "configure", [] {
        using Command = scheduler::AdmissionDecider::Command;
        return core::make_command<Command>(
            scheduler::ConfigureAdmission{{.global = kSandboxes, .per_user = 5}});
      });
    }
  }

  void add_call(const core::StreamId& target, std::string id, std::function<core::CommandPtr()> make) {
    calls_.push_back({.target = target, .make = std::move(make), .id = std::move(id)});
  }

  /// Planted: two admissions that know nothing of each other grant the last place both (J21).
  core::StreamId admission_of(std::size_t at) const {
    return admissions_[options_.plant == Plant::lease_granted_twice ? at % 2 : 0];
  }

  Workload workload() {
    return {.make_activator = [this](bool disorder) { return make_activator(disorder); },
            .add_activities = [this](core::ActivityRegistry& registry) { add_activities(registry); },
            .operations = [this]() -> core::Operations* { return operations_.get(); },
            .peek = [this](const journal::Batch& batch) { peek(batch); },
            .next_outside_ns = [this] { return outside_.next_ns(); },
            .poll_outside = [this] { outside_.poll(); }};
  }

  std::unique_ptr<core::Activator> make_activator(bool disorder) {
    auto inner = std::make_unique<engine::workflow::InlineActivator>(
        workflows_, [](const std::string&) { return std::string(kTenantKey); });
    return std::make_unique<SlowActivator>(std::move(inner), random_, disorder);
  }

  void add_activities(core::ActivityRegistry& registry) {
    const Judge judge = [this](const auto& stream, const auto& path) {
      must_be_durable<run::StepScheduled>(stream, path);
    };
    const Judge intent = [this](const auto& stream, const auto& path) {
      must_be_durable<run::OperationIntended>(stream, path);
    };
    const auto add = [&](const char* name, Judge judged, auto method) {
      registry.add(name, std::make_shared<OutsideActivity>(
                             judged, [this, method](const core::ActivityCall& call, core::ActivityDone done) {
                               (outside_.*method)(call, std::move(done));
                             }));
    };
    add("work", judge, &RunOutside::work);
    add("look", nullptr, &RunOutside::look);
    for (const char* name : {"sandbox.create", "sandbox.renew", "sandbox.destroy"}) {
      add(name, nullptr, &RunOutside::sandbox);
    }
    operations_ =
        std::make_unique<OutsideOperations>(outside_, intent, options_.plant == Plant::key_of_attempt);
  }

  // ---- judges

  template <class E>
  void must_be_durable(const core::StreamId& stream, const std::string& path) {
    bool durable = false;
    history_.for_each_event<run::Event>(stream, [&](const run::Event& event, const fold::ReadTurn&) {
      const auto* asked = std::get_if<E>(&event);
      durable = durable || (asked != nullptr && asked->path == path);
    });
    if (!durable) violation("an effect before its record is durable: " + stream.text() + " " + path);
  }

  void peek(const journal::Batch& batch) {
    for (const auto& ordered : batch.records) {
      if (ordered.record.stream.kind != core::StreamKind::run) continue;
      const auto turn = fold::read_turn(*kinds_.find(core::StreamKind::run), ordered.record);
      for (const run::Event& event : static_cast<const core::Events<run::Event>&>(*turn->events).items) {
        if (const auto* intent = std::get_if<run::OperationIntended>(&event)) {
          must_be_durable<run::OperationIntended>(ordered.record.stream, intent->path);
        }
      }
    }
  }

  // ---- callers

  void talk() {
    for (Call& call : calls_) {
      if (call.acknowledged || call.sent_by == engine_.process() || !may_be_sent(call) ||
          call.not_before_ns > engine_.clock().ns) {
        continue;
      }
      if (options_.disorder && random_.next() % 20 != 0) continue;
      call.sent_by = engine_.process();
      engine_.set().submit({.target = call.target,
                            .command = call.make(),
                            .request_id = call.id,
                            .request_digest = base::sha256(call.id),
                            .on_reply =
                                [this, &call](base::Result<shard::Reply> reply) {
                                  if (reply) call.acknowledged = true;
                                  if (reply || reply.error().code == base::Code::outcome_unknown) return;
                                  if (call.consent && reply.error().code == base::Code::update_unknown) {
                                    // The workflow has not got there, and time passes only when nobody talks.
                                    call.sent_by = ~std::uint64_t{0};
                                    call.not_before_ns = engine_.clock().ns + 1'000'000;
                                  } else {
                                    violation(call.id + " was refused: " + reply.error().message);
                                  }
                                },
                            .consent = call.consent});
    }
  }

  /// Limits come before runs, and a run's start before its signals.
  bool may_be_sent(const Call& call) const {
    if (call.id == "configure") return true;
    return std::ranges::all_of(calls_, [&](const Call& first) {
      const bool needed =
          first.id == "configure" || (first.id == "start" && first.target == call.target && &first != &call);
      return !needed || first.acknowledged;
    });
  }

  // ---- the end

  bool done() const {
    if (!std::ranges::all_of(calls_, [](const Call& call) { return call.acknowledged; })) return false;
    if (!engine_.quiet() || engine_.actions_under_way() > 0 || outside_.sandboxes() > 0) return false;
    return history_.all_closed(history_.families(streams_));
  }

  std::string open_ends() const {
    std::string text;
    for (const Call& call : calls_)
      text += call.acknowledged ? "" : call.target.text() + " " + call.id + "; ";
    return text + history_.standings(history_.families(streams_)) + std::to_string(outside_.sandboxes()) +
           " sandboxes, " + std::to_string(engine_.actions_under_way()) + " actions";
  }

  void check_end() {
    if (!result_.violations.empty()) return;
    check_chains(engine_.disk(), kPartitions, "simulation", result_.violations);
    check_view(engine_.disk(), kinds_, result_.violations);
    std::size_t operations = 0;
    for (std::size_t at = 0; at < kRuns; ++at) {
      const core::StreamId last = history_.last_of(streams_[at]);
      const run::State state = history_.state_of(last);
      const Json result = history_.result_of(last);
      const Json expected = result_of(programs_[at]);
      if (state.status != run::RunStatus::completed || result != expected) {
        violation(streams_[at].text() + " is " + std::string(run::name_of(state.status)) + " with " +
                  result.dump() + ", expected " + expected.dump());
      }
      operations += operations_of(programs_[at]);
    }
    for (const core::StreamId& stream : history_.families(streams_)) {
      check_timers(stream);
      result_.histories[stream.text()] = history_.lines(stream, false);
    }
    const auto once =
        std::ranges::count_if(outside_.paid(), [](const auto& entry) { return entry.second == 1; });
    if (static_cast<std::size_t>(once) != operations) {
      violation(std::to_string(once) + " payments were made once, of " + std::to_string(operations));
    }
  }

  /// E3: never before its time.
  void check_timers(const core::StreamId& stream) {
    std::map<std::string, std::int64_t> due_ms;
    history_.for_each_event<run::Event>(stream, [&](const run::Event& event, const fold::ReadTurn& turn) {
      if (const auto* started = std::get_if<run::TimerStarted>(&event))
        due_ms[started->path] = started->due_ms;
      const auto* elapsed = std::get_if<run::TimerElapsed>(&event);
      if (elapsed == nullptr || turn.header.time_ms >= due_ms[elapsed->path]) return;
      violation("a timer elapsed " + std::to_string(due_ms[elapsed->path] - turn.header.time_ms) +
                " ms early: " + stream.text() + " " + elapsed->path);
    });
  }

  void violation(std::string what) { result_.violations.push_back(std::move(what)); }

  SimOptions options_;
  SimResult result_;
  support::SeededRandom random_;
  std::int64_t ns_ = 0;
  RunOutside outside_;
  engine::fold::Registry kinds_;
  engine::workflow::Registry workflows_;
  Waits waits_;
  std::vector<core::StreamId> admissions_;
  std::vector<core::StreamId> streams_;
  std::vector<Node> programs_;
  std::vector<Call> calls_;
  std::unique_ptr<OutsideOperations> operations_;
  SimEngine engine_;
  const RunHistory history_{engine_.disk(), kinds_};
};

}  // namespace

SimResult simulate_runs(const SimOptions& options) {
  return RunSimulation(options).run();
}

}  // namespace sandglass::tests::simulation
