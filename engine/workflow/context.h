// What workflow code may do, and all that it may do. Everything that depends on the world goes through here
// and is taken from history when the code is run again; the code itself must be a function of what it gets
// from here.
//
//   Task<Result<Json>> ship(Context& ctx, Json order) {
//     auto packed = co_await ctx.step("pack", "warehouse.pack", order);
//     if (!packed) co_return std::unexpected(packed.error());
//     if (auto slept = co_await ctx.sleep(60'000); !slept) co_return std::unexpected(slept.error());
//     …
//   }
//
// Identity is lexical (J14): generation / branch or scope / name # ordinal among equal names at the same
// place. Hence each branch and scope brings a Context of its own, which its code must use instead of the
// outer one.
//
// Errors are values: code `cancelled` when the scope was cancelled. In a cancelled scope every wait ends at
// once; clean-up that must still run goes into ctx.cleanup(). Ownership: a Context lives as long as the
// coroutine that it was given to. Thread rule: the workflow's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/result.h"
#include "engine/core/messages/message.h"
#include "engine/core/payload.h"
#include "engine/core/stream_id.h"
#include "engine/run/attributes.h"
#include "engine/run/types.h"
#include "engine/workflow/handlers.h"
#include "engine/workflow/task.h"
#include "engine/workflow/wait.h"

namespace sandglass::engine::workflow {

class CheckpointAwaiter;
class ContinueAwaiter;

struct RunInfo {
  core::StreamId stream;
  std::string workflow, version, tenant, user, session;
  std::string history_root, effect_root;
};

/// How a step ended, with what an error value cannot hold.
struct StepResult {
  Result<Json> value;
  core::FailureSide side = core::FailureSide::user;  // of a failure (O7)
  Json details;                                      // what the activity added to a failure
};

struct OperationResult {
  core::Outcome outcome = core::Outcome::not_done;
  base::Code code = base::Code::ok;
  core::FailureSide side = core::FailureSide::user;
  Json result;
  std::string message;
  bool done() const { return outcome == core::Outcome::done; }
};

struct ExchangeRequest {
  core::StreamId target;
  core::MessageBody body;
  std::optional<Json> payload;
  std::int64_t timeout_ms = 0;  // then the question is withdrawn; 0: wait for ever
};
struct ExchangeAnswer {
  std::string path;  // of the exchange; a granted lease is known by it
  core::StreamId source;
  core::MessageBody body;
  Json payload;
};

struct ChildOptions {
  std::string version;  // empty: the newest that is registered
  run::ClosePolicy on_close = run::ClosePolicy::cancel;
};
/// A child run that goes on by itself until it is waited for.
struct ChildHandle {
  std::string path;
  core::StreamId run;
};
struct ChildResult {
  Result<Json> value;  // an error has the child's own code
  core::FailureSide side = core::FailureSide::user;
  core::RunEnd how = core::RunEnd::completed;
  core::StreamId run;  // the last one, if the child went on as others
};

template <class R>
using Branch = std::function<Task<R>(Context&)>;
template <class R>
struct Raced {
  std::size_t winner = 0;
  R value;
};

class Context {
 public:
  Context(Instance& instance, CancelScope& scope, std::string prefix);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // ---- steps and operations

  /// Carries out activity `activity`; `name` is the step's place in history. Results are JSON.
  Task<Result<Json>> step(std::string name, std::string activity, Json input, run::StepOptions options = {});
  Task<StepResult> run_step(std::string name, std::string activity, Json input,
                            run::StepOptions options = {});
  /// The same with a result of any type that nlohmann::json converts.
  template <class R>
  Task<Result<R>> step_as(std::string name, std::string activity, Json input, run::StepOptions options = {});
  /// An effect outside: intent durable, effect, outcome durable (J16). A cancelled scope ends it only while
  /// nothing of it is out; otherwise its outcome is waited for.
  Task<OperationResult> operation(std::string name, std::string tool, Json input,
                                  run::OperationOptions options = {});

  // ---- time and chance; the same at every replay

  Task<Status> sleep(std::int64_t duration_ms);
  Task<Status> sleep_until(std::int64_t wall_ms);
  /// Wall time of the event that woke the workflow.
  std::int64_t now_ms() const;
  std::uint64_t random();
  std::string uuid();

  // ---- messages

