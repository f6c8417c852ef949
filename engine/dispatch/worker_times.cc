// The queues of the worker pool, and what happens by itself when time passes.
#include <algorithm>
#include <utility>

#include "engine/base/log.h"
#include "engine/dispatch/worker_pool.h"

namespace sandglass::engine::dispatch {
namespace {

using base::Code;
using core::FailureSide;
using core::Outcome;

core::ActivityResult failure(Outcome outcome, Code code, FailureSide side, bool retryable,
                             std::string message) {
  core::ActivityResult result;
  result.outcome = outcome;
  result.code = code;
  result.side = side;
  result.retryable = retryable;
  result.message = std::move(message);
  return result;
}

const std::string& queue_name(const core::Action& action) {
  return action.queue.empty() ? action.name : action.queue;
}

void earliest(std::int64_t& due_ms, std::int64_t other_ms) {
  if (due_ms == 0 || other_ms < due_ms) due_ms = other_ms;
}

}  // namespace

WorkerPool::Queue& WorkerPool::queue_of(const core::Action& action) {
  const std::string& name = queue_name(action);
  const auto found = queues_.find(name);
  if (found != queues_.end()) return found->second;
  const auto rate = settings_.rates.find(name);
  return queues_
      .try_emplace(name, QueueLimits{rate == settings_.rates.end() ? 0 : rate->second, settings_.weights})
      .first->second;
}

bool WorkerPool::held_back(std::int64_t now_ms) const {
  const std::int64_t opened_ms = opened_ms_;
  return opened_ms == 0 || now_ms < opened_ms + settings_.reattach_ms;
}

void WorkerPool::enqueue(Id id, const core::StreamId& stream, const core::Action& action) {
  Task& task =
      tasks_.emplace(id, Task{.stream = &stream, .action = &action, .token = action.token}).first->second;
  task.place = {action.tenant, action.priority, ++last_order_};
  if (claimed(id, task, early_)) return;
  if (action.scheduled_ms < began_ms_ && held_back(clock_.wall_ms())) {
    task.stage = Stage::held_back;
    held_back_.insert(id);
    return watch(id, task);
  }
  line_up(id, task);
}

/// A worker has named it before it was met here.
bool WorkerPool::claimed(Id id, Task& task, std::vector<Answer>& answers) {
  const Step step(*task.stream, task.action->path);
  for (auto next = claims_.lower_bound({step, ""}); next != claims_.end() && next->first.first == step;) {
    const std::string worker = next->first.second;
    Claim claim = std::move(next->second);
    next = claims_.erase(next);
    Session* session = session_of(worker);
    if (session == nullptr) continue;
    const TaskId named(step.first, step.second, claim.token);
    if (task.session != nullptr || !session->serves(*task.action) ||
        !is_attempt(claim.token, task.action->token)) {
      session->outgoing.gone.push_back(named);
      continue;
    }
    attach_to(*session, id, task, claim.token);
    if (claim.result) answered(*session, {named, std::move(*claim.result)}, answers);
  }
  return task.session != nullptr;
}

void WorkerPool::attach_to(Session& session, Id id, Task& task, const core::Token& token) {
  leave(id, task);
  task.stage = Stage::out;
  task.session = &session;
  task.token = token;
  task.out_ms = task.heard_ms = clock_.wall_ms();
  session.tasks.insert(id);
  watch(id, task);
}

/// It stands nowhere any more.
void WorkerPool::leave(Id id, Task& task) {
  if (task.session != nullptr) task.session->tasks.erase(id);
  task.session = nullptr;
  if (task.stage == Stage::waiting) {
    const auto queue = queues_.find(queue_name(*task.action));
    if (queue != queues_.end()) queue->second.tasks.take_out(task.place);
  }
  if (task.stage == Stage::held_back) held_back_.erase(id);
}

void WorkerPool::line_up(Id id, Task& task) {
  Queue& queue = queue_of(*task.action);
  task.stage = Stage::waiting;
  task.token = task.action->token;
  queue.tasks.put(task.place, id, task.action->scheduled_ms);
  note_unserved(queue_name(*task.action), queue);
  watch(id, task);
}

void WorkerPool::note_unserved(const std::string& name, Queue& queue) {
  if (!queue.sessions.empty()) return;
  if (queue.tasks.size() == 0) {
    queues_.erase(name);
  } else if (queue.unserved_since_ms == 0) {
    queue.unserved_since_ms = clock_.wall_ms();
  }
}

void WorkerPool::hand_out(std::int64_t now_ms) {
  for (auto& [name, queue] : queues_) {
    if (queue.tasks.size() != 0 && !queue.sessions.empty()) hand_out(queue, now_ms);
  }
}

void WorkerPool::hand_out(Queue& queue, std::int64_t now_ms) {
  std::size_t without = 0;  // sessions in a row that took nothing
  while (queue.tasks.size() != 0 && without < queue.sessions.size()) {
    Session& session = *queue.sessions[queue.turn++ % queue.sessions.size()];
    ++without;
    if (!session.takes()) continue;
    const auto id = queue.tasks.next(
        session.hello.all_tenants ? std::string_view() : std::string_view(session.hello.tenant), now_ms);
    if (!id) continue;
    without = 0;
    Task& task = tasks_.at(*id);
    task.stage = Stage::loading;
    task.session = &session;
    task.out_ms = now_ms;
    session.tasks.insert(*id);
    owner_->bring(*id);
  }
}

void WorkerPool::send(Id id, core::SlotPtr input, core::SlotPtr progress) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second.stage != Stage::loading) return;
  Task& task = found->second;
  const core::Action& action = *task.action;
  task.stage = Stage::out;
  task.out_ms = task.heard_ms = clock_.wall_ms();
  watch(id, task);
  std::int64_t limit_ms = action.start_to_close_ms;
  if (action.close_by_ms != 0) {
    const std::int64_t left = std::max<std::int64_t>(1, action.close_by_ms - task.out_ms);
    limit_ms = limit_ms == 0 ? left : std::min(limit_ms, left);
  }
  task.session->outgoing.tasks.push_back({.id = {*task.stream, action.path, task.token},
                                          .activity = action.name,
                                          .queue = queue_name(action),
                                          .tenant = action.tenant,
                                          .key = action.key,
                                          .input = std::move(input),
                                          .progress = std::move(progress),
                                          .start_to_close_ms = limit_ms,
                                          .heartbeat_ms = action.heartbeat_ms});
  if (task.cancelled) task.session->outgoing.cancelled.push_back({*task.stream, action.path, task.token});
}

