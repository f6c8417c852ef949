// The Operations port on top of an EffectExecutor: places in flight with a cap per target, permits counted
// from the hand-over, and the probes of tools that have one (J16). It knows when attempts end, and so
// whether a probe was sent when the target had settled: only then is its "not done" retryable. That is
// counted on the monotonic clock, for attempts of an earlier process from this process's own executor. A
// step-able object: everything happens inside its calls.
//
// Thread rule: one thread (the dispatcher's) calls everything, poll() included; answers are given inside
// these calls.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "activities/operations/effect_tool.h"
#include "engine/base/ports.h"
#include "engine/core/ports/operations.h"

namespace sandglass::activities::operations {

struct EffectLimits {
  std::uint32_t in_flight = 64;
  std::uint32_t per_target = 8;
  /// A place that was given and not used for so long goes to another; its effect may still come and is then
  /// counted.
  std::int64_t unused_ms = 60'000;
};

class EffectOperations final : public core::Operations {
 public:
  /// All of them must outlive this object.
  EffectOperations(core::EffectExecutor& executor, const EffectTools& tools, const base::Clock& clock,
                   EffectLimits limits = {});
  ~EffectOperations() override;

  void reserve(core::ActivityCall call, core::ActivityDone done) override;
  void perform(core::ActivityCall call, std::int64_t permit_ms, core::ActivityDone done) override;
  void cancel(const core::StreamId& stream, const std::string& path, const core::Token& token) override;

  /// Takes the executor's answers and gives freed places on. Called by the loop that also polls the
  /// dispatcher.
  void poll();

  /// The activity "<tool>.probe" of one tool, to be registered under that name. Must not outlive this object.
  std::shared_ptr<core::Activity> probe_activity(const std::string& tool);

 private:
  using Name = std::pair<core::StreamId, std::string>;  // one operation
  struct Waiting {
    Name name;
    core::Token token;
    std::string target;
    core::ActivityDone done;
  };
  struct Held {
    std::string target;
    std::int64_t since_ms = 0;
  };
  struct Running {
    Name name;
    std::string target;
    const EffectTool* tool = nullptr;
    std::string key;
    bool probe = false;
    bool settled = false;  // of a probe: sent when nothing under the key could come any more
    core::ActivityDone done;
  };
  class Probe;

  void ask(const std::string& tool, core::ActivityCall call, core::ActivityDone done);
  void submit(core::EffectIntent intent, Running running);
  /// Milliseconds for which no attempt under this key can have been at work.
  std::int64_t quiet_ms(const std::string& key) const;
  void note_end(const Running& attempt, core::Outcome outcome);
  void free(const std::string& target);
  void give_places();
  std::int64_t now_ms() const { return clock_.monotonic_ns() / 1'000'000; }

  core::EffectExecutor& executor_;
  const EffectTools& tools_;
  const base::Clock& clock_;
  const EffectLimits limits_;
  std::deque<Waiting> waiting_;  // in order of arrival
  std::map<Name, Held> held_;
  std::map<std::uint64_t, Running> running_;
  std::map<std::string, std::uint32_t> of_target_;  // places in use
  std::map<std::string, std::int64_t> in_doubt_;    // by key: when its last attempt ended, unknown how
  std::uint32_t in_use_ = 0;
  std::uint64_t next_id_ = 1;
  bool giving_ = false;
};

}  // namespace sandglass::activities::operations
