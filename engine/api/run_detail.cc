#include "engine/api/run_detail.h"

#include <utility>
#include <variant>

#include "engine/api/run_text.h"
#include "engine/core/decider.h"

namespace sandglass::engine::api {

namespace {

namespace v1 = ::sandglass::v1;

constexpr std::size_t kPage = 256;

/// Collects steps and operations in the order in which they were scheduled.
class Collector {
 public:
  explicit Collector(v1::RunDetail& out) : out_(out) {}

  void turn(const fold::ReadTurn& turn) {
    turn_ = &turn;
    for (const run::Event& event : static_cast<const core::Events<run::Event>&>(*turn.events).items) {
      std::visit([this](const auto& e) { take(e); }, event);
    }
  }

 private:
  std::int64_t now() const { return turn_->header.time_ms; }

  v1::StepView& step(const std::string& path) {
    const auto [found, added] = steps_.try_emplace(path, out_.steps_size());
    if (added) out_.add_steps()->set_path(path);
    return *out_.mutable_steps(found->second);
  }
  v1::OperationView& operation(const std::string& path) {
    const auto [found, added] = operations_.try_emplace(path, out_.operations_size());
    if (added) out_.add_operations()->set_path(path);
    return *out_.mutable_operations(found->second);
  }

  void take(const run::StepScheduled& e) {
    auto& view = step(e.path);
    view.set_name(e.activity);
    view.set_status("scheduled");
    view.set_attempt(1);
    view.set_scheduled_ms(now());
  }
  void take(const run::StepCompleted& e) {
    auto& view = step(e.path);
    view.set_status("done");
    view.set_attempt(e.attempt);
    view.set_ended_ms(now());
    view.set_next_attempt_ms(0);
    view.clear_error();
    view.set_error_code(0);
  }
  void take(const run::StepAttemptFailed& e) {
    auto& view = step(e.path);
    view.set_status("waiting to try again");
    view.set_attempt(e.attempt);
    view.set_next_attempt_ms(e.next_ms);
    view.set_error_code(static_cast<std::uint32_t>(e.code));
    view.set_error(text_in(*turn_, e.details));
  }
  void take(const run::StepRetried& e) {
    auto& view = step(e.path);
    view.set_status("scheduled");
    view.set_attempt(view.attempt() + 1);
    view.set_next_attempt_ms(0);
  }
  void take(const run::StepFailed& e) {
    auto& view = step(e.path);
    view.set_status("failed");
    view.set_attempt(e.attempt);
    view.set_ended_ms(now());
    view.set_error_code(static_cast<std::uint32_t>(e.code));
    view.set_error(text_in(*turn_, e.message));
  }
  void take(const run::StepCancelled& e) {
    auto& view = step(e.path);
    view.set_status("cancelled");
    view.set_ended_ms(now());
  }
  void take(const run::OperationScheduled& e) {
    auto& view = operation(e.path);
    view.set_tool(e.tool);
    view.set_target(e.options.target);
    view.set_recovery(std::string(name_of(e.options.recovery)));
    view.set_status(e.conflict ? "conflict" : "scheduled");
  }
  void take(const run::OperationIntended& e) {
    auto& view = operation(e.path);
    view.set_key(e.key);
    view.set_attempt(e.attempt);
    view.set_intended_ms(now());
    view.set_status("intended");
  }
  void take(const run::OperationAttemptFailed& e) {
    auto& view = operation(e.path);
    view.set_attempt(e.attempt);
    view.set_error_code(static_cast<std::uint32_t>(e.code));
    view.set_error(text_in(*turn_, e.message));
  }
  void take(const run::OperationUnknown& e) {
    auto& view = operation(e.path);
    view.set_status("unknown");
    view.set_error_code(static_cast<std::uint32_t>(e.code));
    view.set_error(text_in(*turn_, e.message));
  }
  void take(const run::OperationSettled& e) {
    auto& view = operation(e.path);
    view.set_status(e.outcome == core::Outcome::done       ? "done"
                    : e.outcome == core::Outcome::not_done ? "not done"
                                                           : "unknown");
    view.set_ended_ms(now());
    view.set_error_code(static_cast<std::uint32_t>(e.code));
    view.set_error(text_in(*turn_, e.message));
  }
  v1::ChildView& child(const std::string& path) {
    const auto [found, added] = children_.try_emplace(path, out_.children_size());
    if (added) out_.add_children()->set_path(path);
    return *out_.mutable_children(found->second);
  }
  void take(const run::ChildScheduled& e) {
    auto& view = child(e.path);
    view.set_run_id(e.run.text());
    view.set_workflow(e.workflow);
    view.set_policy(std::string(name_of(e.policy)));
    view.set_status("running");
    view.set_started_ms(now());
  }
  void take(const run::ChildCancelRequested& e) {
    auto& view = child(e.path);
    if (view.ended_ms() == 0) view.set_status("cancelling");
  }
  void take(const run::ChildEnded& e) {
    auto& view = child(e.path);
    view.set_run_id(e.run.text());
    view.set_status(std::string(core::name_of(e.how)));
    view.set_ended_ms(now());
    view.set_error_code(static_cast<std::uint32_t>(e.code));
    if (e.code != base::Code::ok) view.set_error(e.message.empty() ? text_in(*turn_, e.result) : e.message);
  }
  void take(const run::RunFailed& e) { out_.set_error(text_in(*turn_, e.details)); }
  void take(const run::RunCancelled& e) { out_.set_error(text_in(*turn_, e.details)); }
  void take(const run::RunTerminated& e) { out_.set_error(text_in(*turn_, e.reason)); }
  void take(const run::ExchangeAnswered& e) {
    if (const auto* granted = std::get_if<core::LeaseGranted>(&e.body)) {
      auto& view = *out_.add_leases();
      view.set_path(e.path);
      view.set_sandbox(granted->sandbox);
      view.set_token(granted->token);
      view.set_provider(granted->provider);
      view.set_unenforced(granted->unenforced);
      view.set_status("ended");  // those that are held are in the state
    }
  }
  template <class Event>
  void take(const Event&) {}

