#include "sandbox-runtime/scheduler/pool.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/hash.h"

namespace sandglass::sandbox_runtime::scheduler {

namespace {

using Decider = PoolDecider;
using State = PoolState;
using Writer = core::TurnWriter<Decider::Event>;

constexpr core::RetryPolicy kDestroyRetry{
    .max_attempts = 0, .initial_interval_ms = 500, .max_interval_ms = 60'000, .backoff = 2.0, .jitter = 0};

std::string lease_timer(const std::string& sandbox) {
  return "lease:" + sandbox;
}

/// Unique over all pools, and the same whenever this record is decided again.
std::string sandbox_id(const core::StreamId& pool, std::uint64_t token) {
  return "sb-" + base::Sha256().update(pool.bytes()).update_u64(token).finish().hex().substr(0, 20);
}

std::string_view verb_of(SandboxStage stage) {
  switch (stage) {
    case SandboxStage::creating:
      return "sandbox.create";
    case SandboxStage::destroying:
      return "sandbox.destroy";
    case SandboxStage::leased:
    case SandboxStage::expiring:
      break;
  }
  return "sandbox.renew";
}

/// The action that this sandbox has under way. Names are plain (is_template_name, hex), so the JSON needs no
/// escapes.
core::Action action_of(const PoolLimits& limits, const std::string& id, const Sandbox& sandbox) {
  const std::string_view verb = verb_of(sandbox.stage);
  std::string input = R"({"template":")" + sandbox.claim.template_name + R"(","sandbox":")" + id +
                      R"(","token":)" + std::to_string(sandbox.token) + R"(,"ttl_ms":)" +
                      std::to_string(limits.lease_ttl_ms) + "}";
  return {
      .kind = core::ActionKind::start,
      .name = std::string(verb),
      .path = id,
      .token = sandbox.action,
      .key = id + "/" + std::string(verb) + "/" + std::to_string(sandbox.action.counter),
      .input_slot = std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, std::move(input)}),
      .start_to_close_ms =
          sandbox.stage == SandboxStage::creating ? limits.create_timeout_ms : limits.destroy_timeout_ms};
}

class Turn {
 public:
  Turn(const State& state, const core::DecideInput& input, Writer& writer)
      : state_(state), input_(input), writer_(writer) {}

  void configure(const PoolLimits& limits) {
    if (!state_.configured || state_.limits != limits) emit(PoolConfigured{limits});
  }

  void reserved(const core::Message& message, const core::LeaseReserved& reserved) {
    const bool known = std::ranges::any_of(state_.sandboxes, [&](const auto& entry) {
      return entry.second.reservation == reserved.reservation;
    });
    if (known) return;  // one reservation, one sandbox (FR-178)
    const std::uint64_t token = state_.tokens + 1;
    const std::string id = sandbox_id(input_.stream, token);
    emit(SandboxCreating{.sandbox = id,
                         .token = token,
                         .reservation = reserved.reservation,
                         .claim = {.run = reserved.run,
                                   .correlation = message.correlation,
                                   .template_name = reserved.template_name,
                                   .tenant = reserved.tenant,
                                   .user = reserved.user},
                         .action = new_action()});
    act(id);
  }

  /// Admission calls a reservation back. A lease that was granted meanwhile stays: its run gives it back
  /// itself.
  void called_back(const std::string& reservation) {
    for (const auto& [id, sandbox] : state_.sandboxes) {
      if (sandbox.reservation != reservation) continue;
      if (sandbox.stage != SandboxStage::creating || sandbox.told) return;
      const std::string sandbox_name = id;
      refuse(sandbox, base::Code::timed_out, "the sandbox was not ready in time, or is no longer wanted");
      core::Action cancel = action_of(state_.limits, sandbox_name, sandbox);
      cancel.kind = core::ActionKind::cancel;
      writer_.act(std::move(cancel));
      emit(SandboxUnwanted{sandbox_name, base::Code::timed_out});
      return;
    }
  }

