#include "engine/dispatch/local_dispatcher.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/codec/json.h"
#include "engine/codec/record.h"
#include "engine/dispatch/running_scope.h"
#include "engine/view/keys.h"

namespace sandglass::engine::dispatch {
namespace {

using base::Code;
using core::ActionKind;

constexpr std::int64_t kNsPerMs = 1'000'000;

core::ActivityResult failure(Code code, core::FailureSide side, bool retryable, std::string message) {
  core::ActivityResult result;
  result.outcome = core::Outcome::not_done;
  result.code = code;
  result.side = side;
  result.retryable = retryable;
  result.message = std::move(message);
  return result;
}

/// A damaged record of the stream is no failure of its step: the shard parks the stream.
Code of_stream(Code code) {
  return code == Code::record_damaged ? Code::stream_damaged : code;
}

/// Inputs that wait for workers are kept in memory up to this; beyond, they are read again.
constexpr std::size_t kMostKept = 16 << 20;

bool is_operation(ActionKind kind) {
  return kind == ActionKind::reserve || kind == ActionKind::effect;
}

}  // namespace

struct LocalDispatcher::Mailbox {
  std::mutex mutex;
  std::vector<std::pair<AttemptId, core::ActivityResult>> answers;
  base::OnNews on_news;
};

LocalDispatcher::LocalDispatcher(DispatchPorts ports)
    : ports_(std::move(ports)), mailbox_(std::make_shared<Mailbox>()) {
  mailbox_->on_news = ports_.on_news;
  if (ports_.workers != nullptr) ports_.workers->own(this, ports_.on_news);
}

LocalDispatcher::~LocalDispatcher() {
  if (ports_.workers != nullptr) {
    abandon_all();
    ports_.workers->own(nullptr, nullptr);
  }
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->on_news = nullptr;
}

void LocalDispatcher::submit(const core::StreamId& stream, core::Action action) {
  if (action.kind == ActionKind::cancel) return cancel(stream, action);
  if (action.kind == ActionKind::settled) {
    if (ports_.workers != nullptr) ports_.workers->settled(stream, action.path, action.token);
    return;
  }
  Key key(stream, action.path);
  if (const auto under_way = by_key_.find(key); under_way != by_key_.end()) {
    const Attempt& current = attempts_.at(under_way->second);
    if (action.token < current.action.token ||
        (action.token == current.action.token && action.kind == current.action.kind)) {
      ++counters_.attached;
      return;
    }
    stop(current);
    forget(under_way->second);
  }
  const AttemptId id = ++last_id_;
  Attempt& attempt =
      attempts_.emplace(id, Attempt{.stream = stream, .action = std::move(action)}).first->second;
  by_key_.emplace(std::move(key), id);
  if (attempt.action.not_before_ms > ports_.clock.wall_ms()) {
    attempt.waits = not_before_.emplace(attempt.action.not_before_ms, id);
    attempt.waiting_for_time = true;
    return;
  }
  begin(id);
}

void LocalDispatcher::begin(AttemptId id) {
  if (goes_to_workers(attempts_.at(id).action)) return give_to_workers(id);
  bring_input(id);
}

bool LocalDispatcher::goes_to_workers(const core::Action& action) const {
  return ports_.workers != nullptr && action.kind == ActionKind::start &&
         (!action.queue.empty() || ports_.activities.find(action.name) == nullptr);
}

void LocalDispatcher::give_to_workers(AttemptId id) {
  Attempt& attempt = attempts_.at(id);
  attempt.with_workers = attempt.started = true;
  if (attempt.action.input_slot != nullptr && !attempt.action.input.empty()) {
    const std::size_t size = attempt.action.input_slot->bytes.size();
    if (kept_ + size > kMostKept) {
      attempt.action.input_slot = nullptr;
    } else {
      kept_ += attempt.kept = size;
    }
  }
  ports_.workers->enqueue(id, attempt.stream, attempt.action);
}

LocalDispatcher::AttemptId LocalDispatcher::find(const core::StreamId& stream,
                                                 const std::string& path) const {
  const auto found = by_key_.find(Key(stream, path));
  return found == by_key_.end() ? 0 : found->second;
}

void LocalDispatcher::bring(AttemptId id) {
  const Attempt& attempt = attempts_.at(id);
  const auto then = [this, id](core::SlotPtr input) {
    ++counters_.started;
    const core::PayloadRef told = attempts_.at(id).action.progress;
    if (told.empty()) return ports_.workers->send(id, std::move(input), nullptr);
    read_slot(id, told, [this, id, input = std::move(input)](core::SlotPtr progress) {
      ports_.workers->send(id, input, std::move(progress));
    });
  };
  if (attempt.action.input_slot != nullptr || attempt.action.input.empty())
    return then(attempt.action.input_slot);
  read_slot(id, attempt.action.input, then);
}

std::optional<WorkerPool::Whereabouts> LocalDispatcher::whereabouts(const core::StreamId& stream,
                                                                    const std::string& path) const {
  if (ports_.workers == nullptr) return std::nullopt;
  return ports_.workers->whereabouts(find(stream, path));
}

/// The attempt's own answer may still come, and counts. One that has not started ends here.
void LocalDispatcher::cancel(const core::StreamId& stream, const core::Action& action) {
  const auto found = by_key_.find(Key(stream, action.path));
  if (found == by_key_.end()) return;
  const Attempt& attempt = attempts_.at(found->second);
  if (attempt.action.token != action.token) return;
  if (attempt.started) return stop(attempt);
  fail(found->second, Code::cancelled, "cancelled before it was started");
}

void LocalDispatcher::stop(const Attempt& attempt) {
  if (!attempt.started) return;
  const core::Action& action = attempt.action;
  if (attempt.with_workers) return ports_.workers->cancel(find(attempt.stream, action.path));
  if (is_operation(action.kind)) {
    if (ports_.operations != nullptr) ports_.operations->cancel(attempt.stream, action.path, action.token);
  } else if (core::Activity* activity = ports_.activities.find(action.name)) {
    activity->cancel(attempt.stream, action.path, action.token);
  }
}

void LocalDispatcher::bring_input(AttemptId id) {
  const Attempt& attempt = attempts_.at(id);
  const core::PayloadRef ref = attempt.action.input;
  if (attempt.action.input_slot != nullptr || ref.empty()) return start(id);
  read_slot(id, ref, [this, id](core::SlotPtr slot) {
    attempts_.at(id).action.input_slot = std::move(slot);
    start(id);
  });
}

void LocalDispatcher::read_slot(AttemptId id, core::PayloadRef ref, SlotDone done) {
  ports_.reads.get(
      view::record_key(attempts_.at(id).stream, ref.seq),
      [this, id, ref, done = std::move(done)](base::Result<std::optional<std::string>> row) mutable {
        const auto found = attempts_.find(id);
        if (found == attempts_.end()) return;
        if (!row) return fail(id, of_stream(row.error().code), row.error().message);
        if (!*row) return fail(id, Code::stream_damaged, "the record of its input is missing");
        auto record = codec::decode_record(found->second.stream, ref.seq, **row);
        if (!record) return fail(id, of_stream(record.error().code), record.error().message);
        if (ref.slot >= record->slots.size())
          return fail(id, Code::stream_damaged, "its input is missing in the record");
        done(record->slots[ref.slot]);
      });
}

core::ActivityDone LocalDispatcher::done(AttemptId id) {
  return [mailbox = mailbox_, id](core::ActivityResult result) {
    const std::lock_guard lock(mailbox->mutex);
    mailbox->answers.emplace_back(id, std::move(result));
    if (mailbox->on_news) mailbox->on_news();
  };
}

void LocalDispatcher::start(AttemptId id) {
  Attempt& attempt = attempts_.at(id);
  core::Action& action = attempt.action;
  core::ActivityCall call{.stream = attempt.stream,
                          .name = action.name,
                          .path = action.path,
                          .key = action.key,
                          .token = action.token,
                          .input = std::move(action.input_slot),
                          .start_to_close_ms = action.start_to_close_ms};
  attempt.started = true;
  ++counters_.started;
  if (is_operation(action.kind)) {
    if (ports_.operations == nullptr) {
      return fail(id, Code::activity_unknown, "no executor for operations is configured");
    }
    // The executor alone knows how far an effect came: it cuts it, and says what became of it (J16).
    if (action.kind == ActionKind::reserve) return ports_.operations->reserve(std::move(call), done(id));
    return ports_.operations->perform(std::move(call), action.permit_ms, done(id));
  }
  core::Activity* activity = ports_.activities.find(action.name);
  if (activity == nullptr)
    return fail(id, Code::activity_unknown, "no activity " + action.name + " is registered");
  if (action.start_to_close_ms > 0) {
    attempt.cut = limits_.emplace(ports_.clock.monotonic_ns() + action.start_to_close_ms * kNsPerMs, id);
    attempt.has_limit = true;
  }
  const auto code = core::RunningCode::of_step(attempt.stream, action.path);
  if (ports_.running != nullptr && ports_.running->is_suspect(code)) {
    ports_.running->clear(code);  // once it is resumed, it has its three restarts again
    return fail(id, core::kCrashesCode,
                "the engine ended three times while step " + action.path + " (" + action.name +
                    ") ran in it; it is not run again before the run is resumed");
  }
  const RunningScope scope(ports_.running, code);
  activity->start(std::move(call), done(id));
}

/// Goes through the mailbox, so that answers come out of poll() alone.
void LocalDispatcher::fail(AttemptId id, Code code, std::string message) {
  done(id)(failure(code, core::FailureSide::platform, false, std::move(message)));
}

void LocalDispatcher::forget(AttemptId id) {
  const auto found = attempts_.find(id);
  Attempt& attempt = found->second;
  if (attempt.waiting_for_time) not_before_.erase(attempt.waits);
  if (attempt.has_limit) limits_.erase(attempt.cut);
  if (attempt.with_workers) ports_.workers->forget(id);
  kept_ -= attempt.kept;
  by_key_.erase(Key(attempt.stream, attempt.action.path));
  attempts_.erase(found);
}

void LocalDispatcher::poll(std::vector<core::FinishedAction>& finished) {
  const std::int64_t wall_ms = ports_.clock.wall_ms();
  while (!not_before_.empty() && not_before_.begin()->first <= wall_ms) {
    const AttemptId id = not_before_.begin()->second;
    not_before_.erase(not_before_.begin());
    attempts_.at(id).waiting_for_time = false;
    begin(id);
  }
  if (ports_.workers != nullptr) {
    from_workers_.clear();
    ports_.workers->poll(from_workers_);
    for (auto& answer : from_workers_) {
      if (attempts_.contains(answer.id)) finish(answer.id, std::move(answer.result), finished);
    }
  }
  std::vector<std::pair<AttemptId, core::ActivityResult>> answers;
  {
    const std::lock_guard lock(mailbox_->mutex);
    answers.swap(mailbox_->answers);
  }
  for (auto& [id, result] : answers) {
    if (attempts_.contains(id)) {
      finish(id, std::move(result), finished);
    } else {
      ++counters_.dropped;
    }
  }
  const base::MonotonicNs now = ports_.clock.monotonic_ns();
  while (!limits_.empty() && limits_.begin()->first <= now) {
    const AttemptId id = limits_.begin()->second;
    const Attempt& attempt = attempts_.at(id);
    ++counters_.timed_out;
    stop(attempt);
    core::ActivityResult result = failure(
        Code::step_timed_out, core::FailureSide::user, true,
        "the attempt reached its limit of " + std::to_string(attempt.action.start_to_close_ms) + " ms");
    result.outcome = core::Outcome::unknown;
    finish(id, std::move(result), finished);
  }
}

void LocalDispatcher::finish(AttemptId id, core::ActivityResult result,
                             std::vector<core::FinishedAction>& finished) {
  const Attempt& attempt = attempts_.at(id);
  // What is stored as JSON must be JSON, whoever made it (J3).
  if (result.encoding == core::Encoding::json && !result.bytes.empty()) {
    if (const auto checked = codec::check_json(result.bytes, {.max_bytes = core::kMaxRecordBytes});
        !checked) {
      result = failure(Code::payload_invalid, core::FailureSide::user, false,
                       "activity " + attempt.action.name + ": " + checked.error().message);
      result.outcome = core::Outcome::unknown;
    }
  }
  core::ActionFinished made{.kind = attempt.action.kind,
                            .path = attempt.action.path,
                            .token = attempt.action.token,
                            .outcome = result.outcome,
                            .code = result.code,
                            .side = result.side,
                            .retryable = result.retryable,
                            .message = std::move(result.message),
                            .type = std::move(result.type),
                            .receipt = result.receipt};
  if (!result.bytes.empty()) {
    made.result = ports_.digest_key(attempt.stream).make(result.encoding, std::move(result.bytes));
  }
  if (!result.progress.empty()) {
    made.progress = ports_.digest_key(attempt.stream).make(core::Encoding::json, std::move(result.progress));
  }
  if (ports_.running != nullptr) ports_.running->clear(core::RunningCode::of_step(attempt.stream, made.path));
  finished.push_back({attempt.stream, std::move(made)});
  forget(id);
}

/// Nothing is cancelled: what is under way may be attached to by whoever owns the streams next.
void LocalDispatcher::abandon_all() {
  if (ports_.workers != nullptr) ports_.workers->abandon_all();
  kept_ = 0;
  attempts_.clear();
  by_key_.clear();
  not_before_.clear();
  limits_.clear();
}

std::optional<std::int64_t> LocalDispatcher::next_due_ms() const {
  std::optional<std::int64_t> due;
  if (!not_before_.empty()) due = not_before_.begin()->first;
  if (!limits_.empty()) {
    const std::int64_t left_ms = (limits_.begin()->first - ports_.clock.monotonic_ns()) / kNsPerMs + 1;
    const std::int64_t limit = ports_.clock.wall_ms() + left_ms;
    due = due ? std::min(*due, limit) : limit;
  }
  if (ports_.workers != nullptr) {
    if (const auto theirs = ports_.workers->next_due_ms()) due = due ? std::min(*due, *theirs) : *theirs;
  }
  return due;
}

}  // namespace sandglass::engine::dispatch
