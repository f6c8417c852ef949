// The template half of Context: scopes and branches. Included by context.h.
#pragma once

#include "engine/workflow/context.h"

namespace sandglass::engine::workflow {

template <class R>
Task<Result<R>> Context::step_as(std::string name, std::string activity, Json input,
                                 run::StepOptions options) {
  Result<Json> result = co_await step(std::move(name), std::move(activity), std::move(input), options);
  if (!result) co_return std::unexpected(result.error());
  try {
    co_return result->template get<R>();
  } catch (const Json::exception& error) {
    co_return base::fail(base::Code::payload_invalid,
                         std::string("a step's result has another shape than expected: ") + error.what());
  }
}

template <class Fn>
std::invoke_result_t<Fn&, Context&> Context::scope(std::string name, Fn fn) {
  CancelScope cancel(&scope_);
  Context child(instance_, cancel, inner(name));
  co_return co_await fn(child);
}

template <class Fn>
std::invoke_result_t<Fn&, Context&> Context::cleanup(std::string name, Fn fn) {
  CancelScope cancel(nullptr);
  Context child(instance_, cancel, inner(name));
  co_return co_await fn(child);
}

/// One branch: its scope, its context and its result, at addresses that stay.
template <class R>
struct Context::BranchFrame {
  BranchFrame(Context& outer, std::size_t index, Branch<R> code)
      : branch(std::move(code)),
        cancel(&outer.scope_),
        context(outer.instance_, cancel, outer.inner("[" + std::to_string(index) + "]")) {}

  Branch<R> branch;
  CancelScope cancel;
  Context context;
  std::optional<R> result;
  Task<void> task;  // destroyed first: it uses the above
};

template <class R>
std::vector<std::unique_ptr<Context::BranchFrame<R>>> Context::frames_of(std::vector<Branch<R>>& branches) {
  std::vector<std::unique_ptr<BranchFrame<R>>> frames;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    frames.push_back(std::make_unique<BranchFrame<R>>(*this, i, std::move(branches[i])));
  }
  return frames;
}

template <class R, class Wins>
Task<void> Context::run_branch(std::vector<std::unique_ptr<BranchFrame<R>>>& frames, std::size_t index,
                               std::size_t& winner, Wins wins) {
  BranchFrame<R>& own = *frames[index];
  own.result.emplace(co_await own.branch(own.context));
  if (winner != frames.size() || !wins(*own.result)) co_return;
  winner = index;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i != index) frames[i]->cancel.cancel();
  }
}

/// Gives the winner's index, or the number of branches if none has won.
template <class R, class Wins>
Task<std::size_t> Context::run_branches(std::vector<std::unique_ptr<BranchFrame<R>>>& frames, Wins wins) {
  std::size_t winner = frames.size();
  Join join{.open = frames.size(), .waiter = {}};
  for (std::size_t i = 0; i < frames.size(); ++i) {
    frames[i]->task = run_branch<R, Wins>(frames, i, winner, wins);
    frames[i]->task.start(queue(), &join);
  }
  co_await JoinAwaiter(join);
  for (auto& frame : frames) frame->task.take();  // rethrows what left a branch
  co_return winner;
}

template <class R>
Task<std::vector<R>> Context::all(std::vector<Branch<R>> branches) {
  auto frames = frames_of(branches);
  co_await run_branches(frames, [](const R&) { return false; });
  std::vector<R> results;
  results.reserve(frames.size());
  for (auto& frame : frames) results.push_back(std::move(*frame->result));
  co_return results;
}

template <class R>
Task<Raced<R>> Context::race(std::vector<Branch<R>> branches) {
  SG_CHECK(!branches.empty(), "a race needs a branch");
  auto frames = frames_of(branches);
  const std::size_t winner = co_await run_branches(frames, [](const R&) { return true; });
  co_return Raced<R>{winner, std::move(*frames[winner]->result)};
}

template <class T>
Task<Raced<Result<T>>> Context::any(std::vector<Branch<Result<T>>> branches) {
  SG_CHECK(!branches.empty(), "any needs a branch");
  auto frames = frames_of(branches);
  std::size_t winner =
      co_await run_branches(frames, [](const Result<T>& result) { return result.has_value(); });
  if (winner == frames.size()) --winner;
  co_return Raced<Result<T>>{winner, std::move(*frames[winner]->result)};
}

}  // namespace sandglass::engine::workflow
