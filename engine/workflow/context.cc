#include "engine/workflow/context.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "engine/base/hash.h"
#include "engine/workflow/checkpoint.h"
#include "engine/workflow/instance.h"

namespace sandglass::engine::workflow {
namespace {

using base::Code;

base::Error cancelled_error() {
  return {Code::cancelled, "cancelled on request"};
}

/// Path separators inside names are escaped, so that no two places have one path.
std::string escape(std::string_view name) {
  std::string safe;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '#' || c == '[' || c == ']' || c == '%' || c == '?' || byte < 0x20 || byte == 0x7F) {
      constexpr char kDigits[] = "0123456789ABCDEF";
      safe += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      safe += c;
    }
  }
  return safe;
}

Result<Json> json_of(const core::SlotPtr& slot) {
  if (!slot) return Json(nullptr);
  if (slot->encoding != core::Encoding::json) return Json(slot->bytes);
  Json value = Json::parse(slot->bytes, nullptr, false);
  if (value.is_discarded()) return base::fail(Code::payload_invalid, "a recorded payload is not JSON");
  return value;
}

base::Error failure_of(const Delivery& delivery) {
  std::string message =
      delivery.message.empty() ? std::string(base::title_of(delivery.code)) : delivery.message;
  return {delivery.code, std::move(message)};
}

struct AttributeJson {
  Json operator()(const std::string& text) const { return {{"keyword", text}}; }
  Json operator()(std::int64_t number) const { return {{"integer", number}}; }
  Json operator()(double number) const { return {{"float", number}}; }
  Json operator()(bool yes) const { return {{"bool", yes}}; }
  Json operator()(run::AttributeTime time) const { return {{"time", time.ms}}; }
};

base::Hash256 chance(const RunInfo& info, std::string_view path) {
  base::Sha256 hash;
  hash.update("sandglass chance 1").update_u64(info.history_root.size()).update(info.history_root);
  return hash.update(path).finish();
}

}  // namespace

Context::Context(Instance& instance, CancelScope& scope, std::string prefix)
    : instance_(instance), scope_(scope), prefix_(std::move(prefix)) {}

std::string Context::next_path(std::string_view name) {
  std::string place = prefix_ + "/" + escape(name);
  const std::uint64_t ordinal = instance_.next_ordinal(place);
  return std::move(place) + "#" + std::to_string(ordinal);
}

std::string Context::inner(std::string_view level) const {
  return prefix_ + "/" + (level.starts_with('[') ? std::string(level) : escape(level));
}

ReadyQueue& Context::queue() {
  return instance_.queue();
}
const RunInfo& Context::info() const {
  return instance_.info();
}
std::int64_t Context::now_ms() const {
  return instance_.now_ms();
}

Result<core::Payload> Context::payload_of(const Json& value) const {
  std::string bytes;
  try {
    bytes = value.dump();
  } catch (const Json::exception& error) {
    return base::fail(Code::payload_invalid, std::string("a payload is not valid JSON: ") + error.what());
  }
  if (bytes.size() > run::kMaxPayloadBytes) {
    return base::fail(Code::record_too_large, "a payload has " + std::to_string(bytes.size()) +
                                                  " bytes; at most " + std::to_string(run::kMaxPayloadBytes) +
                                                  " are recorded, larger content is kept as artifact");
  }
  return instance_.payload(core::Encoding::json, std::move(bytes));
}

Result<core::ContentDigest> Context::digest(const Json& value) const {
  auto payload = payload_of(value);
  if (!payload) return std::unexpected(payload.error());
  return payload->digest;
}

Task<StepResult> Context::run_step(std::string name, std::string activity, Json input,
                                   run::StepOptions options) {
  if (cancelled()) co_return StepResult{.value = std::unexpected(cancelled_error()), .details = {}};
  auto payload = payload_of(input);
  if (!payload) co_return StepResult{.value = std::unexpected(payload.error()), .details = {}};
  const std::string path = next_path(name);
  Wait wait(instance_, &scope_, {{WaitKind::step, path}});
  instance_.issue(run::ScheduleStep{path, std::move(activity), std::move(*payload), options});
  Delivery delivery = co_await wait;
  if (delivery.cancelled) {
    instance_.issue(run::CancelStep{path});
    co_return StepResult{.value = std::unexpected(cancelled_error()), .details = {}};
  }
  if (delivery.outcome == core::Outcome::done)
    co_return StepResult{.value = json_of(delivery.payload), .details = {}};
  co_return StepResult{.value = std::unexpected(failure_of(delivery)),
                       .side = delivery.side,
                       .details = json_of(delivery.details).value_or(Json(nullptr))};
}

