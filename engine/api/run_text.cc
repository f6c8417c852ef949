#include "engine/api/run_text.h"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <variant>

namespace sandglass::engine::api {

namespace {

namespace v1 = ::sandglass::v1;

v1::RunStatus status_of(run::RunStatus status) {
  switch (status) {
    case run::RunStatus::none:
      return v1::RUN_STATUS_UNSPECIFIED;
    case run::RunStatus::running:
      return v1::RUN_STATUS_RUNNING;
    case run::RunStatus::stuck:
      return v1::RUN_STATUS_STUCK;
    case run::RunStatus::completed:
      return v1::RUN_STATUS_COMPLETED;
    case run::RunStatus::failed:
      return v1::RUN_STATUS_FAILED;
    case run::RunStatus::cancelled:
      return v1::RUN_STATUS_CANCELLED;
    case run::RunStatus::terminated:
      return v1::RUN_STATUS_TERMINATED;
    case run::RunStatus::continued:
      return v1::RUN_STATUS_CONTINUED;
  }
  return v1::RUN_STATUS_UNSPECIFIED;
}

std::string failure(base::Code code, const std::string& text) {
  return std::string(base::name_of(code)) + (text.empty() ? "" : ": " + text);
}

/// The event's name in code: "StepScheduled".
template <class Event>
std::string event_type(const Event&) {
  std::string_view name = __PRETTY_FUNCTION__;
  name = name.substr(0, name.rfind(']'));
  return std::string(name.substr(name.find_last_of(":= ") + 1));
}

/// One line about an event; what every event has (path) is added by the caller.
struct Describe {
  const fold::ReadTurn& turn;

