#include "engine/workflow/live_runs.h"

#include <utility>

namespace sandglass::engine::workflow {
namespace {

const run::State& run_state(const core::ActivationRequest& request) {
  return static_cast<const core::StateOf<run::State>&>(*request.state).value;
}

core::CommandPtr command_of(run::ApplyActivation output) {
  return core::make_command<run::Command>(run::Command(std::move(output)));
}

core::CommandPtr stuck(run::StuckReport report) {
  return command_of({.commands = {}, .stuck = std::move(report), .more = false});
}

}  // namespace

bool LiveRuns::is_live_at(const core::StreamId& stream, std::uint64_t head) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(stream);
  return found != entries_.end() && found->second.instance != nullptr && found->second.head == head;
}

void LiveRuns::evict(const core::StreamId& stream) {
  std::unique_ptr<Instance> gone;  // destroyed without the lock: frames may hold anything
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(stream);
  if (found == entries_.end()) return;
  gone = std::move(found->second.instance);
  entries_.erase(found);
}

void LiveRuns::evict_all() {
  std::map<core::StreamId, Entry> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(entries_);
}

std::size_t LiveRuns::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

LiveRuns::Taken LiveRuns::take(const core::StreamId& stream, bool rebuild) {
  std::unique_ptr<Instance> gone;
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[stream];
  entry.epoch = next_epoch_++;
  if (rebuild) gone = std::move(entry.instance);
  return {std::exchange(entry.instance, nullptr), entry.epoch};
}

void LiveRuns::keep(const core::StreamId& stream, Taken taken, std::uint64_t head) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(stream);
  if (found == entries_.end() || found->second.epoch != taken.epoch) return;
  if (taken.instance == nullptr) {
    entries_.erase(found);
    return;
  }
  found->second.instance = std::move(taken.instance);
  found->second.head = head;
}

core::ActivationAnswer LiveRuns::activate(core::ActivationRequest request) {
  if (request.question) return ask(std::move(request));
  core::ActivationAnswer answer{
      .stream = request.stream, .head = request.head, .command = core::CommandPtr{}};
  if (run_state(request).status != run::RunStatus::running) {
    evict(request.stream);
    return answer;
  }
  Taken taken = take(request.stream, request.rebuild);
  answer.command = run_code(request, taken);
  if (taken.instance != nullptr && taken.instance->broken()) taken.instance.reset();
  keep(request.stream, std::move(taken), request.head);
  request.state = nullptr;  // let go before the answer is seen
  return answer;
}

/// A question changes nothing: coroutines of closed runs are made for it alone, and one that its answer has
/// spoiled is forgotten.
core::ActivationAnswer LiveRuns::ask(core::ActivationRequest request) {
  const run::State& state = run_state(request);
  core::ActivationAnswer answer{.stream = request.stream, .head = request.head};
  const bool live = state.status == run::RunStatus::running;
  if (state.status == run::RunStatus::stuck) {
    answer.said = base::fail(base::Code::run_stuck,
                             "the run is stuck and its code cannot be asked: " + state.stuck.message);
  } else if (!live && request.question->kind == core::Question::Kind::consent) {
    answer.said = base::fail(base::Code::run_closed, "the run has ended and takes no update");
  } else {
    Taken taken = take(request.stream, request.rebuild);
    auto made =
        taken.instance ? base::Result<std::unique_ptr<Instance>>(std::move(taken.instance)) : make(request);
    if (made) {
      answer.said = (*made)->ask(request, state);
      if (live && !(*made)->broken() && !(*made)->spoiled()) taken.instance = std::move(*made);
    } else {
      answer.said = std::unexpected(made.error());
    }
    keep(request.stream, std::move(taken), request.head);
  }
  request.state = nullptr;
  return answer;
}

base::Result<std::unique_ptr<Instance>> LiveRuns::make(const core::ActivationRequest& request) const {
  const run::State& state = run_state(request);
  const Workflow* workflow = registry_.find(state.workflow, state.version);
  if (workflow == nullptr) {
    return base::fail(base::Code::workflow_unknown, "no workflow " + state.workflow + " version " +
                                                        state.version + " is registered in this engine");
  }
  RunInfo info{.stream = request.stream,
               .workflow = workflow->name,
               .version = workflow->version,
               .tenant = state.tenant,
               .user = state.user,
               .session = state.session,
               .history_root = state.history_root,
               .effect_root = state.effect_root};
  const core::DigestKey key(tenant_key_(state.tenant), state.history_root);
  return std::make_unique<Instance>(registry_, *workflow, std::move(info), key);
}

core::CommandPtr LiveRuns::run_code(const core::ActivationRequest& request, Taken& taken) const {
  const run::State& state = run_state(request);
  if (taken.instance == nullptr) {
    auto made = make(request);
    if (!made) {
      return stuck({.code = made.error().code,
                    .expected = state.workflow + " version " + state.version,
                    .actual = {},
                    .event_seq = 0,
                    .path = {},
                    .message = made.error().message});
    }
    taken.instance = std::move(*made);
  }
  run::ApplyActivation output = taken.instance->activate(request, state);
  // Code that has ended and said all is not asked again: a closed run keeps no coroutine.
  if (taken.instance->ended() && !output.more) taken.instance.reset();
  return command_of(std::move(output));
}

}  // namespace sandglass::engine::workflow
