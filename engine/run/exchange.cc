// Exchanges: a question to another stream, answered by a message with the same correlation. Leases,
// approvals, and whatever else is asked elsewhere.
#include "engine/run/decision.h"

namespace sandglass::engine::run {
namespace {

ExchangeKind kind_of(const core::MessageBody& body) {
  if (std::holds_alternative<core::LeaseRequested>(body)) return ExchangeKind::lease;
  if (std::holds_alternative<core::ApprovalRequested>(body)) return ExchangeKind::approval;
  return ExchangeKind::other;
}

/// What takes back a question, where there is a way to.
std::optional<core::MessageBody> withdrawal_of(const Exchange& exchange) {
  if (exchange.kind == ExchangeKind::lease) return core::LeaseCancelled{};
  if (exchange.kind == ExchangeKind::approval) return core::ApprovalWithdrawn{};
  return std::nullopt;
}

core::LeaseReturned return_of(const Lease& lease) {
  return {lease.sandbox, lease.token};
}

/// Nobody waits for this. A lease that comes so goes back at once: without an answer it would be held until
/// it expires.
Status ignore(Decision& d, const core::Message& message) {
  core::LeaseReturned back;
  if (const auto* granted = std::get_if<core::LeaseGranted>(&message.body)) {
    back = {granted->sandbox, granted->token};
  } else if (const auto* expiring = std::get_if<core::LeaseExpiring>(&message.body)) {
    back = {expiring->sandbox, expiring->token};
  } else {
    return stale(message.correlation);
  }
  d.out().send(message.source, message.correlation, std::move(back), {}, !d.state().open());
  d.emit(MessageIgnored{message.correlation, message.source});
  return {};
}

Status decide_expiring(Decision& d, const core::Message& message, const core::LeaseExpiring& expiring) {
  const auto found = d.state().leases.find(message.correlation);
  if (found == d.state().leases.end() || found->second.token != expiring.token) return ignore(d, message);
  const bool keep = d.state().open() && !found->second.returning;
  if (keep) {
    d.out().send(message.source, message.correlation, core::LeaseKept{expiring.sandbox, expiring.token});
  } else {
    d.out().send(message.source, message.correlation, return_of(found->second), {}, !d.state().open());
  }
  d.emit(LeaseRenewed{message.correlation, keep});
  return {};
}

Status decide_ended(Decision& d, const core::Message& message, const core::LeaseEnded& ended) {
  const auto found = d.state().leases.find(message.correlation);
  if (found == d.state().leases.end() || found->second.token != ended.token)
    return stale(message.correlation);
  d.emit(LeaseClosed{message.correlation, ended.code});
  if (d.state().open()) d.activate();
  return {};
}

}  // namespace

Status decide_message(Decision& d, const core::Message& message) {
  if (const auto* expiring = std::get_if<core::LeaseExpiring>(&message.body)) {
    return decide_expiring(d, message, *expiring);
  }
  if (const auto* ended = std::get_if<core::LeaseEnded>(&message.body))
    return decide_ended(d, message, *ended);
  if (const auto* decided = std::get_if<core::OutcomeDecided>(&message.body))
    return decide_outcome(d, message, *decided);
  if (const auto* start = std::get_if<core::RunStartRequested>(&message.body))
    return decide_start_requested(d, message, *start);
  if (const auto* stop = std::get_if<core::RunStopRequested>(&message.body))
    return decide_stop_requested(d, message, *stop);
  if (const auto* signalled = std::get_if<core::RunSignalled>(&message.body))
    return decide_signalled(d, message, *signalled);
  if (const auto* awaited = std::get_if<core::RunAwaited>(&message.body))
    return decide_awaited(d, message, *awaited);
  if (const auto* end = std::get_if<core::RunEnded>(&message.body))
    return decide_child_ended(d, message, *end);
  if (!d.state().open() || !d.state().exchanges.contains(message.correlation)) return ignore(d, message);
  if (std::holds_alternative<core::LeaseQueued>(message.body)) {
    d.emit(ExchangeProgressed{message.correlation, message.body});
    return {};
  }
  d.emit(ExchangeAnswered{message.correlation, message.source, message.body, d.store(message.payload)});
  d.activate();
  return {};
}

Status apply_command(Decision& d, const OpenExchange& command) {
  if (d.state().exchanges.contains(command.path)) {
    return base::fail(base::Code::non_determinism, "an exchange is open under path " + command.path);
  }
  d.out().send(command.target, command.path, command.body, command.payload);
  d.emit(ExchangeOpened{command.path, command.target, command.body, command.payload.digest});
  return {};
}

/// If the answer came meanwhile and was a lease, it goes back.
Status apply_command(Decision& d, const WithdrawExchange& command) {
  const auto found = d.state().exchanges.find(command.path);
  if (found != d.state().exchanges.end()) {
    if (auto body = withdrawal_of(found->second))
      d.out().send(found->second.target, command.path, std::move(*body));
  }
  const auto lease = d.state().leases.find(command.path);
  if (lease != d.state().leases.end() && !lease->second.returning) {
    d.out().send(lease->second.pool, command.path, return_of(lease->second));
  }
  d.emit(ExchangeWithdrawn{command.path});
  return {};
}

Status apply_command(Decision& d, const SendMessage& command) {
  d.out().send(command.target, command.path, command.body, command.payload);
  d.emit(MessageSent{command.path, command.target, command.payload.digest});
  return {};
}

void release_messages(Decision& d, const End* end) {
  struct Farewell {
    core::StreamId target;
    std::string path;
    core::MessageBody body;
    core::Payload payload = {};
  };
  std::vector<Farewell> all;
  for (const auto& [path, exchange] : d.state().exchanges) {
    if (auto body = withdrawal_of(exchange)) all.push_back({exchange.target, path, std::move(*body)});
  }
  for (const auto& [path, lease] : d.state().leases) {
    if (!lease.returning) all.push_back({lease.pool, path, return_of(lease)});
  }
  for (const auto& [path, operation] : d.state().operations) {
    if (operation.status != OperationStatus::asking) continue;
    all.push_back({inbox(), question_path(path, operation.attempt), core::ApprovalWithdrawn{}});
  }
  const core::Payload reason = text_payload("the run that started it has ended");
  for (const auto& [path, child] : d.state().children) {
    if (child.policy == ClosePolicy::abandon) continue;
    all.push_back({child.run, path, core::RunStopRequested{child.policy == ClosePolicy::terminate}, reason});
  }
  if (end != nullptr) {
    for (const core::RunAsker& asker : d.state().askers)
      all.push_back({asker.stream, asker.correlation, end->body, end->payload});
  }
  std::set<core::StreamId> later;  // the last one to each target closes (J18)
  std::vector<bool> closing(all.size());
  for (std::size_t i = all.size(); i-- > 0;) closing[i] = later.insert(all[i].target).second;
  for (std::size_t i = 0; i < all.size(); ++i) {
    d.out().send(all[i].target, std::move(all[i].path), std::move(all[i].body), std::move(all[i].payload),
                 closing[i]);
  }
}

void apply(State& state, const ExchangeOpened& event, const core::TurnInfo&) {
  state.exchanges[event.path] = {.target = event.target, .kind = kind_of(event.body)};
}
void apply(State& state, const ExchangeProgressed& event, const core::TurnInfo&) {
  const auto found = state.exchanges.find(event.path);
  const auto* queued = std::get_if<core::LeaseQueued>(&event.body);
  if (found != state.exchanges.end() && queued != nullptr) found->second.queue_position = queued->position;
}
void apply(State& state, const ExchangeAnswered& event, const core::TurnInfo&) {
  state.exchanges.erase(event.path);
  if (const auto* granted = std::get_if<core::LeaseGranted>(&event.body)) {
    state.leases[event.path] = {.pool = event.source, .sandbox = granted->sandbox, .token = granted->token};
  }
}
void apply(State& state, const ExchangeWithdrawn& event, const core::TurnInfo&) {
  state.exchanges.erase(event.path);
  const auto lease = state.leases.find(event.path);
  if (lease != state.leases.end()) lease->second.returning = true;
}
void apply(State&, const MessageSent&, const core::TurnInfo&) {}
void apply(State&, const MessageIgnored&, const core::TurnInfo&) {}

}  // namespace sandglass::engine::run
