#include "activities/operations/effect_operations.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/crash_point.h"

namespace sandglass::activities::operations {

namespace {

/// Attempts that ended longer ago than any tool's settle_ms need not be remembered.
constexpr std::int64_t kLongestSettleMs = 3'600'000;
constexpr std::size_t kManyInDoubt = 1024;

std::string_view input_of(const core::ActivityCall& call) {
  return call.input == nullptr ? std::string_view() : std::string_view(call.input->bytes);
}

core::ActivityResult not_done(base::Code code, std::string message) {
  return {.outcome = core::Outcome::not_done, .code = code, .message = std::move(message)};
}

core::ActivityResult unknown_tool(const std::string& tool) {
  return not_done(base::Code::tool_unknown,
                  "no tool named \"" + tool + "\" performs effects here; nothing was sent");
}

}  // namespace

/// Asks outside whether an effect has happened. Needs no place: it repairs what holds others up.
class EffectOperations::Probe final : public core::Activity {
 public:
  Probe(EffectOperations& owner, std::string tool) : owner_(owner), tool_(std::move(tool)) {}
  void start(core::ActivityCall call, core::ActivityDone done) override {
    owner_.ask(tool_, std::move(call), std::move(done));
  }
  void cancel(const core::StreamId&, const std::string&, const core::Token&) override {
  }  // a question; let it end