void WorkerPool::cancel(Id id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  Task& task = found->second;
  if (task.cancelled || task.ended) return;
  task.cancelled = true;
  if (task.stage == Stage::out) {
    task.session->outgoing.cancelled.push_back({*task.stream, task.action->path, task.token});
  } else if (task.stage != Stage::loading) {
    end(id, task,
        failure(Outcome::not_done, Code::cancelled, FailureSide::platform, false,
                "cancelled before a worker had it"),
        early_);
  }
}

void WorkerPool::forget(Id id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  Task& task = found->second;
  if (task.stage == Stage::out && !task.ended) {
    task.session->outgoing.gone.push_back({*task.stream, task.action->path, task.token});
  }
  if (task.deadline) deadlines_.erase(*task.deadline);
  Session* session = task.session;
  const std::string name = queue_name(*task.action);
  leave(id, task);
  tasks_.erase(found);
  if (session != nullptr && !session->link && session->tasks.empty()) sessions_.erase(session->id);
  if (const auto queue = queues_.find(name); queue != queues_.end()) note_unserved(name, queue->second);
}

// ---- time

std::int64_t WorkerPool::deadline_of(const Task& task) const {
  const core::Action& action = *task.action;
  std::int64_t due_ms = action.close_by_ms;
  if (task.stage == Stage::waiting || task.stage == Stage::held_back) {
    if (action.schedule_to_start_ms != 0) earliest(due_ms, action.scheduled_ms + action.schedule_to_start_ms);
  } else {
    if (action.start_to_close_ms != 0) earliest(due_ms, task.out_ms + action.start_to_close_ms);
    if (action.heartbeat_ms != 0 && task.stage == Stage::out)
      earliest(due_ms, task.heard_ms + action.heartbeat_ms);
  }
  return due_ms;
}

void WorkerPool::watch(Id id, Task& task) {
  if (task.deadline) deadlines_.erase(*task.deadline);
  task.deadline.reset();
  if (const std::int64_t due_ms = deadline_of(task)) task.deadline = deadlines_.emplace(due_ms, id);
}

