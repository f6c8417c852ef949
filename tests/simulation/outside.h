// The outside of a simulated engine: activities that answer late, twice or never, and a count of what they
// did.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/ports/activity.h"
#include "tests/support/seeded_random.h"

namespace sandglass::tests::simulation {

/// Survives crashes of the engine, as the world does.
class Outside {
 public:
  explicit Outside(std::uint64_t seed) : random_(seed) {}

  /// Somebody asks for work under `key`. Returns its result, which depends on the key and input alone.
  std::string perform(const std::string& key, const std::string& input) {
    ++performed_[key];
    return "\"did " + input + "\"";
  }
  /// How often the work of `key` was carried out.
  std::uint64_t performed(const std::string& key) const {
    const auto found = performed_.find(key);
    return found == performed_.end() ? 0 : found->second;
  }
  const std::map<std::string, std::uint64_t>& all() const { return performed_; }
  /// Drawn, but the same for the same key whatever else happens: so that runs can be compared.
  std::int64_t delay_ns(const std::string& key) const {
    return 1'000'000 + static_cast<std::int64_t>(std::hash<std::string>()(key) % 40'000'000);
  }
  support::SeededRandom& random() { return random_; }

 private:
  support::SeededRandom random_;
  std::map<std::string, std::uint64_t> performed_;
};

/// An activity of one engine process: its open calls end with it.
class SimActivity final : public engine::core::Activity {
 public:
  SimActivity(Outside& outside, const std::int64_t& now_ns, bool disorder)
      : outside_(outside), now_ns_(now_ns), disorder_(disorder) {}

  void start(engine::core::ActivityCall call, engine::core::ActivityDone done) override {
    const std::string input = call.input == nullptr ? "" : call.input->bytes;
    std::string result = outside_.perform(call.key, input);
    std::int64_t delay = outside_.delay_ns(call.key);
    if (disorder_ && outside_.random().next() % 8 == 0) delay += 300'000'000;
    auto shared = std::make_shared<engine::core::ActivityDone>(std::move(done));
    answers_.emplace(now_ns_ + delay, Answer{shared, result});
    if (disorder_ && outside_.random().next() % 8 == 0)
      answers_.emplace(now_ns_ + 2 * delay, Answer{shared, result});
  }
  void cancel(const engine::core::StreamId&, const std::string&, const engine::core::Token&) override {}

  void poll() {
    while (!answers_.empty() && answers_.begin()->first <= now_ns_) {
      Answer answer = std::move(answers_.begin()->second);
      answers_.erase(answers_.begin());
      (*answer.done)({.bytes = std::move(answer.result)});
    }
  }
  std::int64_t next_ns() const { return answers_.empty() ? INT64_MAX : answers_.begin()->first; }

 private:
  struct Answer {
    std::shared_ptr<engine::core::ActivityDone> done;
    std::string result;
  };
  Outside& outside_;
  const std::int64_t& now_ns_;
  bool disorder_;
  std::multimap<std::int64_t, Answer> answers_;
};

}  // namespace sandglass::tests::simulation
