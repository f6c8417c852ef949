// The outside of the simulated main job: the machine with its sandboxes, the receiver of pull requests, and
// delays. It survives crashes of the engine, and judges.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/ports/activity.h"
#include "engine/core/ports/effect.h"
#include "tests/support/memory_provider.h"
#include "tests/support/seeded_random.h"

namespace sandglass::tests::simulation {

namespace core = engine::core;
namespace base = engine::base;

/// What the engine promises of an attempt (the example's plan: timeout 10 s, settle_ms 1000).
inline constexpr std::int64_t kAttemptMs = 10'000;
inline constexpr std::int64_t kSettleMs = 1'000;

class MainJobOutside {
 public:
  MainJobOutside(std::uint64_t seed, const std::int64_t& now_ns, bool disorder,
                 std::vector<std::string>& violations);

  void process_ended();
  void poll();
  /// Time stands still while the engine has not heard what has just happened: else histories would depend on
  /// how many polls something took.
  std::int64_t next_ns() const {
    return happened_ ? 0 : events_.empty() ? INT64_MAX : events_.begin()->first;
  }

  /// An activity whose answers come later, sometimes twice.
  std::shared_ptr<core::Activity> delayed(std::shared_ptr<core::Activity> activity);
  /// The executor of one engine process.
  std::unique_ptr<core::EffectExecutor> make_executor();

  /// Something that people do; it outlives processes.
  void after_ms(std::int64_t wait_ms, std::function<void()> act);

  /// Asked when a request with this key is on its way out.
  std::function<void(const std::string& key)> before_effect;

  tests::MemoryProvider machine;
  std::map<std::string, std::string> bodies;  // by key
  std::map<std::string, int> effects;         // how often each took effect

 private:
  class Executor;
  class Delayed;
  using Act = std::function<void()>;
  enum class Whose : std::uint8_t { process, target, person };  // only the first ends with the process
  struct Event {
    Act act;
    Whose whose = Whose::process;
  };

  std::uint64_t draw(const std::string& key, std::uint64_t attempt) const;
  void later(std::int64_t delay_ns, Act act, Whose whose = Whose::process);
  void request(core::EffectIntent intent, std::function<void(core::EffectResult)> answer);

  support::SeededRandom random_;
  const std::int64_t& now_ns_;
  bool disorder_;
  bool happened_ = false;  // in the last poll
  std::vector<std::string>& violations_;
  std::multimap<std::int64_t, Event> events_;
  std::map<std::string, std::uint64_t> attempts_;
};

}  // namespace sandglass::tests::simulation
