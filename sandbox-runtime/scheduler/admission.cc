#include "sandbox-runtime/scheduler/admission.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sandglass::sandbox_runtime::scheduler {

namespace {

using Decider = AdmissionDecider;
using State = AdmissionState;
using Writer = core::TurnWriter<Decider::Event>;

/// How many of the first in the queue are told their new position when it moves.
constexpr std::size_t kToldPositions = 16;

std::string queue_timer(std::uint64_t number) {
  return "queue:" + std::to_string(number);
}
std::string reservation_timer(const std::string& reservation) {
  return "reservation:" + reservation;
}

bool same_claim(const Claim& claim, const core::Message& message) {
  return claim.run == message.source && claim.correlation == message.correlation;
}

/// Which limit keeps this claim out now; empty: none.
std::string_view binding_limit(const State& state, const Claim& claim) {
  if (state.reservations.size() >= state.limits.global) return "global";
  const auto of_user = std::ranges::count_if(state.reservations, [&](const auto& entry) {
    return entry.second.claim.tenant == claim.tenant && entry.second.claim.user == claim.user;
  });
  return static_cast<std::uint64_t>(of_user) >= state.limits.per_user ? "user" : "";
}

/// How many claims each tenant has, and each of its users.
struct Shares {
  std::map<std::string, std::size_t> tenants;
  std::map<std::pair<std::string, std::string>, std::size_t> users;

  void add(const Claim& claim) {
    ++tenants[claim.tenant];
    ++users[{claim.tenant, claim.user}];
  }
  std::size_t of_tenant(const Claim& claim) const { return count(tenants, claim.tenant); }
  std::size_t of_user(const Claim& claim) const { return count(users, {claim.tenant, claim.user}); }

 private:
  template <class Key>
  static std::size_t count(const std::map<Key, std::size_t>& counts, const Key& key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
};

std::string limit_text(const AdmissionLimits& limits, std::string_view limit) {
  if (limit == "global")
    return "the limit of " + std::to_string(limits.global) + " sandboxes for everyone is reached";
  if (limit == "user")
    return "the limit of " + std::to_string(limits.per_user) + " sandboxes a user is reached";
  return "the queue already holds " + std::to_string(limits.queue) + " claims";
}

/// Decides one command. Works on a copy of the state that follows the events as they are emitted, because one
/// command may reserve several places.
class Turn {
 public:
  Turn(const State& state, const core::DecideInput& input, Writer& writer)
      : state_(state), input_(input), writer_(writer) {}

  void configure(const AdmissionLimits& limits) {
    if (state_.configured && state_.limits == limits) return;
    emit(AdmissionConfigured{limits});
    serve_queue();
  }

  void requested(const core::Message& message, const core::LeaseRequested& request) {
    if (repeated(message)) return;
    Claim claim{.run = message.source,
                .correlation = message.correlation,
                .template_name = request.template_name,
                .tenant = request.tenant,
                .user = request.user};
    if (!is_template_name(claim.template_name)) {
      refuse(0, claim, base::Code::invalid_argument, "",
             "\"" + claim.template_name + "\" is no template name; use letters, digits, '.', '_' and '-'");
      return;
    }
    const std::string_view limit = binding_limit(state_, claim);
    if (limit.empty()) {
      reserve(0, std::move(claim));
      return;
    }
    const bool hopeless = state_.limits.global == 0 || state_.limits.per_user == 0;
    if (hopeless || request.wait_timeout_ms <= 0) {
      refuse(0, claim, base::Code::quota_exceeded, limit, limit_text(state_.limits, limit) + "; retry later");
    } else if (state_.queue.size() >= state_.limits.queue && !make_room(claim)) {
      refuse(0, claim, base::Code::overloaded, "queue", limit_text(state_.limits, "queue") + "; retry later");
    } else {
      enqueue(std::move(claim), request.wait_timeout_ms);
    }
  }

  void cancelled(const core::Message& message) {
    for (const Waiting& waiting : state_.queue) {
      if (!same_claim(waiting.claim, message)) continue;
      const Waiting gone = waiting;
      writer_.end_timer(queue_timer(gone.number), gone.until_ms);
      emit(ClaimRefused{gone.number, base::Code::cancelled, ""});
      tell_positions();
      return;
    }
    for (const auto& [id, reservation] : state_.reservations) {
      if (same_claim(reservation.claim, message)) return call_back(std::string(id));
    }
  }

  void freed(const std::string& id) {
    const auto found = state_.reservations.find(id);
    if (found == state_.reservations.end()) return;
    if (!found->second.called_back) writer_.end_timer(reservation_timer(id), found->second.lapses_ms);
    emit(ReservationReleased{id});
    serve_queue();
  }