Task<Result<Json>> Context::step(std::string name, std::string activity, Json input,
                                 run::StepOptions options) {
  StepResult result = co_await run_step(std::move(name), std::move(activity), std::move(input), options);
  co_return std::move(result.value);
}

Task<OperationResult> Context::operation(std::string name, std::string tool, Json input,
                                         run::OperationOptions options) {
  OperationResult result;
  if (cancelled()) {
    result.code = Code::cancelled;
    co_return result;
  }
  auto payload = payload_of(input);
  if (!payload) {
    result.code = payload.error().code;
    result.message = payload.error().message;
    co_return result;
  }
  const std::string path = next_path(name);
  instance_.issue(run::ScheduleOperation{path, std::move(tool), std::move(*payload), std::move(options)});
  Wait wait(instance_, &scope_, {{WaitKind::operation, path}});
  Delivery delivery = co_await wait;
  if (delivery.cancelled) {
    // What is out may happen: its outcome is waited for in any case.
    instance_.issue(run::CancelOperation{path});
    Wait settled(instance_, nullptr, {{WaitKind::operation, path}});
    delivery = co_await settled;
  }
  result.outcome = delivery.outcome;
  result.code = delivery.code;
  result.side = delivery.side;
  result.message = std::move(delivery.message);
  result.result = json_of(delivery.payload).value_or(Json(nullptr));
  co_return result;
}

Task<Status> Context::sleep_until(std::int64_t wall_ms) {
  if (cancelled()) co_return std::unexpected(cancelled_error());
  const std::string path = next_path("sleep");
  Wait wait(instance_, &scope_, {{WaitKind::timer, path}});
  instance_.issue(run::StartTimer{path, wall_ms});
  const Delivery delivery = co_await wait;
  if (!delivery.cancelled) co_return Status{};
  instance_.issue(run::CancelTimer{path});
  co_return std::unexpected(cancelled_error());
}

Task<Status> Context::sleep(std::int64_t duration_ms) {
  return sleep_until(now_ms() + std::max<std::int64_t>(duration_ms, 0));
}

std::uint64_t Context::random() {
  const base::Hash256 hash = chance(info(), next_path("random"));
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | hash.bytes[static_cast<std::size_t>(i)];
  return value;
}