  std::string operator()(const run::RunStarted& e) const {
    return "workflow " + e.workflow + " for " + e.user;
  }
  std::string operator()(const run::RunFailed& e) const { return failure(e.code, text_in(turn, e.details)); }
  std::string operator()(const run::RunStuck& e) const { return failure(e.report.code, e.report.message); }
  std::string operator()(const run::CancelRequested& e) const { return text_in(turn, e.reason); }
  std::string operator()(const run::PhaseSet& e) const { return std::string(run::name_of(e.phase)); }
  std::string operator()(const run::StepScheduled& e) const { return e.activity; }
  std::string operator()(const run::StepAttemptFailed& e) const {
    return "attempt " + std::to_string(e.attempt) + " failed, " + failure(e.code, text_in(turn, e.details));
  }
  std::string operator()(const run::StepFailed& e) const { return failure(e.code, text_in(turn, e.message)); }
  std::string operator()(const run::SignalReceived& e) const { return e.name; }
  std::string operator()(const run::UpdateAccepted& e) const {
    return "update " + std::to_string(e.number) + ", " + e.name;
  }
  std::string operator()(const run::UpdateCompleted& e) const {
    const std::string which = "update " + std::to_string(e.number);
    return e.code == base::Code::ok ? which : which + ", " + failure(e.code, text_in(turn, e.result));
  }
  std::string operator()(const run::UpdateAbandoned& e) const { return "update " + std::to_string(e.number); }
  std::string operator()(const run::OperationScheduled& e) const {
    return e.tool + (e.options.target.empty() ? "" : " to " + e.options.target);
  }
  std::string operator()(const run::OperationIntended& e) const {
    return "attempt " + std::to_string(e.attempt) + ", key " + e.key.substr(0, 16);
  }
  std::string operator()(const run::OperationAttemptFailed& e) const {
    return "attempt " + std::to_string(e.attempt) + " not done, " + failure(e.code, text_in(turn, e.message));
  }
  std::string operator()(const run::OperationUnknown& e) const {
    return "attempt " + std::to_string(e.attempt) + ", " + failure(e.code, text_in(turn, e.message));
  }
  std::string operator()(const run::OperationSettled& e) const {
    return e.code == base::Code::ok ? "done" : failure(e.code, text_in(turn, e.message));
  }
  std::string operator()(const run::ExchangeOpened& e) const {
    return "asks " + std::string(name_of(e.target.kind));
  }
  std::string operator()(const run::ExchangeAnswered& e) const {
    if (const auto* granted = std::get_if<core::LeaseGranted>(&e.body)) return "sandbox " + granted->sandbox;
    if (const auto* refused = std::get_if<core::LeaseRefused>(&e.body))
      return failure(refused->code, refused->message);
    if (const auto* decided = std::get_if<core::ApprovalDecided>(&e.body)) {
      return decided->code == base::Code::ok ? "approved" : std::string(base::name_of(decided->code));
    }
    return {};
  }
  std::string operator()(const run::ExchangeProgressed& e) const {
    if (const auto* queued = std::get_if<core::LeaseQueued>(&e.body)) {
      return "position " + std::to_string(queued->position) + " in the queue";
    }
    return {};
  }
  std::string operator()(const run::ChildScheduled& e) const { return e.workflow + " as " + e.run.text(); }
  std::string operator()(const run::ChildEnded& e) const {
    std::string text(core::name_of(e.how));
    if (e.code != base::Code::ok) {
      text += ", " + failure(e.code, e.message.empty() ? text_in(turn, e.result) : e.message);
    }
    return text;
  }
  std::string operator()(const run::RunContinued& e) const { return "as " + e.run.text(); }
  std::string operator()(const run::RunContinues& e) const { return e.run.text(); }
  std::string operator()(const run::RunAsked& e) const { return "by " + e.by.text(); }
  std::string operator()(const run::RunPassedOn& e) const { return e.what + " to " + e.run.text(); }
  std::string operator()(const run::LeaseClosed& e) const { return std::string(base::name_of(e.code)); }
  template <class Event>
  std::string operator()(const Event&) const {
    return {};
  }
};

}  // namespace

void fill_summary(const core::StreamId& stream, const run::view::RunRow& row, std::uint64_t head,
                  v1::RunSummary& out) {
  out.set_run_id(stream.text());
  out.set_workflow(row.workflow);
  out.set_tenant(row.tenant);
  out.set_user(row.user);
  out.set_session(row.session);
  out.set_status(status_of(row.status));
  out.set_phase(std::string(run::name_of(row.phase)));
  out.set_started_ms(row.started_ms);
  out.set_closed_ms(row.closed_ms);
  out.set_head(head);
  out.set_error_code(static_cast<std::uint32_t>(row.code));
  out.set_cancel_asked(row.cancel_requested);
  out.set_questions(row.questions);
}

std::string text_in(const fold::ReadTurn& turn, const core::PayloadRef& ref) {
  if (ref.empty() || ref.seq != turn.header.seq || ref.slot >= turn.slots.size()) return {};
  const core::Slot& slot = *turn.slots[ref.slot];
  if (slot.encoding != core::Encoding::json) return slot.bytes;
  const auto json = nlohmann::json::parse(slot.bytes, nullptr, false);
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("message") && json["message"].is_string()) {
    return json["message"].get<std::string>();
  }
  return slot.bytes;
}

void fill_event(const run::Event& event, const fold::ReadTurn& turn, v1::EventView& out) {
  out.set_type(std::visit([](const auto& e) { return event_type(e); }, event));
  std::visit(
      [&](const auto& e) {
        if constexpr (requires { e.path; }) out.set_path(e.path);
        if constexpr (requires { e.activity; }) out.set_name(e.activity);
        if constexpr (requires { e.tool; }) out.set_name(e.tool);
        if constexpr (requires { e.name; }) out.set_name(e.name);
        if constexpr (requires { e.target.kind; }) out.set_name(std::string(name_of(e.target.kind)));
      },
      event);
  out.set_text(std::visit(Describe{turn}, event));
}

}  // namespace sandglass::engine::api
