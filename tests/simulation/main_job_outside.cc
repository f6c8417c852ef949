#include "tests/simulation/main_job_outside.h"

#include <utility>

#include "engine/base/hash.h"

namespace sandglass::tests::simulation {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// The example's three functions, as its tests want them.
constexpr std::pair<const char*, const char*> kRight[] = {{"total", "echo $(($1 * $2))\n"},
                                                          {"discount", "echo $(($1 * (100 - $2) / 100))\n"},
                                                          {"slug", "tr 'A-Z ' 'a-z-'\n"}};

/// Plays `sh tests/run.sh` and `sed -i -e 's|from|to|' shop.sh`.
provider::ExecResult command(MemoryProvider::Files& files, const provider::ExecRequest& request) {
  provider::ExecResult result{.exit_code = 0};
  std::string& program = files["project/shop.sh"].content;
  if (request.argv[0] == "sh") {
    for (const auto& [name, line] : kRight) {
      const bool ok = program.find(line) != std::string::npos;
      result.out += std::string(name) + (ok ? ": ok\n" : ": FAIL (expected something else)\n");
      if (!ok) result.exit_code = 1;
    }
  } else if (request.argv[0] == "sed") {
    const std::string& script = request.argv.at(3);
    const std::size_t middle = script.find('|', 2);
    const std::string from = script.substr(2, middle - 2);
    const std::size_t at = program.find(from);
    if (at != std::string::npos)
      program.replace(at, from.size(), script.substr(middle + 1, script.size() - middle - 2));
  }
  return result;
}

}  // namespace

/// The way of one engine process to the outside.
class MainJobOutside::Executor final : public core::EffectExecutor {
 public:
  explicit Executor(MainJobOutside& outside)
      : outside_(outside), results_(std::make_shared<Results>()), began_ms_(outside.now_ns_ / kMs) {}
  void submit(core::EffectIntent intent) override {
    const std::uint64_t id = intent.id;
    outside_.request(std::move(intent), [results = results_, id](core::EffectResult result) {
      result.id = id;
      results->push_back(std::move(result));
    });
  }
  void poll(std::vector<core::EffectResult>& out) override {
    for (auto& result : std::exchange(*results_, {})) out.push_back(std::move(result));
  }
  std::int64_t alone_since_ms() const override { return began_ms_; }

 private:
  using Results = std::vector<core::EffectResult>;
  MainJobOutside& outside_;
  std::shared_ptr<Results> results_;
  const std::int64_t began_ms_;
};

class MainJobOutside::Delayed final : public core::Activity {
 public:
  Delayed(MainJobOutside& outside, std::shared_ptr<core::Activity> inner)
      : outside_(outside), inner_(std::move(inner)) {}
  void start(core::ActivityCall call, core::ActivityDone done) override {
    const std::string key = call.name + "/" + call.key;
    inner_->start(std::move(call), [this, key, done = std::move(done)](core::ActivityResult result) mutable {
      const auto shared = std::make_shared<core::ActivityDone>(std::move(done));
      const auto tell = [shared, result = std::move(result)] { (*shared)(result); };
      const std::int64_t delay = kMs + static_cast<std::int64_t>(outside_.draw(key, 0) % 300'000'000);
      if (outside_.disorder_ && outside_.random_.next() % 8 == 0)
        outside_.later(2 * delay, tell);  // told twice
      outside_.later(delay, tell);
    });
  }
  void cancel(const core::StreamId& stream, const std::string& path, const core::Token& token) override {
    inner_->cancel(stream, path, token);
  }

 private:
  MainJobOutside& outside_;
  std::shared_ptr<core::Activity> inner_;
};

MainJobOutside::MainJobOutside(std::uint64_t seed, const std::int64_t& now_ns, bool disorder,
                               std::vector<std::string>& violations)
    : machine(command), random_(seed), now_ns_(now_ns), disorder_(disorder), violations_(violations) {}