  void kept(const core::Message& message, const core::LeaseKept& kept) {
    const Sandbox* sandbox = held(kept.sandbox, kept.token);
    if (sandbox == nullptr || sandbox->claim.run != message.source) return;
    const std::int64_t running = sandbox->timer_ms;
    const std::int64_t ask = ask_at();
    if (ask != running) {  // a timer is named by key and due time: the same one simply goes on
      writer_.end_timer(lease_timer(kept.sandbox), running);
      writer_.start_timer(lease_timer(kept.sandbox), ask);
    }
    emit(LeaseRenewed{kept.sandbox, ask, new_action()});
    act(kept.sandbox);
  }

  void returned(const core::Message& message, const core::LeaseReturned& returned) {
    const Sandbox* sandbox = held(returned.sandbox, returned.token);
    if (sandbox != nullptr && sandbox->claim.run == message.source)
      end_lease(returned.sandbox, *sandbox, base::Code::ok);
  }

  void lost(const std::string& id, std::uint64_t token) {
    const Sandbox* sandbox = held(id, token);
    if (sandbox != nullptr) end_lease(id, *sandbox, base::Code::sandbox_lost);
  }

  void fired(const core::TimerFired& timer) {
    writer_.end_timer(timer.key, timer.due_ms);
    for (const auto& [id, sandbox] : state_.sandboxes) {
      if (timer.key != lease_timer(id) || timer.due_ms != sandbox.timer_ms) continue;
      const std::string name = id;
      if (sandbox.stage == SandboxStage::leased) {
        const std::int64_t ends = input_.now_ms + state_.limits.answer_within_ms;
        writer_.start_timer(lease_timer(name), ends);
        writer_.send(sandbox.claim.run, sandbox.claim.correlation, core::LeaseExpiring{name, sandbox.token});
        emit(LeaseAsked{name, ends});
      } else if (sandbox.stage == SandboxStage::expiring) {
        end_lease(name, sandbox, base::Code::timed_out, /*timer_runs=*/false);
      } else if (sandbox.stage == SandboxStage::destroying) {
        emit(DestroyStarted{name, new_action()});
        act(name);
      }
      return;
    }
  }

  void finished(const core::ActionFinished& finished) {
    const auto found = state_.sandboxes.find(finished.path);
    if (found == state_.sandboxes.end() || found->second.action != finished.token) return;  // stale (J8)
    switch (found->second.stage) {
      case SandboxStage::creating:
        return created(finished);
      case SandboxStage::leased:
      case SandboxStage::expiring:
        return renewed(finished);
      case SandboxStage::destroying:
        return destroyed(finished);
    }
  }

 private:
  void emit(Decider::Event event) {
    Decider::evolve(state_, event, {.seq = input_.seq, .time_ms = input_.now_ms, .epoch = input_.epoch});
    writer_.emit(std::move(event));
  }

  core::Token new_action() const { return {.epoch = input_.epoch, .attempt = 1, .counter = input_.seq}; }
  void act(const std::string& id) { writer_.act(action_of(state_.limits, id, state_.sandboxes.at(id))); }

  /// The sandbox, if it is leased under exactly this token.
  const Sandbox* held(const std::string& id, std::uint64_t token) const {
    const auto found = state_.sandboxes.find(id);
    if (found == state_.sandboxes.end() || found->second.token != token) return nullptr;
    const SandboxStage stage = found->second.stage;
    return stage == SandboxStage::leased || stage == SandboxStage::expiring ? &found->second : nullptr;
  }

  /// When the run is to be asked whether it still needs a lease that begins, or is renewed, now.
  std::int64_t ask_at() const {
    const PoolLimits& limits = state_.limits;
    return input_.now_ms + std::max<std::int64_t>(limits.lease_ttl_ms - limits.answer_within_ms, 1);
  }

  void refuse(const Sandbox& sandbox, base::Code code, std::string text) {
    writer_.send(sandbox.claim.run, sandbox.claim.correlation, core::LeaseRefused{code, std::move(text)});
  }

