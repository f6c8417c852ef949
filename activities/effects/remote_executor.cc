#include "activities/effects/remote_executor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <set>
#include <string>
#include <utility>

#include "activities/effects/effect_codec.h"
#include "engine/base/check.h"
#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "sandbox-runtime/frames/frame.h"

namespace sandglass::activities::effects {
namespace {

namespace base = engine::base;
namespace frames = sandbox_runtime::frames;
using base::Code;
using engine::core::EffectIntent;
using engine::core::EffectResult;
using engine::core::Outcome;

constexpr std::size_t max_queued = 128 << 20;

EffectResult answer(std::uint64_t id, Outcome outcome, Code code, std::string message) {
  EffectResult result;
  result.id = id;
  result.outcome = outcome;
  result.code = code;
  result.message = std::move(message);
  return result;
}

}  // namespace

struct RemoteExecutor::Impl {
  explicit Impl(base::Clock& the_clock) : clock(the_clock) {
    wake.reset(::epoll_create1(EPOLL_CLOEXEC));
    unasked.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    SG_CHECK(wake.valid() && unasked.valid(), "no descriptors left");
    watch(unasked.get(), EPOLLIN, EPOLL_CTL_ADD);
  }

  void watch(int fd, std::uint32_t events, int operation) {
    epoll_event event{.events = events, .data = {}};
    SG_CHECK(::epoll_ctl(wake.get(), operation, fd, &event) == 0, "epoll_ctl");
  }
  /// An answer that no byte from the executor announces.
  void answer_unasked(EffectResult result) {
    ready.push_back(std::move(result));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(unasked.get(), &one, sizeof one);
  }

  void flush();
  void receive();
  void take(std::string_view bytes);
  void lose(const std::string& why);

  base::Clock& clock;
  base::UniqueFd wake;     // polls the two below
  base::UniqueFd unasked;  // counts answers that were made here
  base::UniqueFd socket;
  bool wants_to_write = false;
  frames::FrameReader reader{max_frame_bytes};
  frames::FrameWriter writer{max_frame_bytes, max_queued};
  std::set<std::uint64_t> open;
  std::vector<EffectResult> ready;
  std::int64_t alone_since_ms = 0;
};

RemoteExecutor::RemoteExecutor(base::Clock& clock) : impl_(std::make_unique<Impl>(clock)) {}

RemoteExecutor::~RemoteExecutor() = default;

void RemoteExecutor::attach(base::UniqueFd socket) {
  if (impl_->socket.valid()) impl_->lose("it was replaced");
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  impl_->socket = std::move(socket);
  impl_->wants_to_write = false;
  if (impl_->socket.valid()) impl_->watch(impl_->socket.get(), EPOLLIN, EPOLL_CTL_ADD);
  impl_->reader = frames::FrameReader(max_frame_bytes);
  impl_->writer = frames::FrameWriter(max_frame_bytes, max_queued);
  impl_->alone_since_ms = impl_->clock.monotonic_ns() / 1'000'000;
}

void RemoteExecutor::submit(EffectIntent intent) {
  Impl& impl = *impl_;
  const std::uint64_t id = intent.id;
  if (!impl.socket.valid()) {
    impl.answer_unasked(answer(id, Outcome::not_done, Code::executor_lost, "no effect executor is running"));
    return;
  }
  base::UniqueFd body;
  const auto command = to_frame({std::move(intent), impl.clock.monotonic_ns()}, body);
  base::Status pushed;
  if (!command) {
    pushed = std::unexpected(command.error());
  } else if (body.valid()) {
    pushed = impl.writer.push(command->SerializeAsString(), {body.get()});
  } else {
    pushed = impl.writer.push(command->SerializeAsString());
  }
  if (!pushed) {
    impl.answer_unasked(answer(id, Outcome::not_done, pushed.error().code, pushed.error().message));
    return;
  }
  impl.open.insert(id);
  SG_CRASH_POINT("effect.submitted");
  impl.flush();
}

void RemoteExecutor::poll(std::vector<EffectResult>& results) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(impl_->unasked.get(), &count, sizeof count);
  if (impl_->socket.valid()) impl_->flush();
  if (impl_->socket.valid()) impl_->receive();
  for (EffectResult& result : impl_->ready) results.push_back(std::move(result));
  impl_->ready.clear();
}

std::int64_t RemoteExecutor::alone_since_ms() const {
  return impl_->socket.valid() ? impl_->alone_since_ms : impl_->clock.monotonic_ns() / 1'000'000;
}

int RemoteExecutor::wake_fd() const {
  return impl_->wake.get();
}

bool RemoteExecutor::connected() const {
  return impl_->socket.valid();
}

std::size_t RemoteExecutor::in_flight() const {
  return impl_->open.size();
}

void RemoteExecutor::Impl::flush() {
  const auto flushed = writer.flush(socket.get());
  if (!flushed) {
    receive();  // what it answered before it ended still counts
    if (socket.valid()) lose(flushed.error().message);
  } else if (wants_to_write == *flushed) {
    wants_to_write = !*flushed;
    watch(socket.get(), EPOLLIN | (wants_to_write ? static_cast<std::uint32_t>(EPOLLOUT) : 0), EPOLL_CTL_MOD);
  }
}

void RemoteExecutor::Impl::receive() {
  const auto filled = reader.fill(socket.get());
  for (;;) {
    const auto frame = reader.next();
    if (!frame) return lose(frame.error().message);
    if (!*frame) break;
    take(**frame);
  }
  if (!filled) return lose(filled.error().message);
  if (*filled == frames::Io::closed) lose("it ended");
}

void RemoteExecutor::Impl::take(std::string_view bytes) {
  pb::EffectMessage message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  // An answer that nobody waits for is of no use: each is taken once.
  if (!message.has_result() || open.erase(message.result().id()) == 0) return;
  ready.push_back(from_frame(message.result()));
}

void RemoteExecutor::Impl::lose(const std::string& why) {
  base::log(base::LogLevel::warning, "effect_executor_lost", {{"reason", why}, {"open", open.size()}});
  socket.reset();
  for (const std::uint64_t id : open) {
    answer_unasked(
        answer(id, Outcome::unknown, Code::executor_lost,
               "the effect executor ended while this was in its hands; it may have been carried out"));
  }
  open.clear();
}

}  // namespace sandglass::activities::effects
