// Random commands in random order against the run decider: whatever comes, the invariants of DESIGN §9 hold.
// RunBench does the replay check after each event.
#include <algorithm>
#include <random>
#include <set>

#include "engine/run/view/run_view.h"
#include "tests/support/run_bench.h"

namespace sandglass::tests {
namespace {

class Player {
 public:
  explicit Player(std::uint32_t seed) : random_(seed) {}

  void play(int moves) {
    ASSERT_TRUE(bench_.start());
    for (int i = 0; i < moves && bench_.state.open(); ++i) {
      move();
      ASSERT_NO_FATAL_FAILURE(check());
    }
    if (bench_.state.open()) ASSERT_TRUE(bench_.give(run::Terminate{"end of the game"}));
    collect();
    ASSERT_NO_FATAL_FAILURE(check());
    EXPECT_TRUE(timers_of_state_and_index().first.empty());
    // Each update that was accepted has been answered, or told to be abandoned.
    EXPECT_EQ(bench_.count<run::UpdateAccepted>(),
              bench_.count<run::UpdateCompleted>() + bench_.count<run::UpdateAbandoned>());
    EXPECT_TRUE(bench_.state.updates.empty());
  }

 private:
  std::uint32_t below(std::uint32_t limit) { return random_() % limit; }
  std::string path() { return "0/p#" + std::to_string(below(6)); }

  void collect() {
    for (; seen_ < bench_.all_actions.size(); ++seen_) {
      const core::Action& action = bench_.all_actions[seen_];
      if (action.kind == core::ActionKind::effect)
        ++effects_[action.key + "/" + std::to_string(action.token.attempt)];
      if (action.kind != core::ActionKind::cancel) out_.push_back(action);
    }
  }

  void move() {
    switch (below(13)) {
      case 0:
      case 1:
      case 2:
        (void)bench_.apply(commands());
        break;
      case 3:
      case 4:
      case 5:
        finish_one();
        break;
      case 6:
        bench_.pass_time(bench_.timers.empty() ? bench_.now_ms + 1 : bench_.timers.begin()->first);
        break;
      case 7:
        (void)bench_.give(run::Signal{"s", bench_.json("1")});
        break;
      case 8:
        (void)bench_.give(answer());
        break;
      case 9:
        if (below(4) == 0) {
          for (const auto& action : bench_.recover()) out_.push_back(action);
        }
        break;
      case 10:
        (void)bench_.give(run::Resume{});
        break;
      case 11:
        if (below(8) == 0) (void)bench_.give(run::Cancel{"c"});
        (void)bench_.give(said(path()));
        break;
      case 12:
        (void)bench_.give(run::Update{"u", bench_.json("1")});
        break;
    }
    collect();
  }

  /// A person's word about whatever is, or is not, in doubt under this path.
  core::MessageReceived said(const std::string& at) {
    const auto found = bench_.state.operations.find(at);
    core::MessageReceived received;
    received.message.source = core::StreamId::named(core::StreamKind::approvals, "");
    core::OutcomeDecided decided{.verdict = static_cast<core::OutcomeVerdict>(below(3)), .by = "ann"};
    if (found != bench_.state.operations.end()) {
      received.message.correlation = run::question_path(at, found->second.attempt);
      decided.arguments = found->second.input.digest;
    }
    received.message.body = std::move(decided);
    return received;
  }

  std::vector<run::WorkflowCommand> commands() {
    std::vector<run::WorkflowCommand> made;
    const std::uint32_t count = 1 + below(3);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string at = path();
      switch (below(11)) {
        case 0:
        case 1:
          if (!bench_.state.steps.contains(at)) {
            made.emplace_back(
                run::ScheduleStep{at, "a", bench_.json("1"), {.retry = {.max_attempts = below(3)}}});
          }
          break;
        case 2:
          made.emplace_back(run::CancelStep{at});
          break;
        case 3:
          if (!bench_.state.operations.contains(at) && !bench_.state.settled_operations.contains(at)) {
            run::OperationOptions options{.recovery = static_cast<run::Recovery>(below(3)), .probe = "probe"};
            made.emplace_back(run::ScheduleOperation{at, "t", bench_.json("1"), options});
          }
          break;
        case 4:
          made.emplace_back(run::CancelOperation{at});
          break;
        case 5:
          if (!bench_.state.timers.contains(at))
            made.emplace_back(run::StartTimer{at, bench_.now_ms + below(2000)});
          break;
        case 6:
          made.emplace_back(run::CancelTimer{at});
          break;
        case 7:
          if (!bench_.state.exchanges.contains(at) && !bench_.state.leases.contains(at)) {
            made.emplace_back(run::OpenExchange{at, bench_.stream, core::LeaseRequested{}, {}});
          }
          break;
        case 8:
          made.emplace_back(run::WithdrawExchange{at});
          break;
        case 9:
          made.emplace_back(run::ReleaseLease{"0/r#0", at});
          break;
        case 10:
          if (!bench_.state.updates.empty()) {
            const std::uint64_t number = bench_.state.updates.begin()->first;
            const bool twice = std::ranges::any_of(
                made, [](const auto& one) { return std::holds_alternative<run::CompleteUpdate>(one); });
            if (!twice) made.emplace_back(run::CompleteUpdate{number, base::Code::ok, bench_.json("2")});
          }
          break;
      }
    }
    return made;
  }