  /// The next signal of this name, whether it came before or comes later. timeout_ms 0: waits for ever; else
  /// code timed_out.
  Task<Result<Json>> wait_signal(std::string name, std::int64_t timeout_ms = 0);
  /// Until it holds. It is looked at whenever the run's code has come to rest; it must be a function of the
  /// workflow's own state.
  Task<Status> until(std::function<bool()> condition);
  /// `code` answers queries of this name for as long as the result lives: keep it in the frame that has what
  /// the code reads, declared after that. A run that has ended answers with what the code last said. The code
  /// must not change anything nor ask for anything.
  QueryHandler on_query(std::string name, QueryHandler::Code code);
  /// Updates of this name are taken for as long as the result lives, as above. `check` says whether one may
  /// be accepted (an error refuses it, and nothing is recorded); it must not change or ask for anything.
  /// `code` then carries it out side by side with the workflow, with a Context of its own; what it returns or
  /// throws is the update's answer. What is not carried out when the handler goes is answered
  /// update_abandoned: see updates_done().
  UpdateHandler on_update(std::string name, UpdateHandler::Check check, UpdateHandler::Code code);
  /// Until no update is being carried out: before a checkpoint, and before the end if they are to be
  /// answered.
  Task<Status> updates_done();
  Task<Result<ExchangeAnswer>> exchange(std::string name, ExchangeRequest request);
  Status send(std::string name, const core::StreamId& target, core::MessageBody body,
              const std::optional<Json>& payload = std::nullopt);
  /// Gives back a lease and waits until the pool says that it is gone.
  Task<Status> release_lease(std::string lease);
  /// Why the lease ended, if it did (since the last checkpoint).
  std::optional<base::Code> lease_ended(const std::string& lease) const;

  // ---- child runs

  /// Runs `workflow` as a run of its own, and waits for its end. A cancelled scope cancels the child and
  /// waits for that too.
  Task<Result<Json>> child(std::string name, std::string workflow, Json input, ChildOptions options = {});
  Task<ChildResult> run_child(std::string name, std::string workflow, Json input, ChildOptions options = {});
  /// The same in two parts. A handle is good until the next checkpoint.
  Result<ChildHandle> start_child(std::string name, std::string workflow, const Json& input,
                                  ChildOptions options = {});
  Task<ChildResult> join(ChildHandle child);

  // ---- structure

  template <class Fn>
  std::invoke_result_t<Fn&, Context&> scope(std::string name, Fn fn);
  /// Not cancelled by what surrounds it: releases, notices, compensations.
  template <class Fn>
  std::invoke_result_t<Fn&, Context&> cleanup(std::string name, Fn fn);
  /// All branches side by side; results in the order of the branches.
  template <class R>
  Task<std::vector<R>> all(std::vector<Branch<R>> branches);
  /// The first to end wins; the others are cancelled and waited for.
  template <class R>
  Task<Raced<R>> race(std::vector<Branch<R>> branches);
  /// The first to end well wins; if none does, the last one's error.
  template <class T>
  Task<Raced<Result<T>>> any(std::vector<Branch<Result<T>>> branches);
  bool cancelled() const { return scope_.cancelled(); }

  // ---- the run itself

  /// A restart point (J15); needs engine/workflow/checkpoint.h. Legal only in the workflow's own function.
  template <class State>
  CheckpointAwaiter checkpoint(const State& state);
  /// Ends this run and goes on as another one of the same workflow, with a history of its own, all unread
  /// signals, and whoever waits for this run's end waiting for that one's. Legal only in the workflow's own
  /// function with nothing open; comes back only with an error.
  ContinueAwaiter continue_as_new(Json input);
  void set_phase(run::Phase phase);
  /// What the run can be found by (`attributes.order = "A-17"`), all of it: what was set before is gone.
  /// invalid_argument: too many, too long, or a name with other characters than letters, digits and "_".
  Status set_attributes(const run::Attributes& attributes);
  /// False while code that ran before the change is replayed. The first answer holds until the next
  /// checkpoint.
  bool patched(const std::string& id);
  /// Nothing is logged while replaying.
  void log(base::LogLevel level, std::string_view event, std::initializer_list<base::LogField> fields) const;
  const RunInfo& info() const;
  /// What approvals are bound to (J23): the digest that a step or operation with this input would have.
  Result<core::ContentDigest> digest(const Json& value) const;

 private:
  friend class CheckpointAwaiter;
  friend class Handlers;
  friend class ContinueAwaiter;
  friend class Instance;
  template <class R>
  struct BranchFrame;

  Result<core::Payload> payload_of(const Json& value) const;
  std::string next_path(std::string_view name);
  std::string inner(std::string_view level) const;
  template <class R, class Wins>
  Task<std::size_t> run_branches(std::vector<std::unique_ptr<BranchFrame<R>>>& frames, Wins wins);
  template <class R, class Wins>
  Task<void> run_branch(std::vector<std::unique_ptr<BranchFrame<R>>>& frames, std::size_t index,
                        std::size_t& winner, Wins wins);
  template <class R>
  std::vector<std::unique_ptr<BranchFrame<R>>> frames_of(std::vector<Branch<R>>& branches);
  ReadyQueue& queue();

  Instance& instance_;
  CancelScope& scope_;
  std::string prefix_;
};

/// Of continue_as_new(): the code stays suspended, since the run is at its end.
class ContinueAwaiter : public EngineAwaiter {
 public:
  ContinueAwaiter(Context& context, Json input) : context_(context), input_(std::move(input)) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> frame) {
    status_ = record(frame.address());
    return status_.has_value();
  }
  Status await_resume() { return std::move(status_); }

 private:
  Status record(void* frame);

  Context& context_;
  Json input_;
  Status status_;
};

}  // namespace sandglass::engine::workflow

#include "engine/workflow/combinators.h"  // IWYU pragma: export