  v1::RunDetail& out_;
  const fold::ReadTurn* turn_ = nullptr;
  std::map<std::string, int, std::less<>> steps_;
  std::map<std::string, int, std::less<>> operations_;
  std::map<std::string, int, std::less<>> children_;
};

void fill_open(const run::State& state, v1::RunDetail& out) {
  for (auto& operation : *out.mutable_operations()) {
    const auto open = state.operations.find(operation.path());
    if (open != state.operations.end()) operation.set_status(std::string(name_of(open->second.status)));
  }
  for (auto& lease : *out.mutable_leases()) {
    const auto held = state.leases.find(lease.path());
    if (held != state.leases.end()) lease.set_status(held->second.returning ? "returning" : "held");
  }
  for (const auto& [path, exchange] : state.exchanges) {
    if (exchange.kind != run::ExchangeKind::lease) continue;
    auto& lease = *out.add_leases();
    lease.set_path(path);
    lease.set_status(exchange.queue_position == 0 ? "asked" : "queued");
    lease.set_queue_position(exchange.queue_position);
  }
  for (const auto& [path, due_ms] : state.timers) {
    auto& timer = *out.add_timers();
    timer.set_path(path);
    timer.set_due_ms(due_ms);
  }
  for (const core::RunAsker& asker : state.askers) {
    if (asker.stream.kind == core::StreamKind::run) out.set_parent(asker.stream.text());
  }
  if (state.continues != core::StreamId{}) out.set_continues(state.continues.text());
  if (state.successor != core::StreamId{}) out.set_continued_as(state.successor.text());
  for (const auto& [number, signal] : state.signals) out.add_unread_signals(signal.name);
  if (state.status == run::RunStatus::stuck) {
    auto& stuck = *out.mutable_stuck();
    stuck.set_expected(state.stuck.expected);
    stuck.set_actual(state.stuck.actual);
    stuck.set_event_seq(state.stuck.event_seq);
    stuck.set_path(state.stuck.path);
    stuck.set_since_ms(state.stuck_since_ms);
    out.set_error(state.stuck.message);
  }
}

}  // namespace

base::Result<core::SlotPtr> read_payload(const journal::Reader& reader, const core::StreamId& stream,
                                         const core::PayloadRef& ref) {
  if (ref.empty()) return core::SlotPtr();
  auto records = reader.read_stream(stream, ref.seq, 1);
  if (!records) return std::unexpected(records.error());
  if (records->empty() || records->front().seq != ref.seq || ref.slot >= records->front().slots.size()) {
    return base::fail(base::Code::record_damaged, "record " + std::to_string(ref.seq) + " of " +
                                                      stream.text() +
                                                      " lacks the payload that it should have");
  }
  return records->front().slots[ref.slot];
}

base::Result<v1::RunDetail> read_detail(const journal::Reader& reader, const fold::AnyKind& kind,
                                        const core::StreamId& stream, const run::State& state,
                                        std::uint64_t head) {
  v1::RunDetail detail;
  fill_summary(stream, run::view::row_of(state), head, *detail.mutable_summary());
  Collector collector(detail);
  std::uint64_t next = head > kDetailRecords ? head - kDetailRecords + 1 : 1;
  detail.set_shown_from(next);
  while (next <= head) {
    auto records = reader.read_stream(stream, next, kPage);
    if (!records) return std::unexpected(records.error());
    if (records->empty()) break;
    for (const auto& record : *records) {
      if (record.seq > head) break;
      auto turn = fold::read_turn(kind, record);
      if (!turn) return std::unexpected(turn.error());
      collector.turn(*turn);
    }
    next = records->back().seq + 1;
  }
  fill_open(state, detail);
  detail.set_error_code(detail.summary().error_code());
  for (auto [ref, set] : {std::pair{&state.input, &v1::RunDetail::mutable_input},
                          std::pair{&state.result, &v1::RunDetail::mutable_result}}) {
    auto slot = read_payload(reader, stream, *ref);
    if (!slot) return std::unexpected(slot.error());
    if (*slot) *(detail.*set)() = (*slot)->bytes;
  }
  return detail;
}

}  // namespace sandglass::engine::api