  void created(const core::ActionFinished& finished) {
    const std::string& id = finished.path;
    const Sandbox sandbox = state_.sandboxes.at(id);
    if (finished.outcome == core::Outcome::done && !sandbox.told) {
      const std::string text = finished.result ? finished.result.slot->bytes : std::string();
      const std::size_t line = text.find('\n');
      writer_.send(sandbox.claim.run, sandbox.claim.correlation,
                   core::LeaseGranted{.sandbox = id,
                                      .token = sandbox.token,
                                      .ttl_ms = state_.limits.lease_ttl_ms,
                                      .provider = text.substr(0, line),
                                      .unenforced = line == std::string::npos ? "" : text.substr(line + 1)});
      const std::int64_t ask = ask_at();
      writer_.start_timer(lease_timer(id), ask);
      emit(SandboxLeased{id, ask});
      return;
    }
    if (!sandbox.told) {
      refuse(sandbox, finished.code == base::Code::ok ? base::Code::provider_failed : finished.code,
             finished.message.empty() ? "the sandbox could not be created" : finished.message);
    }
    if (finished.outcome == core::Outcome::not_done) {
      gone(id, sandbox);  // certainly nothing there
    } else {
      emit(SandboxDestroying{id, finished.code, true, new_action()});
      act(id);
    }
  }

  void renewed(const core::ActionFinished& finished) {
    emit(RenewalSettled{finished.path});
    if (finished.code == base::Code::sandbox_lost || finished.code == base::Code::lease_fenced) {
      lost(finished.path, state_.sandboxes.at(finished.path).token);
    }  // an unreachable host is asked again with the next renewal
  }

  void destroyed(const core::ActionFinished& finished) {
    const std::string& id = finished.path;
    const Sandbox sandbox = state_.sandboxes.at(id);
    if (finished.outcome == core::Outcome::done) return gone(id, sandbox);
    const std::uint32_t failures = sandbox.destroy_failures + 1;
    const std::int64_t next = input_.now_ms + core::retry_delay_ms(kDestroyRetry, failures, sandbox.token);
    writer_.start_timer(lease_timer(id), next);
    emit(DestroyFailed{id, failures, next});
  }

  /// Ends a lease that was held: at once for a run that did not ask for it, else when destruction is
  /// verified.
  void end_lease(const std::string& name, const Sandbox& held_sandbox, base::Code code,
                 bool timer_runs = true) {
    const std::string id = name;
    const Sandbox sandbox = held_sandbox;
    if (timer_runs) writer_.end_timer(lease_timer(id), sandbox.timer_ms);
    const bool tell_now = code != base::Code::ok;
    if (tell_now) {
      writer_.send(sandbox.claim.run, sandbox.claim.correlation, core::LeaseEnded{id, sandbox.token, code});
    }
    emit(SandboxDestroying{id, code, tell_now, new_action()});
    act(id);
  }

  /// The only place where a reservation becomes free (Q11).
  void gone(const std::string& id, const Sandbox& sandbox) {
    if (sandbox.stage == SandboxStage::destroying && !sandbox.told) {
      writer_.send(sandbox.claim.run, sandbox.claim.correlation,
                   core::LeaseEnded{id, sandbox.token, sandbox.end_code});
    }
    writer_.send(admission_stream(), sandbox.reservation, core::ReservationFreed{sandbox.reservation});
    emit(SandboxGone{id});
  }

  State state_;
  const core::DecideInput& input_;
  Writer& writer_;
};

struct Evolve {
  State& state;

