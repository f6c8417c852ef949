#include "engine/dispatch/worker_pool.h"

#include <algorithm>
#include <utility>

#include "engine/base/log.h"

namespace sandglass::engine::dispatch {

WorkerPool::WorkerPool(const base::Clock& clock, WorkerSettings settings)
    : clock_(clock), settings_(std::move(settings)), began_ms_(clock.wall_ms()) {}

void WorkerPool::own(Owner* owner, base::OnNews on_news) {
  owner_ = owner;
  const std::lock_guard lock(mutex_);
  on_news_ = std::move(on_news);
}

WorkerPool::SessionId WorkerPool::attach(std::shared_ptr<WorkerLink> link, WorkerHello hello) {
  const std::lock_guard lock(mutex_);
  inbox_.emplace_back(Attached{++last_session_, std::move(link), std::move(hello)});
  if (on_news_) on_news_();
  return last_session_;
}
void WorkerPool::hear(SessionId session, WorkerSays words) {
  const std::lock_guard lock(mutex_);
  inbox_.emplace_back(Heard{session, std::move(words)});
  if (on_news_) on_news_();
}
void WorkerPool::detach(SessionId session) {
  const std::lock_guard lock(mutex_);
  inbox_.emplace_back(Detached{session});
  if (on_news_) on_news_();
}

void WorkerPool::poll(std::vector<Answer>& answers) {
  std::vector<News> news;
  {
    const std::lock_guard lock(mutex_);
    news.swap(inbox_);
  }
  std::ranges::move(early_, std::back_inserter(answers));
  early_.clear();
  for (News& one : news) {
    if (auto* heard = std::get_if<Heard>(&one)) {
      take(std::move(*heard), answers);
    } else if (auto* attached = std::get_if<Attached>(&one)) {
      take(std::move(*attached));
    } else {
      take(std::get<Detached>(one));
    }
  }
  const std::int64_t now_ms = clock_.wall_ms();
  pass_deadlines(now_ms, answers);
  pass_leases(now_ms, answers);
  pass_waits(now_ms);
  hand_out(now_ms);
  flush();
}

void WorkerPool::flush() {
  for (auto& [id, session] : sessions_) {
    if (session->outgoing.empty()) continue;
    if (session->link) session->link->say(std::exchange(session->outgoing, {}));
    session->outgoing = {};
  }
}

// ---- connections

void WorkerPool::take(Attached news) {
  auto made = std::make_unique<Session>();
  Session& session = *made;
  session.id = news.id;
  session.link = std::move(news.link);
  session.hello = std::move(news.hello);
  session.heard_ms = clock_.wall_ms();
  Session* former = session_of(session.hello.worker);
  if (former != nullptr && former->hello.tenant != session.hello.tenant) {  // not the same process
    return session.link->close({base::Code::already_exists, "a worker of another tenant has the id " +
                                                                session.hello.worker +
                                                                "; each process makes one of its own"});
  }
  sessions_.emplace(news.id, std::move(made));
  for (const TaskId& id : session.hello.held) name(session, id);
  if (former != nullptr) take_over(session, *former);
  for (const std::string& name : session.hello.queues) {
    const auto limits = settings_.rates.find(name);
    Queue& queue = queues_
                       .try_emplace(name, QueueLimits{limits == settings_.rates.end() ? 0 : limits->second,
                                                      settings_.weights})
                       .first->second;
    queue.sessions.push_back(&session);
    queue.unserved_since_ms = 0;
    queue.alarmed = false;
  }
  base::log(base::LogLevel::info, "worker_attached",
            {{"worker", session.hello.worker},
             {"tenant", session.hello.tenant},
             {"queues", session.hello.queues.size()},
             {"held", session.tasks.size()}});
}

/// What its worker has not named again has never reached it, or was given up there.
void WorkerPool::take_over(Session& session, Session& former) {
  for (const Id id : std::vector<Id>(former.tasks.begin(), former.tasks.end())) {
    Task& task = tasks_.at(id);
    leave(id, task);
    line_up(id, task);
  }
  if (former.link) {
    former.link->close(
        {base::Code::unavailable, "the worker " + session.hello.worker + " has connected anew"});
  }
  leave_queues(former);
  sessions_.erase(former.id);
}

/// A worker has come back and has this: it goes on with it if nobody else has got it meanwhile.
void WorkerPool::name(Session& session, const TaskId& id) {
  const Id found = owner_->find(id.stream, id.path);
  const auto task = found == 0 ? tasks_.end() : tasks_.find(found);
  if (task == tasks_.end() || task->second.ended) {
    claims_.insert_or_assign(
        {Step(id.stream, id.path), session.hello.worker},
        Claim{.token = id.token, .until_ms = clock_.wall_ms() + settings_.lease_ms, .result = {}});
    return;
  }
  const core::Token& current = task->second.action->token;
  const Session* holder = task->second.session;
  const bool same = is_attempt(id.token, current);
  if (!same || !session.serves(*task->second.action) ||
      (holder != nullptr && holder->hello.worker != session.hello.worker)) {
    session.outgoing.gone.push_back(id);
    return;
  }
  attach_to(session, found, task->second, id.token);
}

void WorkerPool::take(Heard news, std::vector<Answer>& answers) {
  const auto found = sessions_.find(news.id);
  if (found == sessions_.end() || !found->second->link) return;
  Session& session = *found->second;
  const std::int64_t now_ms = clock_.wall_ms();
  session.heard_ms = now_ms;
  for (WorkerProgress& one : news.words.heartbeats) {
    if (Task* task = task_of(session, one.id)) {
      task->heard_ms = now_ms;
      if (!one.details.empty()) task->progress = std::move(one.details);
    } else {
      session.outgoing.gone.push_back(std::move(one.id));
    }
  }
  for (WorkerAnswer& answer : news.words.answers) answered(session, std::move(answer), answers);
  for (const TaskId& id : news.words.handed_back) handed_back(session, id);
  if (news.words.drains && !session.draining) {
    session.draining = true;
    leave_queues(session);
  }
}

WorkerPool::Task* WorkerPool::task_of(const Session& session, const TaskId& id, Id* found) {
  const Id number = owner_->find(id.stream, id.path);
  const auto task = number == 0 ? tasks_.end() : tasks_.find(number);
  if (task == tasks_.end() || task->second.ended || task->second.stage != Stage::out ||
      task->second.session != &session || task->second.token != id.token) {
    return nullptr;
  }
  if (found != nullptr) *found = number;
  return &task->second;
}

void WorkerPool::answered(Session& session, WorkerAnswer answer, std::vector<Answer>& answers) {
  Id id = 0;
  if (Task* task = task_of(session, answer.id, &id)) {
    answer.result.receipt = !task->cancelled;
    if (task->cancelled) {  // no record needs to wait for it
      session.outgoing.settled.push_back(std::move(answer.id));
    } else {
      unsettled_.insert_or_assign(
          TaskId(*task->stream, task->action->path, task->action->token),
          Unsettled{session.hello.worker, std::move(answer.id), clock_.wall_ms() + settings_.lease_ms});
    }
    return end(id, *task, std::move(answer.result), answers);
  }
  const auto claim = claims_.find({Step(answer.id.stream, answer.id.path), session.hello.worker});
  if (claim != claims_.end() && claim->second.token == answer.id.token) {
    claim->second.result = std::move(answer.result);
    return;
  }
  const bool awaited =
      std::ranges::any_of(unsettled_, [&](const auto& one) { return one.second.id == answer.id; });
  if (!awaited) session.outgoing.gone.push_back(std::move(answer.id));
}

void WorkerPool::end(Id id, Task& task, core::ActivityResult result, std::vector<Answer>& answers) {
  task.ended = true;
  if (task.session == nullptr) {  // it is not handed out meanwhile
    leave(id, task);
    task.stage = Stage::over;
  }
  if (result.outcome != core::Outcome::done && result.progress.empty()) {
    result.progress = std::move(task.progress);  // FR-59: the last one that it told
  }
  answers.push_back({id, std::move(result)});
}

void WorkerPool::handed_back(Session& session, const TaskId& id) {
  Id found = 0;
  if (Task* task = task_of(session, id, &found)) {
    leave(found, *task);
    line_up(found, *task);
  }
  session.outgoing.settled.push_back(id);
}

void WorkerPool::take(Detached news) {
  const auto found = sessions_.find(news.id);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  if (!session.link) return;
  leave_queues(session);
  session.link.reset();
  base::log(
      base::LogLevel::info, "worker_detached",
      {{"worker", session.hello.worker}, {"tasks", session.tasks.size()}, {"politely", session.draining}});
  session.heard_ms = clock_.wall_ms();
  if (session.tasks.empty()) sessions_.erase(found);
}

WorkerPool::Session* WorkerPool::session_of(std::string_view worker) {
  for (auto& [id, session] : sessions_) {
    if (session->hello.worker == worker) return session.get();
  }
  return nullptr;
}

void WorkerPool::leave_queues(Session& session) {
  for (const std::string& name : session.hello.queues) {
    const auto queue = queues_.find(name);
    if (queue == queues_.end()) continue;
    std::erase(queue->second.sessions, &session);
    note_unserved(name, queue->second);
  }
}

void WorkerPool::settled(const core::StreamId& stream, const std::string& path, const core::Token& token) {
  const auto found = unsettled_.find(TaskId(stream, path, token));
  if (found == unsettled_.end()) return;
  if (Session* session = session_of(found->second.worker)) {
    session->outgoing.settled.push_back(std::move(found->second.id));
  }
  unsettled_.erase(found);
}

/// The ownership is lost: workers keep what they have, and name it to whoever owns the streams next.
void WorkerPool::abandon_all() {
  for (auto& [id, session] : sessions_) {
    if (session->link) session->link->close({base::Code::unavailable, "this engine has lost its journal"});
  }
  const std::lock_guard lock(mutex_);
  inbox_.clear();
  early_.clear();
  tasks_.clear();
  queues_.clear();
  sessions_.clear();
  deadlines_.clear();
  held_back_.clear();
  claims_.clear();
  unsettled_.clear();
}

// ---- people

std::vector<QueueView> WorkerPool::queues() const {
  std::map<std::string, QueueView> views;
  for (const auto& [name, queue] : queues_) {
    views[name] = {.name = name,
                   .waiting = queue.tasks.size(),
                   .oldest_ms = queue.tasks.oldest_ms().value_or(0),
                   .workers = static_cast<std::uint32_t>(queue.sessions.size())};
  }
  std::vector<QueueView> all;
  for (const auto& [id, task] : tasks_) {
    const std::string& name = task.action->queue.empty() ? task.action->name : task.action->queue;
    QueueView& view = views[name];
    view.name = name;
    view.out += task.session != nullptr;
    if (task.stage != Stage::held_back) continue;
    ++view.waiting;
    if (view.oldest_ms == 0 || task.action->scheduled_ms < view.oldest_ms)
      view.oldest_ms = task.action->scheduled_ms;
  }
  for (auto& [name, view] : views) all.push_back(std::move(view));
  return all;
}

std::optional<WorkerPool::Whereabouts> WorkerPool::whereabouts(Id id) const {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return std::nullopt;
  const Task& task = found->second;
  const std::string& name = task.action->queue.empty() ? task.action->name : task.action->queue;
  if (task.session != nullptr) {
    return Whereabouts{
        "with worker " + task.session->hello.worker + (task.session->link ? "" : ", which is away"),
        task.out_ms};
  }
  const auto queue = queues_.find(name);
  const bool served = queue != queues_.end() && !queue->second.sessions.empty();
  return Whereabouts{served ? "waiting for room at a worker of " + name : "waiting for a worker of " + name,
                     task.action->scheduled_ms};
}

}  // namespace sandglass::engine::dispatch
