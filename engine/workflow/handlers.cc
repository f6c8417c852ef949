#include "engine/workflow/handlers.h"

#include <exception>
#include <utility>

#include "engine/core/ports/activator.h"
#include "engine/run/types.h"
#include "engine/workflow/context.h"
#include "engine/workflow/instance.h"

namespace sandglass::engine::workflow {
namespace {

using base::Code;

Json json_of(const core::SlotPtr& slot) {
  if (!slot) return nullptr;
  Json value = Json::parse(slot->bytes, nullptr, false);
  return value.is_discarded() ? Json(nullptr) : value;
}

template <class Map>
std::string names_in(const Map& map) {
  std::string names;
  for (const auto& [name, handler] : map) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

Result<std::string> text_of(const Json& answer) {
  std::string text = answer.dump();
  if (text.size() <= run::kMaxPayloadBytes) return text;
  return base::fail(Code::query_failed, "the answer has " + std::to_string(text.size()) + " bytes; at most " +
                                            std::to_string(run::kMaxPayloadBytes) + " are given");
}

}  // namespace

QueryHandler::QueryHandler(Handlers& handlers, std::string name, Code code)
    : handlers_(handlers), name_(std::move(name)), code_(std::move(code)) {
  handlers_.add(*this);
}
QueryHandler::~QueryHandler() {
  handlers_.remove(*this);
}

UpdateHandler::UpdateHandler(Handlers& handlers, std::string name, Check check, Code code)
    : handlers_(handlers), name_(std::move(name)), check_(std::move(check)), code_(std::move(code)) {
  handlers_.add(*this);
}
UpdateHandler::~UpdateHandler() {
  handlers_.remove(*this);
}

/// An update that is being carried out: its scope, its context and its code, at addresses that stay. Its
/// place in history is "[update N]", which no name and no branch can have.
struct Handlers::Running {
  Running(Instance& instance, const UpdateHandler& taken_by, std::uint64_t its_number)
      : handler(taken_by),
        number(its_number),
        cancel(&instance.root_scope()),
        context(instance, cancel,
                std::to_string(instance.generation()) + "/[update " + std::to_string(number) + "]") {}

  const UpdateHandler& handler;
  const std::uint64_t number;
  CancelScope cancel;
  Context context;
  Task<void> task;  // destroyed first: it uses the above
};

Handlers::Handlers(Instance& instance) : instance_(instance) {}
Handlers::~Handlers() = default;

void Handlers::remove(const QueryHandler& handler) {
  const auto found = queries_.find(handler.name_);
  if (found == queries_.end() || found->second != &handler) return;
  queries_.erase(found);
  if (forgotten_ || expected_ == nullptr || expected_->kind != core::Question::Kind::query ||
      expected_->name != handler.name_) {
    return;
  }
  farewell_ = answer_query(handler, json_of(expected_->input));
}

void Handlers::remove(const UpdateHandler& handler) {
  const auto found = updates_.find(handler.name_);
  if (found != updates_.end() && found->second == &handler) updates_.erase(found);
  for (auto one = running_.begin(); one != running_.end();) {
    if (&(*one)->handler != &handler) {
      ++one;
      continue;
    }
    const std::uint64_t number = (*one)->number;
    if (!forgotten_ && !(*one)->task.done()) {
      instance_.complete_update(
          number,
          base::fail(Code::update_abandoned, "the workflow ended before it was done with the update \"" +
                                                 handler.name_ + "\"; what it did until then stays done"));
    }
    instance_.queue().drop(number);
    one = running_.erase(one);
  }
}

void Handlers::expect(const core::Question* question) {
  expected_ = question;
  if (question != nullptr) farewell_.reset();
}

bool Handlers::forbids() {
  forbidden_ = forbidden_ || asking_;
  return asking_;
}

/// Runs code that may look and nothing else.
template <class CodeFn>
Result<std::string> Handlers::guarded(std::string_view what, Code failed, CodeFn code) {
  asking_ = true;
  forbidden_ = false;
  Result<std::string> answer = base::fail(failed, std::string(what) + " gave no answer");
  try {
    answer = code();
  } catch (const std::exception& thrown) {
    spoiled_ = true;
    answer = base::fail(failed, std::string(what) + " threw: " + thrown.what());
  } catch (...) {
    spoiled_ = true;
    answer = base::fail(failed, std::string(what) + " threw something that is no std::exception");
  }
  asking_ = false;
  if (!forbidden_) return answer;
  spoiled_ = true;
  return base::fail(failed, std::string(what) +
                                " asked for something that goes into history (a step, a message, chance, a "
                                "phase …); it may only look at the workflow's state");
}

Result<std::string> Handlers::answer_query(const QueryHandler& handler, const Json& input) {
  return guarded("the code of query \"" + handler.name_ + "\"", Code::query_failed,
                 [&]() -> Result<std::string> {
                   const Result<Json> answer = handler.code_(input);
                   if (!answer) return std::unexpected(answer.error());
                   return text_of(*answer);
                 });
}

Result<std::string> Handlers::answer_consent(const core::Question& question) {
  const auto found = updates_.find(question.name);
  if (found == updates_.end()) {
    return base::fail(Code::update_unknown, "the workflow takes no update \"" + question.name +
                                                "\" now; it takes: " + names_in(updates_));
  }
  const UpdateHandler& handler = *found->second;
  return guarded(
      "the check of update \"" + question.name + "\"", Code::update_failed, [&]() -> Result<std::string> {
        if (!handler.check_) return std::string();
        const Status agreed = handler.check_(json_of(question.input));
        if (agreed) return std::string();
        return base::fail(Code::update_refused,
                          "the workflow refuses update \"" + question.name + "\": " + agreed.error().message);
      });
}

Result<std::string> Handlers::answer(const core::Question& question) {
  if (question.kind == core::Question::Kind::consent) return answer_consent(question);
  const auto found = queries_.find(question.name);
  if (found != queries_.end()) return answer_query(*found->second, json_of(question.input));
  if (farewell_) return *std::exchange(farewell_, std::nullopt);
  return base::fail(Code::query_unknown, "the workflow answers no query \"" + question.name +
                                             "\" now; it answers: " + names_in(queries_));
}

bool Handlers::start(std::uint64_t number, std::string_view name, Json input) {
  const auto found = updates_.find(name);
  if (found == updates_.end()) return false;
  Running& update = *running_.emplace_back(std::make_unique<Running>(instance_, *found->second, number));
  update.task = carry_out(update, std::move(input));
  update.task.start(instance_.queue(), number);
  return true;
}

/// A throw is the update's answer: neither the update is lost nor the run (FR-64).
Task<void> Handlers::carry_out(Running& update, Json input) {
  const std::string what = "the code of update \"" + update.handler.name_ + "\"";
  Result<Json> result = base::fail(Code::update_failed, what + " gave no answer");
  try {
    result = co_await update.handler.code_(update.context, std::move(input));
  } catch (const std::exception& thrown) {
    result = base::fail(Code::update_failed, what + " threw: " + thrown.what());
  } catch (...) {
    result = base::fail(Code::update_failed, what + " threw something that is no std::exception");
  }
  instance_.complete_update(update.number, std::move(result));
}

void Handlers::reap() {
  std::erase_if(running_, [](const auto& update) { return update->task.done(); });
}

}  // namespace sandglass::engine::workflow