  void fired(const core::TimerFired& timer) {
    for (const Waiting& waiting : state_.queue) {
      if (timer.key != queue_timer(waiting.number) || timer.due_ms != waiting.until_ms) continue;
      const Waiting late = waiting;
      const std::string_view limit = binding_limit(state_, late.claim);
      writer_.end_timer(timer.key, timer.due_ms);
      refuse(late.number, late.claim, base::Code::queue_timeout, limit,
             "waited in the queue until its timeout: " + limit_text(state_.limits, limit) + "; retry later");
      tell_positions();
      return;
    }
    for (const auto& [id, reservation] : state_.reservations) {
      if (timer.key == reservation_timer(id) && timer.due_ms == reservation.lapses_ms) {
        return call_back(std::string(id));
      }
    }
  }

 private:
  void emit(Decider::Event event) {
    Decider::evolve(state_, event, {.seq = input_.seq, .time_ms = input_.now_ms, .epoch = input_.epoch});
    writer_.emit(std::move(event));
  }

  /// A claim that is known already is answered again and never counted twice (O8).
  bool repeated(const core::Message& message) {
    for (std::size_t i = 0; i < state_.queue.size(); ++i) {
      if (!same_claim(state_.queue[i].claim, message)) continue;
      writer_.send(message.source, message.correlation, core::LeaseQueued{static_cast<std::uint32_t>(i + 1)});
      return true;
    }
    return std::ranges::any_of(state_.reservations,
                               [&](const auto& entry) { return same_claim(entry.second.claim, message); });
  }

  void enqueue(Claim claim, std::int64_t wait_ms) {
    // A day is more than anyone waits; it also keeps the sum inside its type (ADV-E18).
    const std::int64_t until = input_.now_ms + std::min<std::int64_t>(wait_ms, 86'400'000);
    const std::uint64_t number = state_.next_number;
    writer_.start_timer(queue_timer(number), until);
    emit(ClaimQueued{number, claim, until});
    writer_.send(claim.run, claim.correlation,
                 core::LeaseQueued{static_cast<std::uint32_t>(state_.queue.size())});
  }

  void reserve(std::uint64_t number, Claim claim) {
    const std::string id = "r-" + std::to_string(state_.next_number);
    const std::int64_t lapses = input_.now_ms + state_.limits.reservation_ttl_ms;
    writer_.start_timer(reservation_timer(id), lapses);
    emit(ClaimReserved{id, number, claim, lapses});
    writer_.send(pool_stream(claim.template_name), claim.correlation,
                 core::LeaseReserved{.run = claim.run,
                                     .reservation = id,
                                     .template_name = claim.template_name,
                                     .tenant = claim.tenant,
                                     .user = claim.user});
  }

  void refuse(std::uint64_t number, const Claim& claim, base::Code code, std::string_view limit,
              std::string text) {
    emit(ClaimRefused{number, code, std::string(limit)});
    writer_.send(claim.run, claim.correlation, core::LeaseRefused{code, std::move(text)});
  }

  /// The reservation goes on counting: only the pool knows when nothing is left of it. For a lease that was
  /// granted meanwhile the pool ignores the call.
  void call_back(const std::string& id) {
    const Reservation& reservation = state_.reservations.at(id);
    if (reservation.called_back) return;
    writer_.end_timer(reservation_timer(id), reservation.lapses_ms);
    const core::StreamId pool = pool_stream(reservation.claim.template_name);
    emit(ReservationCalledBack{id});
    writer_.send(pool, id, core::LeaseCancelled{});
  }

  /// The claim that is next: of the tenant with the fewest places, of its user with the fewest, the one that
  /// waits longest; so that nobody's many claims keep out another's few (ADV-E19). None: nobody may have a
  /// place now.
  const Waiting* next_waiting() const {
    Shares held;
    for (const auto& [id, reservation] : state_.reservations) held.add(reservation.claim);
    const Waiting* best = nullptr;
    for (const Waiting& waiting : state_.queue) {
      if (held.of_user(waiting.claim) >= state_.limits.per_user) continue;
      const auto share = [&](const Claim& claim) {
        return std::pair(held.of_tenant(claim), held.of_user(claim));
      };
      if (best == nullptr || share(waiting.claim) < share(best->claim)) best = &waiting;
    }
    return best;
  }