  void finish_one() {
    if (out_.empty()) return;
    const std::size_t index = below(static_cast<std::uint32_t>(out_.size()));
    const core::Action action = out_[index];
    if (below(3) != 0) out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(index));  // else it comes twice
    const auto outcome = static_cast<core::Outcome>(below(3));
    core::ActionFinished answer = bench_.finished(action, outcome);
    if (outcome != core::Outcome::done) {
      answer.code = below(2) == 0 ? base::Code::effect_not_done : base::Code::connect_failed;
      answer.retryable = below(2) == 0;
    }
    (void)bench_.give(answer);
  }

  core::MessageReceived answer() {
    core::Message message;
    message.source = core::StreamId::named(core::StreamKind::pool, "p");
    message.correlation = path();
    switch (below(4)) {
      case 0:
        message.body = core::LeaseGranted{.sandbox = "sb", .token = 1 + below(2)};
        break;
      case 1:
        message.body = core::LeaseEnded{.sandbox = "sb", .token = 1 + below(2)};
        break;
      case 2:
        message.body = core::LeaseExpiring{.sandbox = "sb", .token = 1 + below(2)};
        break;
      case 3:
        message.body = core::LeaseQueued{below(9)};
        break;
    }
    return {message};
  }

  using Timers = std::multiset<std::pair<std::int64_t, std::string>>;
  /// Those for leases that had ended before they were released are in no state: they find somebody or nobody.
  std::pair<Timers, Timers> timers_of_state_and_index() const {
    Timers expected, running;
    for (const auto& [at, due] : bench_.state.timers) expected.insert({due, "t:" + at});
    for (const auto& [at, step] : bench_.state.steps) {
      if (step.retry_due_ms != 0) expected.insert({step.retry_due_ms, "s:" + at});
    }
    for (const auto& [at, operation] : bench_.state.operations) {
      if (operation.timer_due_ms != 0) expected.insert({operation.timer_due_ms, "o:" + at});
    }
    for (const auto& timer : bench_.timers) {
      if (!timer.second.starts_with("l:")) running.insert(timer);
    }
    return {expected, running};
  }

  void check() {
    // Every timer of the state runs, and no other: the due index is a view of the state.
    const auto [expected, running] = timers_of_state_and_index();
    ASSERT_EQ(expected, running);
    // Each intent is performed once: no attempt of a key goes out twice.
    for (const auto& [attempt, times] : effects_) ASSERT_EQ(times, 1) << attempt;
    // Something is pending exactly if the run is in flight, an owed activation apart.
    std::vector<core::Action> pending;
    run::RunDecider::pending(bench_.state, {bench_.stream, bench_.seq + 1, bench_.now_ms, bench_.epoch},
                             pending);
    ASSERT_EQ(run::RunDecider::in_flight(bench_.state),
              !pending.empty() || run::RunDecider::owes_activation(bench_.state));
    // The visibility row survives its own bytes.
    const auto row = run::view::row_of(bench_.state);
    ASSERT_EQ(run::view::decode_row(run::view::encode_row(row)), row);
  }

  std::mt19937 random_;
  RunBench bench_;
  std::size_t seen_ = 0;
  std::vector<core::Action> out_;
  std::map<std::string, int> effects_;
};

TEST(RunProperty, RandomCommandsKeepEveryInvariant) {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Player player(seed);
    ASSERT_NO_FATAL_FAILURE(player.play(120));
  }
}

}  // namespace
}  // namespace sandglass::tests
