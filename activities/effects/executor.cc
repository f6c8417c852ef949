#include "activities/effects/executor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "activities/effects/effect_codec.h"
#include "engine/base/check.h"
#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/net/host.h"
#include "sandbox-runtime/frames/frame.h"

namespace sandglass::activities::effects {
namespace {

namespace base = engine::base;
namespace frames = sandbox_runtime::frames;
using base::Code;
using base::LogLevel;
using base::MonotonicNs;
using base::UniqueFd;
using engine::core::Outcome;

constexpr MonotonicNs ms = 1'000'000;
constexpr MonotonicNs overdue_ns = 3000 * ms;  // libcurl's own cut is exact to some milliseconds
constexpr std::size_t max_queued_results = 256 << 20;
constexpr std::size_t max_waiting = 4096;

struct Waiting {
  TimedIntent timed;
  std::string target;
};

Attempt not_done(const TimedIntent& timed, Code code, std::string message) {
  Attempt attempt;
  attempt.result.id = timed.intent.id;
  attempt.result.outcome = Outcome::not_done;
  attempt.result.code = code;
  attempt.result.message = std::move(message);
  return attempt;
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return "done";
    case Outcome::not_done:
      return "not_done";
    case Outcome::unknown:
      break;
  }
  return "unknown";
}

}  // namespace

struct Executor::Impl {
  Impl(const EffectWorld& the_world, ExecutorLimits the_limits, UniqueFd engine)
      : world(the_world), limits(the_limits), socket(std::move(engine)) {
    wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    SG_CHECK(wake.valid(), "no eventfd");
    ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  }

  base::Status read_commands(bool& ended);
  base::Status accept(std::string_view bytes);
  void work();
  void take(Waiting waiting);
  /// The first intent in line whose target has room; needs the lock.
  std::optional<Waiting> next_startable();
  void expire_waiting();
  void answer(const Attempt& attempt);
  int wait_ms();
  bool has_overdue();

  const EffectWorld& world;
  const ExecutorLimits limits;
  UniqueFd socket;
  UniqueFd wake;
  frames::FrameReader reader{max_frame_bytes, frames::Descriptors::accept};  // run()'s thread only

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<Waiting> waiting;
  std::map<std::string, std::uint32_t> at_work;  // by target
  std::list<MonotonicNs> cut_offs;               // of attempts at work
  frames::FrameWriter writer{max_frame_bytes, max_queued_results};
  std::vector<std::thread> workers;
  std::uint32_t idle = 0;
  bool stopping = false;
};

Executor::Executor(const EffectWorld& world, ExecutorLimits limits, UniqueFd engine)
    : impl_(std::make_unique<Impl>(world, limits, std::move(engine))) {}

Executor::~Executor() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->waiting.clear();
  }
  impl_->changed.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

bool Executor::Impl::has_overdue() {
  const MonotonicNs now = world.clock.monotonic_ns();
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(cut_offs, [now](MonotonicNs cut) { return now > cut + overdue_ns; });
}

base::Status Executor::run() {
  Impl& impl = *impl_;
  pb::EffectMessage hello;
  hello.mutable_hello()->set_pid(::getpid());
  hello.mutable_hello()->set_max_in_flight(impl.limits.max_in_flight);
  {
    const std::lock_guard lock(impl.mutex);
    if (auto pushed = impl.writer.push(hello.SerializeAsString()); !pushed) return pushed;
  }
  for (bool ended = false; !ended;) {
    bool full = false;
    {
      const std::lock_guard lock(impl.mutex);
      const auto flushed = impl.writer.flush(impl.socket.get());
      if (!flushed) return {};  // the engine has gone
      full = !*flushed;
    }
    pollfd fds[] = {{impl.socket.get(), static_cast<short>(POLLIN | (full ? POLLOUT : 0)), 0},
                    {impl.wake.get(), POLLIN, 0}};
    ::poll(fds, 2, impl.wait_ms());
    std::uint64_t count = 0;
    if (fds[1].revents != 0) [[maybe_unused]]
      const auto taken = ::read(impl.wake.get(), &count, sizeof count);
    if (fds[0].revents & ~POLLOUT) {
      if (auto status = impl.read_commands(ended); !status) return status;
    }
    impl.expire_waiting();
    if (impl.has_overdue()) return base::fail(Code::timed_out, "an attempt is at work beyond its cut-off");
  }
  return {};
}

base::Status Executor::Impl::read_commands(bool& ended) {
  const auto filled = reader.fill(socket.get());
  if (!filled) return std::unexpected(filled.error());
  ended = *filled == frames::Io::closed;
  for (;;) {
    auto frame = reader.next();
    if (!frame) return std::unexpected(frame.error());
    if (!*frame) return {};
    if (auto status = accept(**frame); !status) return status;
  }
}