  void serve_queue() {
    bool moved = false;
    while (state_.reservations.size() < state_.limits.global) {
      const Waiting* next = next_waiting();
      if (next == nullptr) break;
      const Waiting waiting = *next;
      writer_.end_timer(queue_timer(waiting.number), waiting.until_ms);
      reserve(waiting.number, waiting.claim);  // takes it out of the queue
      moved = true;
    }
    if (moved) tell_positions();
  }

  /// The queue is full: the newest claim of whoever has clearly more in it than this claim's tenant, or else
  /// its user, gives way. False: nobody has.
  bool make_room(const Claim& claim) {
    Shares queued;
    for (const Waiting& waiting : state_.queue) queued.add(waiting.claim);
    const Waiting* victim = nullptr;
    for (const Waiting& waiting : state_.queue) {
      const Claim& other = waiting.claim;
      const bool heavy = other.tenant == claim.tenant ? queued.of_user(other) > queued.of_user(claim) + 1
                                                      : queued.of_tenant(other) > queued.of_tenant(claim) + 1;
      const auto share = [&](const Claim& of) { return std::pair(queued.of_tenant(of), queued.of_user(of)); };
      if (heavy && (victim == nullptr || share(other) >= share(victim->claim))) victim = &waiting;
    }
    if (victim == nullptr) return false;
    const Waiting gone = *victim;
    writer_.end_timer(queue_timer(gone.number), gone.until_ms);
    refuse(gone.number, gone.claim, base::Code::overloaded, "queue",
           limit_text(state_.limits, "queue") + ", most of them yours; retry later");
    return true;
  }

  void tell_positions() {
    const std::size_t told = std::min(state_.queue.size(), kToldPositions);
    for (std::size_t i = 0; i < told; ++i) {
      const Claim& claim = state_.queue[i].claim;
      writer_.send(claim.run, claim.correlation, core::LeaseQueued{static_cast<std::uint32_t>(i + 1)});
    }
  }

  State state_;
  const core::DecideInput& input_;
  Writer& writer_;
};

void take_from_queue(State& state, std::uint64_t number) {
  if (number != 0)
    std::erase_if(state.queue, [&](const Waiting& waiting) { return waiting.number == number; });
}

struct Evolve {
  State& state;

  void operator()(const AdmissionConfigured& event) {
    state.limits = event.limits;
    state.configured = true;
  }
  void operator()(const ClaimQueued& event) {
    state.queue.push_back({event.number, event.claim, event.until_ms});
    ++state.next_number;
  }
  void operator()(const ClaimRefused& event) { take_from_queue(state, event.number); }
  void operator()(const ClaimReserved& event) {
    take_from_queue(state, event.number);
    state.reservations[event.reservation] = {.claim = event.claim, .lapses_ms = event.lapses_ms};
    ++state.next_number;
  }
  void operator()(const ReservationCalledBack& event) {
    const auto found = state.reservations.find(event.reservation);
    if (found != state.reservations.end()) found->second.called_back = true;
  }
  void operator()(const ReservationReleased& event) { state.reservations.erase(event.reservation); }
};

}  // namespace

core::StreamId admission_stream() {
  return core::StreamId::named(core::StreamKind::admission, "");
}

core::StreamId pool_stream(std::string_view template_name) {
  return core::StreamId::named(core::StreamKind::pool, template_name);
}

bool is_template_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

base::Status AdmissionDecider::decide(const State& state, const Command& command,
                                      const core::DecideInput& input, core::TurnWriter<Event>& writer) {
  Turn turn(state, input, writer);
  if (const auto* configure = std::get_if<ConfigureAdmission>(&command)) {
    if (configure->limits.reservation_ttl_ms <= 0) {
      return base::fail(base::Code::invalid_argument, "limits: reservation_ttl_ms must be above 0");
    }
    turn.configure(configure->limits);
  } else if (const auto* timer = std::get_if<core::TimerFired>(&command)) {
    turn.fired(*timer);
  } else {
    const core::Message& message = std::get<core::MessageReceived>(command).message;
    if (const auto* request = std::get_if<core::LeaseRequested>(&message.body)) {
      turn.requested(message, *request);
    } else if (std::holds_alternative<core::LeaseCancelled>(message.body)) {
      turn.cancelled(message);
    } else if (const auto* freed = std::get_if<core::ReservationFreed>(&message.body)) {
      turn.freed(freed->reservation);
    }  // nothing else is ever meant for this stream; a stray message is consumed and changes nothing
  }
  return {};
}

void AdmissionDecider::evolve(State& state, const Event& event, const core::TurnInfo&) {
  std::visit(Evolve{state}, event);
}

}  // namespace sandglass::sandbox_runtime::scheduler