void WorkerPool::pass_deadlines(std::int64_t now_ms, std::vector<Answer>& answers) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) {
    const Id id = deadlines_.begin()->second;
    Task& task = tasks_.at(id);
    if (!task.ended && deadline_of(task) > now_ms) {  // it has been heard meanwhile
      watch(id, task);
      continue;
    }
    deadlines_.erase(deadlines_.begin());
    task.deadline.reset();
    if (task.ended) continue;
    const core::Action& action = *task.action;
    const std::string& name = queue_name(action);
    if (task.stage == Stage::waiting || task.stage == Stage::held_back) {
      end(id, task,
          failure(Outcome::not_done, Code::worker_missing, FailureSide::platform, false,
                  "no worker of " + name + " began it within " +
                      std::to_string(now_ms - action.scheduled_ms) + " ms; start one, or more of them"),
          answers);
      continue;
    }
    const bool silent = action.heartbeat_ms != 0 && now_ms >= task.heard_ms + action.heartbeat_ms;
    const std::string limit =
        silent ? "was silent for its heartbeat timeout of " + std::to_string(action.heartbeat_ms) + " ms"
               : "reached its limit of " + std::to_string(now_ms - task.out_ms) + " ms";
    auto result =
        failure(Outcome::unknown, Code::step_timed_out, silent ? FailureSide::platform : FailureSide::user,
                true, "the attempt at worker " + task.session->hello.worker + " " + limit);
    task.session->outgoing.gone.push_back({*task.stream, action.path, task.token});
    end(id, task, std::move(result), answers);
  }
}

/// Of workers that are away or silent.
void WorkerPool::pass_leases(std::int64_t now_ms, std::vector<Answer>& answers) {
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    Session& session = *(next++)->second;
    const bool away = !session.link;
    if (!(away && session.draining) && now_ms < session.heard_ms + settings_.lease_ms) continue;
    if (!away) {  // it is silent: whoever comes back under its name has a lease of its own again
      session.link->close(
          {Code::timed_out,
           "the worker was silent for " + std::to_string(settings_.lease_ms) + " ms; it is to connect anew"});
      take(Detached{session.id});
      continue;
    }
    for (const Id id : session.tasks) {
      Task& task = tasks_.at(id);
      if (task.ended) continue;
      end(id, task,
          failure(Outcome::unknown, Code::worker_lost, FailureSide::platform, true,
                  "the worker " + session.hello.worker + " went away and did not come back"),
          answers);
    }
  }
  std::erase_if(claims_, [&](const auto& entry) {
    const auto& [who, claim] = entry;
    const auto& [step, worker] = who;
    if (now_ms < claim.until_ms) return false;
    if (Session* session = session_of(worker))
      session->outgoing.gone.push_back({step.first, step.second, claim.token});
    return true;
  });
  std::erase_if(unsettled_, [&](const auto& entry) { return now_ms >= entry.second.until_ms; });
}

void WorkerPool::pass_waits(std::int64_t now_ms) {
  if (!held_back_.empty() && !held_back(now_ms)) {
    for (const Id id : std::exchange(held_back_, {})) line_up(id, tasks_.at(id));
  }
  for (auto& [name, queue] : queues_) {
    if (queue.alarmed || queue.unserved_since_ms == 0 ||
        now_ms < queue.unserved_since_ms + settings_.alarm_ms)
      continue;
    queue.alarmed = true;
    base::log(base::LogLevel::warning, "no_worker", {{"queue", name}, {"waiting", queue.tasks.size()}});
  }
}

std::optional<std::int64_t> WorkerPool::next_due_ms() const {
  std::optional<std::int64_t> due;
  const auto at = [&due](std::int64_t ms) { due = due ? std::min(*due, ms) : ms; };
  if (!deadlines_.empty()) at(deadlines_.begin()->first);
  for (const auto& [id, session] : sessions_) at(session->heard_ms + settings_.lease_ms);
  for (const auto& [who, claim] : claims_) at(claim.until_ms);
  if (!held_back_.empty() && opened_ms_ != 0) at(opened_ms_ + settings_.reattach_ms);
  for (const auto& [name, queue] : queues_) {
    if (queue.unserved_since_ms != 0 && !queue.alarmed) at(queue.unserved_since_ms + settings_.alarm_ms);
    const auto rate = settings_.rates.find(name);
    if (rate == settings_.rates.end() || queue.tasks.size() == 0 || queue.sessions.empty()) continue;
    at(clock_.wall_ms() + std::max<std::int64_t>(1, static_cast<std::int64_t>(1000 / rate->second)));
  }
  return due;
}

}  // namespace sandglass::engine::dispatch