base::Status Executor::Impl::accept(std::string_view bytes) {
  pb::EffectCommand command;
  if (!command.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !command.has_intent()) {
    return base::fail(Code::frame_malformed, "a frame is no effect command");
  }
  UniqueFd body;
  if (command.intent().body_in_fd()) body = reader.take_descriptor();
  auto timed = from_frame(command.intent(), std::move(body));
  if (!timed) {
    TimedIntent only_id;
    only_id.intent.id = command.intent().id();
    answer(not_done(only_id, timed.error().code, timed.error().message));
    return {};
  }
  auto target = target_of(timed->intent);
  if (!target) {
    answer(not_done(*timed, target.error().code, target.error().message));
    return {};
  }
  SG_CRASH_POINT("effect.received");
  take({std::move(*timed), std::move(*target)});
  return {};
}

void Executor::Impl::take(Waiting intent) {
  std::unique_lock lock(mutex);
  if (waiting.size() >= max_waiting) {
    lock.unlock();
    answer(not_done(intent.timed, Code::overloaded, "the effect executor has too many intents in line"));
    return;
  }
  waiting.push_back(std::move(intent));
  if (idle == 0 && workers.size() < limits.max_in_flight) workers.emplace_back([this] { work(); });
  changed.notify_one();
}

std::optional<Waiting> Executor::Impl::next_startable() {
  const auto has_room = [this](const Waiting& one) {
    const auto busy = at_work.find(one.target);
    return busy == at_work.end() || busy->second < limits.max_per_target;
  };
  const auto found = std::ranges::find_if(waiting, has_room);
  if (found == waiting.end()) return std::nullopt;
  Waiting next = std::move(*found);
  waiting.erase(found);
  return next;
}

void Executor::Impl::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    std::optional<Waiting> next;
    ++idle;
    changed.wait(lock, [&] { return stopping || (next = next_startable()); });
    --idle;
    if (!next) return;
    ++at_work[next->target];
    const MonotonicNs begun = world.clock.monotonic_ns();
    const auto cut = cut_offs.insert(cut_offs.end(), begun + next->timed.intent.attempt_timeout_ms * ms);
    lock.unlock();
    const Attempt attempt = perform(world, next->timed);
    const auto url = engine::net::parse_http_url(next->timed.intent.url);
    base::log(LogLevel::info, "effect_ended",
              {{"id", next->timed.intent.id},
               {"method", next->timed.intent.method},
               {"url", url ? url->loggable() : ""},
               {"outcome", name_of(attempt.result.outcome)},
               {"status", attempt.result.http_status},
               {"code", static_cast<unsigned>(attempt.result.code)},
               {"verdict", attempt.verdict.json()},
               {"ms", (world.clock.monotonic_ns() - begun) / ms}});
    answer(attempt);
    lock.lock();
    cut_offs.erase(cut);
    if (--at_work[next->target] == 0) at_work.erase(next->target);
    changed.notify_all();  // one that waited for this target, or for any place
  }
}

void Executor::Impl::expire_waiting() {
  std::vector<TimedIntent> expired;
  {
    const MonotonicNs now = world.clock.monotonic_ns();
    const std::lock_guard lock(mutex);
    for (auto one = waiting.begin(); one != waiting.end();) {
      if (!one->timed.permit_expired(now)) {
        ++one;
        continue;
      }
      expired.push_back(std::move(one->timed));
      one = waiting.erase(one);
    }
  }
  for (const TimedIntent& timed : expired) {
    answer(not_done(timed, Code::permit_expired, "the permit ran out while the intent waited for a place"));
  }
}

int Executor::Impl::wait_ms() {
  const MonotonicNs now = world.clock.monotonic_ns();
  MonotonicNs first = now + 60'000 * ms;
  const std::lock_guard lock(mutex);
  for (const Waiting& one : waiting) {
    first = std::min(first, one.timed.submitted_ns + one.timed.intent.permit_ms * ms);
  }
  for (const MonotonicNs cut : cut_offs) first = std::min(first, cut + overdue_ns);
  return static_cast<int>(std::clamp<MonotonicNs>((first - now) / ms + 1, 1, 60'000));
}

void Executor::Impl::answer(const Attempt& attempt) {
  {
    const std::lock_guard lock(mutex);
    if (auto pushed = writer.push(to_frame(attempt).SerializeAsString()); !pushed) {
      // The answer is too large for a frame, or the engine reads none: what is known is still said.
      Attempt small = attempt;
      small.result.headers.clear();
      small.result.body.clear();
      small.result.truncated = true;
      (void)writer.push(to_frame(small).SerializeAsString());
    }
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake.get(), &one, sizeof one);
}

}  // namespace sandglass::activities::effects
