// Turns plain structs into facts by the names of their fields: an event or state that uses a name listed here
// is shown without further code. Internal to replay-tools/replay.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/base/codes.h"
#include "engine/core/decider.h"
#include "engine/core/messages/message.h"
#include "engine/run/state.h"
#include "engine/run/types.h"
#include "replay-tools/replay/facts.h"

namespace sandglass::replay_tools::replay {

/// The type's own name: "StepScheduled".
template <class Type>
std::string type_name() {
  // "… [Type = ns::Name]": the text between the last "::" (or "= ") and the bracket.
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(text.find("Type = ") + 7);
  text = text.substr(0, text.find_first_of(";]"));
  const auto colon = text.rfind(':');
  return std::string(colon == std::string_view::npos ? text : text.substr(colon + 1));
}

// Values that are one line. Overloads, then anything else that is a struct.
inline std::string text_of(const std::string& value) {
  return value;
}
inline std::string text_of(bool value) {
  return value ? "true" : "false";
}
template <std::integral Number>
std::string text_of(Number value) {
  return std::to_string(value);
}
inline std::string text_of(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}
inline std::string text_of(engine::base::Code value) {
  return std::string(engine::base::name_of(value));
}
inline std::string text_of(engine::run::RunStatus value) {
  return std::string(engine::run::name_of(value));
}
inline std::string text_of(engine::run::Phase value) {
  return std::string(engine::run::name_of(value));
}
inline std::string text_of(engine::run::Recovery value) {
  return std::string(engine::run::name_of(value));
}
inline std::string text_of(engine::core::OutcomeVerdict value) {
  return std::string(engine::core::name_of(value));
}
inline std::string text_of(engine::run::OperationStatus value) {
  return std::string(engine::run::name_of(value));
}
inline std::string text_of(engine::core::RunEnd value) {
  return std::string(engine::core::name_of(value));
}
inline std::string text_of(engine::run::ClosePolicy value) {
  return std::string(engine::run::name_of(value));
}
std::string text_of(engine::core::FailureSide value);
std::string text_of(engine::core::Outcome value);
std::string text_of(engine::run::ExchangeKind value);
std::string text_of(const engine::core::PayloadRef& value);  // "record 5 slot 0, 120 bytes"; empty: ""
inline std::string text_of(const engine::core::ContentDigest& value) {
  return value.hash.is_zero() ? "" : value.hash.hex();
}
inline std::string text_of(const engine::core::StreamId& value) {
  return value == engine::core::StreamId{} ? "" : value.text();
}
inline std::string text_of(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}
inline std::string text_of(const std::set<std::string, std::less<>>& values) {
  return text_of(std::vector<std::string>(values.begin(), values.end()));
}

template <class Value>
concept OneLine = requires(const Value& value) {
  { text_of(value) } -> std::same_as<std::string>;
};

template <class Struct>
void add_fields(Facts& facts, const std::string& prefix, const Struct& from);

template <class Value>
void add(Facts& facts, const std::string& path, const Value& value) {
  if constexpr (OneLine<Value>) {
    std::string text = text_of(value);
    if (!text.empty()) facts.push_back({path, std::move(text)});
  } else if constexpr (std::is_same_v<Value, engine::core::MessageBody>) {
    std::visit(
        [&]<class Body>(const Body& body) {
          facts.push_back({path, type_name<Body>()});
          add_fields(facts, path + "/", body);
        },
        value);
  } else if constexpr (requires { value.begin()->second; }) {  // a map
    for (const auto& [key, each] : value) {
      std::string name;
      if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(key)>>) {
        name = std::to_string(key);
      } else {
        name = key;
      }
      add(facts, path + "/" + name, each);
    }
  } else if constexpr (requires { value.begin(); }) {  // a list
    std::size_t index = 0;
    for (const auto& each : value) add(facts, path + "/" + std::to_string(index++), each);
  } else {
    add_fields(facts, path + "/", value);
  }
}

// In the order in which they are shown.
// clang-format off
#define SG_EACH_FIELD(F) \
  F(status) F(phase) F(path) F(id) F(name) F(number) F(activity) F(tool) F(workflow) F(version) \
  F(tenant) F(user) F(session) F(history_root) F(effect_root) F(generation) F(schema_version) \
  F(workflow_version) F(restart_seq) F(commands) F(started_ms) F(closed_ms) F(scheduled_ms) \
  F(attempt) F(incarnation) F(counter) F(intended_epoch) F(intended_ms) F(sent_ms) F(unknown_ms) F(key) F(kind) F(target) F(source) F(pool) \
  F(correlation) F(body) F(lease) F(sandbox) F(token) F(ttl_ms) F(provider) F(unenforced) \
  F(template_name) F(reservation) F(run) F(wait_timeout_ms) F(position) F(queue_position) F(level) \
  F(arguments) F(expires_ms) F(approvers) F(approval) F(kept) F(returning) F(outcome) F(verdict) \
  F(by) F(code) F(end_code) F(side) F(end_side) F(expected) F(actual) F(event_seq) F(report) \
  F(stuck) F(stuck_since_ms) F(unknown_since_ms) F(then) F(failed) F(probes_failed) F(conflict) \
  F(cancel_requested) F(next_ms) F(due_ms) F(retry_due_ms) F(timer_due_ms) F(input) F(result) \
  F(payload) F(state) F(reason) F(details) F(message) F(abandoned) F(recovery) F(probe) \
  F(credential) F(permit_ms) F(attempt_timeout_ms) F(settle_ms) F(start_to_close_ms) \
  F(schedule_to_close_ms) F(max_attempts) F(initial_interval_ms) F(max_interval_ms) F(backoff) \
  F(jitter) F(retry) F(options) F(owes_activation) F(last_signal) F(steps) F(timers) F(operations) \
  F(attempt_ms) F(schedule_to_start_ms) F(heartbeat_ms) F(queue) F(priority) F(non_retryable) F(progress) \
  F(settled_operations) F(exchanges) F(leases) F(signals) F(updates) F(last_update) F(attributes) F(patched) \
  F(what) F(how) F(stream) F(policy) F(terminate) F(continues) F(successor) F(askers) F(children)
// clang-format on

template <class Struct>
void add_fields(Facts& facts, const std::string& prefix, const Struct& from) {
#define SG_ADD_FIELD(field) \
  if constexpr (requires { from.field; }) add(facts, prefix + #field, from.field);
  SG_EACH_FIELD(SG_ADD_FIELD)
#undef SG_ADD_FIELD
}

template <class Struct>
Described described(const Struct& from) {
  Described made{.name = type_name<Struct>()};
  add_fields(made.fields, "", from);
  return made;
}

}  // namespace sandglass::replay_tools::replay