std::shared_ptr<core::Activity> MainJobOutside::delayed(std::shared_ptr<core::Activity> activity) {
  return std::make_shared<Delayed>(*this, std::move(activity));
}

std::unique_ptr<core::EffectExecutor> MainJobOutside::make_executor() {
  return std::make_unique<Executor>(*this);
}

std::uint64_t MainJobOutside::draw(const std::string& key, std::uint64_t attempt) const {
  const auto hash = base::sha256(key + "/" + std::to_string(attempt));
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | hash.bytes[static_cast<std::size_t>(i)];
  return value;
}

void MainJobOutside::later(std::int64_t delay_ns, Act act, Whose whose) {
  events_.emplace(now_ns_ + delay_ns, Event{std::move(act), whose});
}

void MainJobOutside::after_ms(std::int64_t wait_ms, std::function<void()> act) {
  events_.emplace(now_ns_ - now_ns_ % kMs + wait_ms * kMs, Event{std::move(act), Whose::person});
}

void MainJobOutside::process_ended() {
  std::erase_if(events_, [](const auto& entry) { return entry.second.whose == Whose::process; });
  // What the target has accepted by now it shows within the time that it is given to settle.
  const std::int64_t settled = now_ns_ + kSettleMs * kMs - kMs;
  for (auto late = events_.upper_bound(settled); late != events_.end();) {
    if (late->second.whose != Whose::target) {
      ++late;
      continue;
    }
    events_.emplace(settled, std::move(late->second));
    late = events_.erase(late);
  }
}

void MainJobOutside::poll() {
  happened_ = false;
  while (!events_.empty() && events_.begin()->first <= now_ns_) {
    const Act act = std::move(events_.begin()->second.act);
    events_.erase(events_.begin());
    happened_ = true;
    act();
  }
}

/// Done and told · refused for now · done and not told · not done and not told · done late and not told. The
/// receiver of the simulation does not de-duplicate: it counts.
void MainJobOutside::request(core::EffectIntent intent, std::function<void(core::EffectResult)> answer) {
  const auto told = [&](std::int64_t delay, std::uint32_t status, std::string body) {
    core::EffectResult result{.outcome = core::Outcome::done, .http_status = status, .body = std::move(body)};
    later(delay, [answer, result] { answer(result); });
  };
  const auto unknown = [&] {
    core::EffectResult result{
        .outcome = core::Outcome::unknown, .code = base::Code::timed_out, .message = "cut"};
    later(kAttemptMs * kMs, [answer, result] { answer(result); });
  };
  if (intent.method == "GET") {
    const std::string key = intent.url.substr(intent.url.rfind('/') + 1);
    const std::int64_t delay = kMs + static_cast<std::int64_t>(draw(key, 1000) % 5'000'000);
    return effects[key] > 0 ? told(delay, 200, R"({"number":1})") : told(delay, 404, "{}");
  }
  const std::string key = intent.headers.back().second;
  const std::uint64_t drawn = draw(key, ++attempts_[key]);
  const std::int64_t delay = kMs + static_cast<std::int64_t>(drawn / 16 % 400'000'000);
  if (before_effect) before_effect(key);
  const auto take_effect = [this, key, body = intent.body] {
    bodies[key] = body;
    if (++effects[key] > 1) violations_.push_back("opened twice: " + key);
  };
  switch (drawn % 8) {
    case 0:
      return told(delay, 429, "{}");
    case 1:
      later(delay, take_effect, Whose::target);
      return unknown();
    case 2:
      return unknown();
    case 3:  // accepted at the last moment, shown as late as a target may
      later((kAttemptMs + kSettleMs) * kMs - kMs, take_effect, Whose::target);
      return unknown();
    default:
      later(delay, take_effect, Whose::target);
      return told(delay + kMs, 201, R"({"number":1})");
  }
}

}  // namespace sandglass::tests::simulation
