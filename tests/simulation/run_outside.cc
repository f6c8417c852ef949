#include "tests/simulation/run_outside.h"

#include <utility>

#include "engine/base/hash.h"

namespace sandglass::tests::simulation {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr Waits kHonest;

Json input_of(const core::ActivityCall& call) {
  return call.input == nullptr ? Json() : Json::parse(call.input->bytes);
}

core::ActivityResult failure(core::Outcome outcome, base::Code code, bool retryable) {
  core::ActivityResult result;
  result.outcome = outcome;
  result.code = code;
  result.retryable = retryable;
  result.message = "drawn by the simulation";
  return result;
}

}  // namespace

RunOutside::RunOutside(std::uint64_t seed, const std::int64_t& now_ns, bool disorder,
                       std::vector<std::string>& violations)
    : random_(seed),
      now_ns_(now_ns),
      disorder_(disorder),
      violations_(violations),
      settle_ms_(kHonest.settle_ms) {}

std::uint64_t RunOutside::draw(const std::string& key, std::uint64_t attempt) const {
  const auto hash = base::sha256(key + "/" + std::to_string(attempt));
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | hash.bytes[static_cast<std::size_t>(i)];
  return value;
}

void RunOutside::later(std::int64_t delay_ns, Act act, bool outlives_process) {
  events_.emplace(now_ns_ + delay_ns, Event{std::move(act), outlives_process});
}

void RunOutside::answer(std::int64_t delay_ns, const std::string&, core::ActivityDone done,
                        core::ActivityResult result) {
  auto shared = std::make_shared<core::ActivityDone>(std::move(done));
  const auto tell = [shared, result] { (*shared)(result); };
  if (disorder_ && random_.next() % 8 == 0) later(2 * delay_ns, tell);  // told twice
  later(delay_ns, tell);
}

void RunOutside::process_ended() {
  std::erase_if(events_, [](const auto& entry) { return !entry.second.outlives_process; });
  const std::int64_t settled = now_ns_ + kHonest.settle_ms * kMs - kMs;
  for (auto late = events_.upper_bound(settled); late != events_.end(); late = events_.erase(late)) {
    events_.emplace(settled, std::move(late->second));
  }
  process_began_ns_ = now_ns_;
  at_work_until_ns_.clear();
}

void RunOutside::poll() {
  while (!events_.empty() && events_.begin()->first <= now_ns_) {
    const Act act = std::move(events_.begin()->second.act);
    events_.erase(events_.begin());
    act();
  }
}

/// Fails up to two times, then does it.
void RunOutside::work(const core::ActivityCall& call, core::ActivityDone done) {
  const std::uint64_t attempt = call.token.attempt;
  const std::uint64_t drawn = draw(call.key, attempt);
  const std::int64_t delay = kMs + static_cast<std::int64_t>(drawn % 40'000'000);
  if (attempt <= draw(call.key, 0) % 3 && drawn % 2 == 0) {
    return answer(delay, call.key, std::move(done),
                  failure(core::Outcome::not_done, base::Code::unavailable, true));
  }
  core::ActivityResult result;
  result.bytes = answer_to(input_of(call)).dump();
  answer(delay, call.key, std::move(done), std::move(result));
}

/// Done and told · refused · done and not told · not done and not told · done late and not told. "pay.once"
/// knows its keys and takes effect once for each.
void RunOutside::pay(const core::ActivityCall& call, core::ActivityDone done) {
  const std::uint64_t drawn = draw(call.key, ++attempts_[call.key]);
  const std::int64_t delay = kMs + static_cast<std::int64_t>(drawn / 16 % 40'000'000);
  const bool once = call.name == "pay.once";
  const auto take_effect = [this, key = call.key, once] {
    int& times = paid_[key];
    if (!once || times == 0) ++times;
    if (times > 1) violations_.push_back("paid twice: " + key);
  };
  core::ActivityResult paid;
  paid.bytes = answer_to(input_of(call)).dump();
  const auto unknown = failure(core::Outcome::unknown, base::Code::operation_unknown, true);
  const std::int64_t timeout = kHonest.attempt_timeout_ms * kMs;
  at_work_until_ns_[call.key] = now_ns_ + timeout;
  switch (drawn % 8) {
    case 0:
      return answer(delay, call.key, std::move(done),
                    failure(core::Outcome::not_done, base::Code::effect_not_done, true));
    case 1:
      later(delay, take_effect, true);
      return answer(timeout, call.key, std::move(done), unknown);
    case 2:
      return answer(timeout, call.key, std::move(done), unknown);
    case 3:  // the target accepted it, and shows it only after the attempt was cut
      later(timeout + kHonest.settle_ms * kMs - kMs, take_effect, true);
      return answer(timeout, call.key, std::move(done), unknown);
    default:
      later(delay, take_effect, true);
      return answer(delay + kMs, call.key, std::move(done), std::move(paid));
  }
}

void RunOutside::look(const core::ActivityCall& call, core::ActivityDone done) {
  const auto found = paid_.find(call.key);
  const std::int64_t delay = kMs + static_cast<std::int64_t>(draw(call.key, 1000) % 5'000'000);
  if (found == paid_.end() || found->second == 0) {
    core::ActivityResult not_paid = failure(core::Outcome::not_done, base::Code::effect_not_done, false);
    const auto known = at_work_until_ns_.find(call.key);
    const std::int64_t since = known == at_work_until_ns_.end() ? process_began_ns_ : known->second;
    not_paid.retryable = now_ns_ - since >= settle_ms_ * kMs;
    return answer(delay, call.key, std::move(done), std::move(not_paid));
  }
  core::ActivityResult result;
  result.bytes = answer_to(input_of(call)).dump();
  answer(delay, call.key, std::move(done), std::move(result));
}

void RunOutside::sandbox(const core::ActivityCall& call, core::ActivityDone done) {
  const std::string id = call.path;
  const std::int64_t delay = kMs + static_cast<std::int64_t>(draw(call.key, 1) % 20'000'000);
  if (call.name == "sandbox.create") {
    if (destroyed_.contains(id)) {
      return answer(delay, call.key, std::move(done),
                    failure(core::Outcome::not_done, base::Code::lease_fenced, false));
    }
    sandboxes_.insert(id);
    if (sandboxes_.size() > sandbox_limit_) {
      violations_.push_back("J21: " + std::to_string(sandboxes_.size()) + " sandboxes where " +
                            std::to_string(sandbox_limit_) + " are allowed");
    }
  } else if (call.name == "sandbox.destroy") {
    sandboxes_.erase(id);
    destroyed_.insert(id);
  }
  core::ActivityResult result;
  result.encoding = core::Encoding::bytes;
  result.bytes = "simulated\n";
  answer(delay, call.key, std::move(done), std::move(result));
}

}  // namespace sandglass::tests::simulation
