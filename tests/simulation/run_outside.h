// The outside of simulated runs: work that fails at first, payments whose outcome is lost or late, sandboxes
// that are counted. It survives crashes of the engine, and judges.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/core/ports/activity.h"
#include "engine/core/ports/operations.h"
#include "tests/simulation/run_program.h"
#include "tests/support/seeded_random.h"

namespace sandglass::tests::simulation {

namespace core = engine::core;
namespace base = engine::base;

/// Asked before work of a stream under a path begins: must be durable by then.
using Judge = std::function<void(const core::StreamId& stream, const std::string& path)>;

class RunOutside {
 public:
  RunOutside(std::uint64_t seed, const std::int64_t& now_ns, bool disorder,
             std::vector<std::string>& violations);

  /// The engine process is gone: nobody hears answers any more. What was sent to the outside may still take
  /// effect, within the time that targets are given to settle.
  void process_ended();
  void poll();
  std::int64_t next_ns() const { return events_.empty() ? INT64_MAX : events_.begin()->first; }

  void work(const core::ActivityCall& call, core::ActivityDone done);
  void pay(const core::ActivityCall& call, core::ActivityDone done);
  void look(const core::ActivityCall& call, core::ActivityDone done);
  void sandbox(const core::ActivityCall& call, core::ActivityDone done);

  /// How often each payment took effect, by key.
  const std::map<std::string, int>& paid() const { return paid_; }
  std::size_t sandboxes() const { return sandboxes_.size(); }
  /// So long after an attempt's end a look at the target is believed; targets take as long as Waits says.
  void believe_after(std::int64_t ms) { settle_ms_ = ms; }
  void set_sandbox_limit(std::size_t limit) { sandbox_limit_ = limit; }

 private:
  using Act = std::function<void()>;
  struct Event {
    Act act;
    bool outlives_process = false;
  };
  /// Drawn by seed and key, not in order of calls: so that runs can be compared.
  std::uint64_t draw(const std::string& key, std::uint64_t attempt) const;
  void later(std::int64_t delay_ns, Act act, bool outlives_process = false);
  void answer(std::int64_t delay_ns, const std::string& key, core::ActivityDone done,
              core::ActivityResult result);

  support::SeededRandom random_;
  const std::int64_t& now_ns_;
  bool disorder_;
  std::vector<std::string>& violations_;
  std::multimap<std::int64_t, Event> events_;
  std::map<std::string, std::uint64_t> attempts_;
  std::int64_t settle_ms_;
  std::int64_t process_began_ns_ = 0;
  std::map<std::string, std::int64_t> at_work_until_ns_;  // by key, of attempts of this process
  std::map<std::string, int> paid_;
  std::set<std::string> sandboxes_;  // alive
  std::set<std::string> destroyed_;
  std::size_t sandbox_limit_ = SIZE_MAX;
};

/// One engine process's way to the outside.
class OutsideActivity final : public core::Activity {
 public:
  using Start = std::function<void(const core::ActivityCall&, core::ActivityDone)>;
  OutsideActivity(Judge judge, Start start) : judge_(std::move(judge)), start_(std::move(start)) {}
  void start(core::ActivityCall call, core::ActivityDone done) override {
    if (judge_) judge_(call.stream, call.path);
    start_(call, std::move(done));
  }
  void cancel(const core::StreamId&, const std::string&, const core::Token&) override {}

 private:
  Judge judge_;
  Start start_;
};

class OutsideOperations final : public core::Operations {
 public:
  /// `key_of_attempt`: a planted bug.
  OutsideOperations(RunOutside& outside, Judge judge, bool key_of_attempt)
      : outside_(outside), judge_(std::move(judge)), key_of_attempt_(key_of_attempt) {}
  void reserve(core::ActivityCall, core::ActivityDone done) override { done({}); }
  void perform(core::ActivityCall call, std::int64_t, core::ActivityDone done) override {
    judge_(call.stream, call.path);
    if (key_of_attempt_) call.key += "/" + std::to_string(call.token.attempt);
    outside_.pay(call, std::move(done));
  }
  void cancel(const core::StreamId&, const std::string&, const core::Token&) override {}

 private:
  RunOutside& outside_;
  Judge judge_;
  bool key_of_attempt_;
};

}  // namespace sandglass::tests::simulation
