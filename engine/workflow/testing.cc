#include "engine/workflow/testing.h"

#include <algorithm>
#include <utility>

#include "engine/workflow/claims.h"
#include "engine/workflow/instance.h"

namespace sandglass::engine::workflow {
namespace {

constexpr auto kTenant = "test tenant";
constexpr auto kTenantKey = "test tenant key";
constexpr std::size_t kCheckEveryPrefix = 150;

std::string tenant_key(const std::string&) {
  return kTenantKey;
}

core::ActivityResult answer_of(const Result<Json>& result) {
  if (result) return {.outcome = core::Outcome::done, .bytes = result->dump(), .message = {}};
  return {.outcome = core::Outcome::not_done,
          .bytes = {},
          .code = result.error().code,
          .retryable = true,
          .message = result.error().message};
}

const std::vector<run::Event>& items(const core::TurnView& turn) {
  return static_cast<const core::Events<run::Event>&>(*turn.events).items;
}

}  // namespace

TestRun::TestRun(const Registry& registry, TestRunOptions options)
    : registry_(&registry),
      options_(std::move(options)),
      stream_(core::StreamId::named(core::StreamKind::run, options_.workflow)),
      digest_key_(kTenantKey, stream_.text()),
      activator_(std::make_unique<InlineActivator>(registry, tenant_key)),
      state_(std::make_shared<core::StateOf<run::State>>()),
      now_ms_(options_.start_ms),
      random_(options_.seed) {
  const std::string version =
      options_.version.empty() ? registry.latest(options_.workflow) : options_.version;
  (void)give(run::StartRun{.workflow = options_.workflow,
                           .version = version,
                           .tenant = kTenant,
                           .user = "test user",
                           .session = {},
                           .input = digest_key_.make(core::Encoding::json, options_.input.dump()),
                           .history_root = {},
                           .effect_root = {}});
}

void TestRun::activity(const std::string& name, Activity code) {
  activities_[name] = [code = std::move(code)](const core::Action&, const Json& input) {
    return answer_of(code(input));
  };
}
void TestRun::raw_activity(const std::string& name, RawActivity code) {
  activities_[name] = std::move(code);
}

base::Status TestRun::decide_part(const run::Command& command, core::TurnView& record, bool& activate) {
  core::Turn turn;
  turn.first_slot = static_cast<std::uint32_t>(record.slots.size());
  const core::DecideInput input{stream_, record.info.seq, record.info.time_ms, record.info.epoch};
  core::TurnWriter<run::Event> out(turn, input);
  if (auto status = run::RunDecider::decide(state_->value, command, input, out); !status) return status;
  auto next = std::make_shared<core::StateOf<run::State>>(*state_);
  auto events = std::make_shared<core::Events<run::Event>>();
  events->items = items(record);
  for (const run::Event& event : out.events()) {
    run::RunDecider::evolve(next->value, event, record.info);
    events->items.push_back(event);
  }
  state_ = std::move(next);
  record.events = std::move(events);
  record.slots.insert(record.slots.end(), turn.slots.begin(), turn.slots.end());
  for (const auto& timer : turn.timers_ended) {
    const auto [first, last] = timers_.equal_range(timer.due_ms);
    const auto found = std::find_if(first, last, [&](const auto& one) { return one.second == timer.key; });
    if (found != last) timers_.erase(found);
  }
  for (const auto& timer : turn.timers_started) timers_.emplace(timer.due_ms, timer.key);
  for (auto& action : turn.actions) actions_.push_back(std::move(action));
  for (auto& message : turn.messages) messages_.push_back(std::move(message));
  activate = turn.activate;
  return {};
}

base::Status TestRun::give(run::Command command) {
  core::TurnView record{.info = {.seq = history_.size() + 1, .time_ms = now_ms_, .epoch = epoch_},
                        .events = std::make_shared<core::Events<run::Event>>(),
                        .slots = {}};
  bool wanted = false;
  if (auto status = decide_part(command, record, wanted); !status) return status;
  if (items(record).empty()) return {};
  std::size_t shown = 0;
  while (wanted) {
    const std::size_t before = items(record).size();
    activate(record, shown);
    shown = before;
    wanted = false;
    std::vector<core::ActivationAnswer> answers;
    activator_->poll(answers);
    ++activations_;
    for (core::ActivationAnswer& answer : answers) {
      coroutine_head_ = record.info.seq;
      run::Command output = answer.command
                                ? static_cast<const core::CommandOf<run::Command>&>(**answer.command).value
                                : run::Command(core::ActivationFailed{answer.command.error()});
      if (auto status = decide_part(output, record, wanted); !status) return status;
    }
  }
  history_.push_back(std::move(record));
  states_.push_back(state_);
  return {};
}

void TestRun::activate(core::TurnView& record, std::size_t shown) {
  core::ActivationRequest request{.stream = stream_, .head = record.info.seq, .state = state_, .turns = {}};
  core::TurnView open = record;
  if (shown > 0) {
    auto rest = std::make_shared<core::Events<run::Event>>();
    rest->items.assign(items(record).begin() + static_cast<std::ptrdiff_t>(shown), items(record).end());
    open.events = std::move(rest);
  }
  if (options_.evict_everything) activator_->evict(stream_);
  if (coroutine_head_ != 0 && activator_->is_live_at(stream_, coroutine_head_)) {
    // Its own output counts as seen; records without an activation are new to it.
    for (std::size_t i = coroutine_head_; i < history_.size(); ++i) request.turns.push_back(history_[i]);
  } else {
    request.rebuild = true;
    open = record;
    for (std::size_t i = activator_->restart_point(*state_) - 1; i < history_.size(); ++i) {
      request.turns.push_back(history_[i]);
    }
  }
  request.turns.push_back(std::move(open));
  activator_->submit(std::move(request));
}

base::Status TestRun::signal(const std::string& name, const Json& payload) {
  return give(run::Signal{name, digest_key_.make(core::Encoding::json, payload.dump())});
}

void TestRun::deliver(const core::StreamId& source, std::string correlation, core::MessageBody body,
                      const Json& payload) {
  core::Message message;
  message.source = source;
  message.target = stream_;
  message.correlation = std::move(correlation);
  message.body = std::move(body);
  message.payload = digest_key_.make(core::Encoding::json, payload.dump());
  (void)give(core::MessageReceived{std::move(message)});
}

Json TestRun::input_of(const core::Action& action) const {
  core::SlotPtr slot = action.input_slot;
  if (!slot && !action.input.empty()) slot = history_.at(action.input.seq - 1).slots.at(action.input.slot);
  return slot ? Json::parse(slot->bytes) : Json(nullptr);
}

void TestRun::finish(const core::Action& action, core::ActivityResult answer) {
  core::ActionFinished finished{.kind = action.kind,
                                .path = action.path,
                                .token = action.token,
                                .outcome = answer.outcome,
                                .result = {},
                                .code = answer.code,
                                .side = answer.side,
                                .retryable = answer.retryable,
                                .message = std::move(answer.message)};
  if (!answer.bytes.empty()) finished.result = digest_key_.make(answer.encoding, std::move(answer.bytes));
  (void)give(std::move(finished));
}

void TestRun::carry_out(const core::Action& action) {
  if (action.kind == core::ActionKind::cancel) {
    const auto same = [&](const core::Action& other) {
      return other.path == action.path && other.token == action.token;
    };
    std::erase_if(actions_, same);
    std::erase_if(held_, same);
    return;
  }
  if (action.kind == core::ActionKind::reserve)
    return finish(action, {.outcome = core::Outcome::done, .message = {}});
  if (held_names_.contains(action.name)) {
    held_.push_back(action);
    return;
  }
  const auto found = activities_.find(action.name);
  if (found == activities_.end()) {
    return finish(action, {.outcome = core::Outcome::not_done,
                           .bytes = {},
                           .code = base::Code::activity_unknown,
                           .message = "the test has no activity " + action.name});
  }
  finish(action, found->second(action, input_of(action)));
}

bool TestRun::play_one() {
  if (!messages_.empty()) {
    const core::Message message = std::move(messages_.front());
    messages_.pop_front();
    if (peer_) peer_(message);
    return true;
  }
  if (!actions_.empty()) {
    const std::size_t index = options_.seed == 0 ? 0 : random_() % actions_.size();
    const core::Action action = std::move(actions_[index]);
    actions_.erase(actions_.begin() + static_cast<std::ptrdiff_t>(index));
    carry_out(action);
    return true;
  }
  if (timers_.empty()) return false;
  const auto [due_ms, key] = *timers_.begin();
  timers_.erase(timers_.begin());
  now_ms_ = std::max(now_ms_, due_ms);
  (void)give(core::TimerFired{key, due_ms});
  return true;
}

void TestRun::play() {
  while (state().status != run::RunStatus::stuck && play_one()) {
  }
}

core::ActivationRequest TestRun::request_now() {
  core::ActivationRequest request{.stream = stream_, .head = history_.size(), .state = state_, .turns = {}};
  if (options_.evict_everything) activator_->evict(stream_);
  request.rebuild = coroutine_head_ == 0 || !activator_->is_live_at(stream_, coroutine_head_);
  const std::size_t first = request.rebuild ? activator_->restart_point(*state_) - 1 : coroutine_head_;
  for (std::size_t i = first; i < history_.size(); ++i) request.turns.push_back(history_[i]);
  return request;
}

Result<std::string> TestRun::ask(core::Question question) {
  core::ActivationRequest request = request_now();
  request.question = std::move(question);
  activator_->submit(std::move(request));
  std::vector<core::ActivationAnswer> answers;
  activator_->poll(answers);
  coroutine_head_ = activator_->is_live_at(stream_, history_.size()) ? history_.size() : 0;
  return *answers.at(0).said;
}

Result<Json> TestRun::query(const std::string& name, const Json& input) {
  auto said = ask({.kind = core::Question::Kind::query,
                   .name = name,
                   .input = digest_key_.make(core::Encoding::json, input.dump()).slot});
  if (!said) return std::unexpected(said.error());
  return Json::parse(*said);
}

Result<std::uint64_t> TestRun::update(const std::string& name, const Json& input) {
  const core::Payload payload = digest_key_.make(core::Encoding::json, input.dump());
  const auto consent = ask({.kind = core::Question::Kind::consent, .name = name, .input = payload.slot});
  if (!consent) return std::unexpected(consent.error());
  const std::uint64_t number = state().last_update + 1;
  if (auto given = give(run::Update{name, payload}); !given) return std::unexpected(given.error());
  return number;
}

Result<Json> TestRun::update_result(std::uint64_t number) const {
  for (const core::TurnView& turn : history_) {
    for (const run::Event& event : items(turn)) {
      if (const auto* gone = std::get_if<run::UpdateAbandoned>(&event); gone && gone->number == number) {
        return base::fail(base::Code::update_abandoned, "the run has ended");
      }
      const auto* done = std::get_if<run::UpdateCompleted>(&event);
      if (done == nullptr || done->number != number) continue;
      const Json result =
          done->result.empty() ? Json(nullptr) : Json::parse(turn.slots.at(done->result.slot)->bytes);
      if (done->code == base::Code::ok) return result;
      return base::fail(done->code, result.is_object() ? result.value("message", "") : "");
    }
  }
  return base::fail(base::Code::unavailable, "the update has not been answered");
}

bool TestRun::finish_held(const std::string& path, const Result<Json>& answer) {
  const auto found =
      std::ranges::find_if(held_, [&](const core::Action& action) { return action.path == path; });
  if (found == held_.end()) return false;
  const core::Action action = std::move(*found);
  held_.erase(found);
  finish(action, answer_of(answer));
  return true;
}

std::vector<std::string> TestRun::held_paths() const {
  std::vector<std::string> paths;
  for (const core::Action& action : held_) paths.push_back(action.path);
  return paths;
}

void TestRun::restart(const Registry& registry) {
  registry_ = &registry;
  activator_ = std::make_unique<InlineActivator>(registry, tenant_key);
  coroutine_head_ = 0;
  ++epoch_;
  actions_.clear();
  held_.clear();
  std::vector<core::Action> again;
  run::RunDecider::pending(state(), {stream_, history_.size() + 1, now_ms_, epoch_}, again);
  actions_.assign(again.begin(), again.end());
}

Result<Json> TestRun::result() const {
  const run::State& state = this->state();
  if (state.open()) return base::fail(base::Code::unavailable, "the run has not ended");
  const core::SlotPtr slot =
      state.result.empty() ? nullptr : history_.at(state.result.seq - 1).slots.at(state.result.slot);
  if (state.status == run::RunStatus::completed) return slot ? Json::parse(slot->bytes) : Json(nullptr);
  const Json details = slot ? Json::parse(slot->bytes, nullptr, false) : Json(nullptr);
  return base::fail(state.end_code,
                    details.is_object() ? details.value("message", std::string()) : std::string());
}

std::vector<run::Event> TestRun::events() const {
  std::vector<run::Event> all;
  for (const core::TurnView& turn : history_) all.insert(all.end(), items(turn).begin(), items(turn).end());
  return all;
}

std::string TestRun::check_replay() const {
  const std::size_t first = history_.size() <= kCheckEveryPrefix ? 1 : history_.size();
  for (std::size_t length = first; length <= history_.size(); ++length) {
    const run::State& state = states_[length - 1]->value;
    if (state.status == run::RunStatus::stuck) continue;
    const Workflow* workflow = registry_->find(state.workflow, state.version);
    if (workflow == nullptr) return "no such workflow is registered";
    RunInfo info{.stream = stream_,
                 .workflow = state.workflow,
                 .version = state.version,
                 .tenant = state.tenant,
                 .user = state.user,
                 .session = state.session,
                 .history_root = state.history_root,
                 .effect_root = state.effect_root};
    Instance instance(*registry_, *workflow, std::move(info), digest_key_);
    core::ActivationRequest request{
        .stream = stream_, .head = length, .state = states_[length - 1], .turns = {}};
    const std::size_t restart = state.restart_seq == 0 ? 1 : state.restart_seq;
    request.turns.assign(history_.begin() + static_cast<std::ptrdiff_t>(restart - 1),
                         history_.begin() + static_cast<std::ptrdiff_t>(length));
    const run::ApplyActivation output = instance.activate(request, state);
    const std::string where = "replay up to record " + std::to_string(length) + ": ";
    if (output.stuck) {
      return where + output.stuck->message + "; expected " + output.stuck->expected + ", actual " +
             output.stuck->actual;
    }
    if (!output.commands.empty()) return where + "new " + describe(claim_of(output.commands.front()));
  }
  return {};
}

}  // namespace sandglass::engine::workflow