std::string Context::uuid() {
  base::Hash256 hash = chance(info(), next_path("uuid"));
  hash.bytes[6] = static_cast<std::uint8_t>((hash.bytes[6] & 0x0F) | 0x40);  // version 4, variant 1
  hash.bytes[8] = static_cast<std::uint8_t>((hash.bytes[8] & 0x3F) | 0x80);
  const std::string hex = hash.hex().substr(0, 32);
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

Task<Result<Json>> Context::wait_signal(std::string name, std::int64_t timeout_ms) {
  if (cancelled()) co_return std::unexpected(cancelled_error());
  const std::string path = next_path(name);
  if (const auto unread = instance_.take_unread(name)) {
    instance_.issue(run::TakeSignal{path, unread->number});
    co_return json_of(unread->payload);
  }
  std::vector<Wait::Key> keys{{WaitKind::signal, name}};
  if (timeout_ms > 0) {
    keys.push_back({WaitKind::timer, path});
    instance_.issue(run::StartTimer{path, now_ms() + timeout_ms});
  }
  Wait wait(instance_, &scope_, std::move(keys));
  const Delivery delivery = co_await wait;
  if (timeout_ms > 0 && (delivery.cancelled || delivery.from == WaitKind::signal)) {
    instance_.issue(run::CancelTimer{path});
  }
  if (delivery.cancelled) co_return std::unexpected(cancelled_error());
  if (delivery.from == WaitKind::timer) {
    co_return base::fail(Code::timed_out,
                         "no signal " + name + " came within " + std::to_string(timeout_ms) + " ms");
  }
  instance_.issue(run::TakeSignal{path, delivery.number});
  co_return json_of(delivery.payload);
}

Task<Status> Context::until(std::function<bool()> condition) {
  while (!cancelled() && !condition()) {
    Wait wait(instance_, &scope_, {{WaitKind::condition, {}}});
    const Instance::Watch watch(instance_, condition, wait);
    co_await wait;
  }
  if (cancelled()) co_return std::unexpected(cancelled_error());
  co_return Status{};
}

QueryHandler Context::on_query(std::string name, QueryHandler::Code code) {
  return {instance_.handlers(), std::move(name), std::move(code)};
}

UpdateHandler Context::on_update(std::string name, UpdateHandler::Check check, UpdateHandler::Code code) {
  return {instance_.handlers(), std::move(name), std::move(check), std::move(code)};
}

Task<Status> Context::updates_done() {
  if (queue().tree() != 0)
    co_return base::fail(Code::invalid_argument, "the code of an update cannot wait for its own end");
  co_return co_await until([this] { return !instance_.handlers().busy(); });
}

Task<Result<ExchangeAnswer>> Context::exchange(std::string name, ExchangeRequest request) {
  if (cancelled()) co_return std::unexpected(cancelled_error());
  core::Payload payload;
  if (request.payload) {
    auto made = payload_of(*request.payload);
    if (!made) co_return std::unexpected(made.error());
    payload = std::move(*made);
  }
  const std::string path = next_path(name);
  std::vector<Wait::Key> keys{{WaitKind::exchange, path}};
  instance_.issue(run::OpenExchange{path, request.target, std::move(request.body), std::move(payload)});
  if (request.timeout_ms > 0) {
    keys.push_back({WaitKind::timer, path});
    instance_.issue(run::StartTimer{path, now_ms() + request.timeout_ms});
  }
  Wait wait(instance_, &scope_, std::move(keys));
  Delivery delivery = co_await wait;
  if (request.timeout_ms > 0 && delivery.from != WaitKind::timer) instance_.issue(run::CancelTimer{path});
  if (delivery.cancelled || delivery.from == WaitKind::timer) instance_.issue(run::WithdrawExchange{path});
  if (delivery.cancelled) co_return std::unexpected(cancelled_error());
  if (delivery.from == WaitKind::timer) {
    co_return base::fail(Code::timed_out,
                         "no answer to " + name + " within " + std::to_string(request.timeout_ms) + " ms");
  }
  auto answer = json_of(delivery.payload);
  if (!answer) co_return std::unexpected(answer.error());
  co_return ExchangeAnswer{path, delivery.source, std::move(delivery.body), std::move(*answer)};
}

Status Context::send(std::string name, const core::StreamId& target, core::MessageBody body,
                     const std::optional<Json>& payload) {
  core::Payload made;
  if (payload) {
    auto bytes = payload_of(*payload);
    if (!bytes) return std::unexpected(bytes.error());
    made = std::move(*bytes);
  }
  instance_.issue(run::SendMessage{next_path(name), target, std::move(body), std::move(made)});
  return {};
}

Task<Status> Context::release_lease(std::string lease) {
  std::optional<Code> ended = instance_.lease_ended(lease);
  if (!ended) {
    instance_.issue(run::ReleaseLease{next_path("release"), lease});
    Wait wait(instance_, nullptr, {{WaitKind::lease, lease}});
    ended = (co_await wait).code;
  }
  if (*ended == Code::ok) co_return Status{};
  co_return base::fail(*ended, "the lease had ended: " + std::string(base::title_of(*ended)));
}

std::optional<base::Code> Context::lease_ended(const std::string& lease) const {
  return instance_.lease_ended(lease);
}

Result<ChildHandle> Context::start_child(std::string name, std::string workflow, const Json& input,
                                         ChildOptions options) {
  if (cancelled()) return std::unexpected(cancelled_error());
  auto payload = payload_of(input);
  if (!payload) return std::unexpected(payload.error());
  ChildHandle handle{.path = next_path(name), .run = {}};
  handle.run = run::child_id(info().effect_root, handle.path);
  auto started = instance_.start_child(
      {handle.path, std::move(workflow), std::move(options.version), std::move(*payload), options.on_close});
  if (!started) return std::unexpected(started.error());
  return handle;
}

/// In a cancelled scope: the child is told, and its end waited for.
Task<ChildResult> Context::join(ChildHandle child) {
  std::optional<Delivery> end = instance_.take_ended_child(child.path);
  if (!end && !cancelled()) {
    Wait wait(instance_, &scope_, {{WaitKind::child, child.path}});
    end = co_await wait;
  }
  if (!end || end->cancelled) {
    instance_.issue(run::CancelChild{child.path});
    Wait ended(instance_, nullptr, {{WaitKind::child, child.path}});
    end = co_await ended;
  }
  ChildResult result{.value = Json(), .side = end->side, .how = end->end, .run = end->source};
  if (end->end == core::RunEnd::completed) {
    result.value = json_of(end->payload);
    co_return result;
  }
  std::string why = end->message;
  const Json details = json_of(end->payload).value_or(Json());
  if (details.is_object()) why = details.value("message", why);
  if (why.empty()) why = base::title_of(end->code);
  result.value = base::fail(
      end->code, "child run " + end->source.text() + " " + std::string(name_of(end->end)) + ": " + why);
  co_return result;
}

Task<ChildResult> Context::run_child(std::string name, std::string workflow, Json input,
                                     ChildOptions options) {
  auto started = start_child(std::move(name), std::move(workflow), input, std::move(options));
  if (!started) co_return ChildResult{.value = std::unexpected(started.error()), .run = {}};
  co_return co_await join(std::move(*started));
}

Task<Result<Json>> Context::child(std::string name, std::string workflow, Json input, ChildOptions options) {
  ChildResult result =
      co_await run_child(std::move(name), std::move(workflow), std::move(input), std::move(options));
  co_return std::move(result.value);
}

ContinueAwaiter Context::continue_as_new(Json input) {
  return {*this, std::move(input)};
}

Status ContinueAwaiter::record(void* frame) {
  auto payload = context_.payload_of(input_);
  if (!payload) return std::unexpected(payload.error());
  if (&context_ != context_.instance_.root_context()) {
    return base::fail(Code::checkpoint_misplaced,
                      "a run goes on as new only from the root, not from a branch or scope");
  }
  return context_.instance_.continue_as_new(frame, std::move(*payload));
}

void Context::set_phase(run::Phase phase) {
  instance_.issue(run::SetPhase{next_path("phase"), phase});
}

Status Context::set_attributes(const run::Attributes& attributes) {
  if (attributes.size() > run::kMostAttributes) {
    return base::fail(Code::invalid_argument,
                      "a run has at most " + std::to_string(run::kMostAttributes) + " search attributes");
  }
  Json json = Json::object();
  for (const auto& [name, value] : attributes) {
    if (!run::is_attribute_name(name)) {
      return base::fail(Code::invalid_argument, "the search attribute \"" + name +
                                                    "\" has a name of other characters than letters, digits "
                                                    "and \"_\", or too long a name");
    }
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr && text->size() > run::kLongestAttribute) {
      return base::fail(Code::invalid_argument, "the search attribute \"" + name + "\" has more than " +
                                                    std::to_string(run::kLongestAttribute) + " bytes");
    }
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr && !std::isfinite(*number))
      return base::fail(Code::invalid_argument, "the search attribute \"" + name + "\" is no number");
    json[name] = std::visit(AttributeJson{}, value);
  }
  auto payload = payload_of(json);
  if (!payload) return std::unexpected(payload.error());
  instance_.issue(run::SetAttributes{next_path("attributes"), std::move(*payload)});
  return {};
}

bool Context::patched(const std::string& id) {
  return instance_.patched(id);
}

void Context::log(base::LogLevel level, std::string_view event,
                  std::initializer_list<base::LogField> fields) const {
  if (!instance_.replaying()) base::log(level, event, fields);
}

Status CheckpointAwaiter::record(void* frame) {
  if (&context_ != context_.instance_.root_context()) {
    return base::fail(Code::checkpoint_misplaced,
                      "a checkpoint is legal only in the root, not in a branch or scope");
  }
  return context_.instance_.checkpoint(frame, schema_version_, std::move(bytes_));
}

Task<Result<Json>> failed_task(base::Error error) {
  co_return std::unexpected(std::move(error));
}

}  // namespace sandglass::engine::workflow