  void operator()(const PoolConfigured& event) {
    state.limits = event.limits;
    state.configured = true;
  }
  void operator()(const SandboxCreating& event) {
    state.tokens = event.token;
    state.sandboxes[event.sandbox] = {.stage = SandboxStage::creating,
                                      .token = event.token,
                                      .reservation = event.reservation,
                                      .claim = event.claim,
                                      .action = event.action};
  }
  void operator()(const SandboxUnwanted& event) {
    Sandbox& sandbox = of(event.sandbox);
    sandbox.end_code = event.code;
    sandbox.told = true;
  }
  void operator()(const SandboxLeased& event) {
    Sandbox& sandbox = of(event.sandbox);
    sandbox.stage = SandboxStage::leased;
    sandbox.timer_ms = event.ask_ms;
    sandbox.action = {};
  }
  void operator()(const LeaseAsked& event) {
    Sandbox& sandbox = of(event.sandbox);
    sandbox.stage = SandboxStage::expiring;
    sandbox.timer_ms = event.ends_ms;
  }
  void operator()(const LeaseRenewed& event) {
    Sandbox& sandbox = of(event.sandbox);
    sandbox.stage = SandboxStage::leased;
    sandbox.timer_ms = event.ask_ms;
    sandbox.action = event.action;
  }
  void operator()(const RenewalSettled& event) { of(event.sandbox).action = {}; }
  void operator()(const SandboxDestroying& event) {
    Sandbox& sandbox = of(event.sandbox);
    sandbox.stage = SandboxStage::destroying;
    sandbox.timer_ms = 0;
    sandbox.action = event.action;
    sandbox.end_code = event.code;
    sandbox.told = event.told;
  }
  void operator()(const DestroyFailed& event) {
    Sandbox& sandbox = of(event.sandbox);
    sandbox.timer_ms = event.next_ms;
    sandbox.destroy_failures = event.failures;
    sandbox.action = {};
  }
  void operator()(const DestroyStarted& event) {
    Sandbox& sandbox = of(event.sandbox);
    sandbox.timer_ms = 0;
    sandbox.action = event.action;
  }
  void operator()(const SandboxGone& event) { state.sandboxes.erase(event.sandbox); }

 private:
  Sandbox& of(const std::string& id) { return state.sandboxes[id]; }
};

}  // namespace

base::Status PoolDecider::decide(const State& state, const Command& command, const core::DecideInput& input,
                                 core::TurnWriter<Event>& writer) {
  Turn turn(state, input, writer);
  if (const auto* configure = std::get_if<ConfigurePool>(&command)) {
    const PoolLimits& limits = configure->limits;
    if (limits.answer_within_ms <= 0 || limits.lease_ttl_ms <= limits.answer_within_ms) {
      return base::fail(base::Code::invalid_argument,
                        "pool: lease_ttl_ms must be above answer_within_ms, and that above 0");
    }
    turn.configure(limits);
  } else if (const auto* loss = std::get_if<ReportLoss>(&command)) {
    turn.lost(loss->sandbox, loss->token);
  } else if (const auto* finished = std::get_if<core::ActionFinished>(&command)) {
    turn.finished(*finished);
  } else if (const auto* timer = std::get_if<core::TimerFired>(&command)) {
    turn.fired(*timer);
  } else {
    const core::Message& message = std::get<core::MessageReceived>(command).message;
    if (const auto* reserved = std::get_if<core::LeaseReserved>(&message.body)) {
      turn.reserved(message, *reserved);
    } else if (std::holds_alternative<core::LeaseCancelled>(message.body)) {
      turn.called_back(message.correlation);
    } else if (const auto* kept = std::get_if<core::LeaseKept>(&message.body)) {
      turn.kept(message, *kept);
    } else if (const auto* returned = std::get_if<core::LeaseReturned>(&message.body)) {
      turn.returned(message, *returned);
    }
  }
  return {};
}

void PoolDecider::evolve(State& state, const Event& event, const core::TurnInfo&) {
  std::visit(Evolve{state}, event);
}

void PoolDecider::pending(const State& state, const core::DecideInput&, std::vector<core::Action>& actions) {
  for (const auto& [id, sandbox] : state.sandboxes) {
    if (sandbox.action.attempt != 0) actions.push_back(action_of(state.limits, id, sandbox));
  }
}

bool PoolDecider::in_flight(const State& state) {
  return std::ranges::any_of(state.sandboxes,
                             [](const auto& entry) { return entry.second.action.attempt != 0; });
}

}  // namespace sandglass::sandbox_runtime::scheduler
