#include "activities/effects/remote_executor.h"

#include <fcntl.h>

#include <set>
#include <string>
#include <utility>

#include "activities/effects/effect_codec.h"
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
  explicit Impl(base::Clock& the_clock) : clock(the_clock) {}

  void flush();
  void receive();
  void take(std::string_view bytes);
  void lose(const std::string& why);

  base::Clock& clock;
  base::UniqueFd socket;
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
  impl_->reader = frames::FrameReader(max_frame_bytes);
  impl_->writer = frames::FrameWriter(max_frame_bytes, max_queued);
  impl_->alone_since_ms = impl_->clock.monotonic_ns() / 1'000'000;
}

void RemoteExecutor::submit(EffectIntent intent) {
  Impl& impl = *impl_;
  const std::uint64_t id = intent.id;
  if (!impl.socket.valid()) {
    impl.ready.push_back(answer(id, Outcome::not_done, Code::executor_lost, "no effect executor is running"));
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
    impl.ready.push_back(answer(id, Outcome::not_done, pushed.error().code, pushed.error().message));
    return;
  }
  impl.open.insert(id);
  SG_CRASH_POINT("effect.submitted");
  impl.flush();
}

void RemoteExecutor::poll(std::vector<EffectResult>& results) {
  if (impl_->socket.valid()) impl_->flush();
  if (impl_->socket.valid()) impl_->receive();
  for (EffectResult& result : impl_->ready) results.push_back(std::move(result));
  impl_->ready.clear();
}

std::int64_t RemoteExecutor::alone_since_ms() const {
  return impl_->socket.valid() ? impl_->alone_since_ms : impl_->clock.monotonic_ns() / 1'000'000;
}

int RemoteExecutor::wake_fd() const {
  return impl_->socket.get();
}

bool RemoteExecutor::connected() const {
  return impl_->socket.valid();
}

std::size_t RemoteExecutor::in_flight() const {
  return impl_->open.size();
}

void RemoteExecutor::Impl::flush() {
  if (const auto flushed = writer.flush(socket.get()); !flushed) {
    receive();  // what it answered before it ended still counts
    if (socket.valid()) lose(flushed.error().message);
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
    ready.push_back(
        answer(id, Outcome::unknown, Code::executor_lost,
               "the effect executor ended while this was in its hands; it may have been carried out"));
  }
  open.clear();
}

}  // namespace sandglass::activities::effects