 private:
  EffectOperations& owner_;
  std::string tool_;
};

EffectOperations::EffectOperations(core::EffectExecutor& executor, const EffectTools& tools,
                                   const base::Clock& clock, EffectLimits limits)
    : executor_(executor), tools_(tools), clock_(clock), limits_(limits) {}

EffectOperations::~EffectOperations() = default;

std::shared_ptr<core::Activity> EffectOperations::probe_activity(const std::string& tool) {
  return std::make_shared<Probe>(*this, tool);
}

void EffectOperations::reserve(core::ActivityCall call, core::ActivityDone done) {
  const auto tool = tools_.find(call.name);
  if (tool == tools_.end()) return done(unknown_tool(call.name));
  waiting_.push_back({.name = {call.stream, call.path},
                      .token = call.token,
                      .target = tool->second->target(input_of(call)),
                      .done = std::move(done)});
  give_places();
}

void EffectOperations::perform(core::ActivityCall call, std::int64_t permit_ms, core::ActivityDone done) {
  const Name name{call.stream, call.path};
  const auto held = held_.find(name);
  const bool has_place = held != held_.end();
  std::string target = has_place ? held->second.target : std::string();
  if (has_place) held_.erase(held);
  const auto tool = tools_.find(call.name);
  if (tool == tools_.end()) {
    if (has_place) free(target);
    return done(unknown_tool(call.name));
  }
  auto intent = tool->second->intent(input_of(call), call.key);
  if (!intent) {
    if (has_place) free(target);
    return done(not_done(intent.error().code, intent.error().message + "; nothing was sent"));
  }
  if (!has_place) {  // the place was taken back meanwhile: the intent is durable, so it counts all the same
    target = tool->second->target(input_of(call));
    ++of_target_[target];
    ++in_use_;
  }
  intent->permit_ms = permit_ms;
  intent->attempt_timeout_ms = call.start_to_close_ms;
  SG_CRASH_POINT("operations.before_effect");
  submit(
      *std::move(intent),
      {.name = name, .target = target, .tool = tool->second.get(), .key = call.key, .done = std::move(done)});
}

void EffectOperations::ask(const std::string& tool_name, core::ActivityCall call, core::ActivityDone done) {
  const auto tool = tools_.find(tool_name);
  if (tool == tools_.end()) return done(unknown_tool(tool_name));
  auto intent = tool->second->probe(input_of(call), call.key);
  if (!intent) return done(not_done(intent.error().code, intent.error().message));
  const std::int64_t limit = call.start_to_close_ms > 0 ? call.start_to_close_ms : 30'000;
  SG_CRASH_POINT("operations.before_probe");
  intent->permit_ms = limit;
  intent->attempt_timeout_ms = limit;
  submit(*std::move(intent),
         {.name = {call.stream, call.path},
          .target = {},
          .tool = tool->second.get(),
          .key = call.key,
          .probe = true,
          .settled = quiet_ms(call.key) >= std::max<std::int64_t>(1, tool->second->settle_ms(input_of(call))),
          .done = std::move(done)});
}

std::int64_t EffectOperations::quiet_ms(const std::string& key) const {
  const bool at_work = std::ranges::any_of(
      running_, [&](const auto& entry) { return !entry.second.probe && entry.second.key == key; });
  if (at_work) return 0;
  std::int64_t since = executor_.alone_since_ms();
  if (const auto ended = in_doubt_.find(key); ended != in_doubt_.end())
    since = std::max(since, ended->second);
  return std::max<std::int64_t>(0, now_ms() - since);
}

void EffectOperations::note_end(const Running& attempt, core::Outcome outcome) {
  if (outcome != core::Outcome::unknown) {
    in_doubt_.erase(attempt.key);
    return;
  }
  if (in_doubt_.size() >= kManyInDoubt) {
    std::erase_if(in_doubt_, [&](const auto& entry) { return now_ms() - entry.second > kLongestSettleMs; });
  }
  in_doubt_[attempt.key] = now_ms();
}

void EffectOperations::submit(core::EffectIntent intent, Running running) {
  intent.id = next_id_++;
  running_.emplace(intent.id, std::move(running));
  executor_.submit(std::move(intent));
}

void EffectOperations::cancel(const core::StreamId& stream, const std::string& path,
                              const core::Token& token) {
  const Name name{stream, path};
  const auto waiting = std::ranges::find_if(
      waiting_, [&](const Waiting& entry) { return entry.name == name && entry.token == token; });
  if (waiting != waiting_.end()) {
    core::ActivityDone done = std::move(waiting->done);
    waiting_.erase(waiting);
    done(not_done(base::Code::cancelled, "cancelled while it waited for a place; nothing was sent"));
    return;
  }
  if (const auto held = held_.find(name); held != held_.end()) {
    const std::string target = held->second.target;
    held_.erase(held);
    free(target);
  }  // what is under way goes on to its outcome: it may happen
}

void EffectOperations::poll() {
  std::vector<core::EffectResult> results;
  executor_.poll(results);
  for (core::EffectResult& result : results) {
    const auto found = running_.find(result.id);
    if (found == running_.end()) continue;  // late: was answered already
    Running running = std::move(found->second);
    running_.erase(found);
    SG_CRASH_POINT("operations.after_effect");
    core::ActivityResult answer = running.probe ? running.tool->probe_outcome(std::move(result))
                                                : running.tool->outcome(std::move(result));
    if (running.probe) {
      SG_CRASH_POINT("operations.after_probe");
      if (answer.outcome == core::Outcome::not_done && answer.code == base::Code::effect_not_done) {
        answer.retryable = running.settled;
      }
      running.done(std::move(answer));
    } else {
      note_end(running, answer.outcome);
      running.done(std::move(answer));
      free(running.target);
    }
  }
  for (auto held = held_.begin(); held != held_.end();) {
    if (now_ms() - held->second.since_ms < limits_.unused_ms) {
      ++held;
      continue;
    }
    const std::string target = held->second.target;
    held = held_.erase(held);
    free(target);
    held = held_.begin();  // free() may have given places
  }
}

void EffectOperations::free(const std::string& target) {
  --in_use_;
  const auto count = of_target_.find(target);
  if (--count->second == 0) of_target_.erase(count);
  give_places();
}

void EffectOperations::give_places() {
  if (giving_) return;  // an answer may ask for more
  giving_ = true;
  for (bool gave = true; gave;) {
    gave = false;
    if (in_use_ >= limits_.in_flight) break;
    const auto next = std::ranges::find_if(waiting_, [&](const Waiting& entry) {
      const auto count = of_target_.find(entry.target);
      return count == of_target_.end() || count->second < limits_.per_target;
    });
    if (next == waiting_.end()) break;
    Waiting entry = std::move(*next);
    waiting_.erase(next);
    ++in_use_;
    ++of_target_[entry.target];
    if (const auto old = held_.find(entry.name); old != held_.end()) {  // asked twice: one place is enough
      --in_use_;
      if (--of_target_[old->second.target] == 0) of_target_.erase(old->second.target);
    }
    held_[entry.name] = {entry.target, now_ms()};
    SG_CRASH_POINT("operations.place_given");
    entry.done({.outcome = core::Outcome::done, .encoding = core::Encoding::none});
    gave = true;
  }
  giving_ = false;
}

}  // namespace sandglass::activities::operations
