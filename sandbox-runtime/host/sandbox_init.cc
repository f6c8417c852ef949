// The host's side of the talk with init. Init is inside and may have been taken over: whatever it says is
// checked, and nothing that it says moves a limit.
#include <sys/epoll.h>

#include "engine/base/log.h"
#include "sandbox-runtime/host/convert.h"
#include "sandbox-runtime/host/sandbox.h"
#include "sandbox-runtime/host/sandbox_tell.h"

namespace sandglass::sandbox_runtime::host {

namespace {
constexpr std::int64_t kPingMs = 2'000;
constexpr int kMaxMissed = 6;  // of these a busy machine may lose a few
constexpr int kPacketsPerPass = 64;
constexpr std::size_t kMaxKnown = 256;  // commands that init keeps
}  // namespace

void Sandbox::on_control(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  for (int i = 0; i < kPacketsPerPass && control_; ++i) {
    auto received = frames::receive_packet(control_.get(), around_.packet);
    if (!received) return lost("its first process broke the protocol: " + received.error().message);
    if (received->what == frames::Receive::again) return;
    if (received->what == frames::Receive::closed) return lost("its first process closed the connection");
    on_packet(received->packet);
  }
}

void Sandbox::flush() {
  if (!control_) return;
  auto out = writer_.flush(control_.get());
  if (!out) return lost("its first process closed the connection");
  if (stuck_ == !*out) return;
  stuck_ = !*out;
  around_.loop.change(control_watch_, EPOLLIN | (stuck_ ? static_cast<std::uint32_t>(EPOLLOUT) : 0u));
}

void Sandbox::on_packet(std::string_view packet) {
  using namespace frames;
  const auto type = static_cast<PacketType>(packet[0]);
  bool good = true;
  const auto take = [&]<class Message>(auto handler, const Message*) {
    auto message = decode<Message>(packet);
    good = message.has_value();
    if (good) handler(*message);
  };
  if (awaited_reset_ != 0) {
    // what an earlier host had asked for, or the answer to us
    if (auto reset = decode<ResetDone>(packet); reset && reset->nonce == awaited_reset_) {
      awaited_reset_ = 0;
      greeted();
    } else if (auto state = decode<ExecState>(packet); state && state->asked == 0) {
      on_known_exec(*state);
    }
    return;
  }
  switch (type) {
    case PacketType::hello:
      take(
          [&](const Hello& hello) {
            if (hello.version != kInitProtocolVersion)
              return lost("its first process speaks another protocol");
            greeted();
          },
          static_cast<const Hello*>(nullptr));
      break;
    case PacketType::output:
      take([&](const Output& output) { on_output(output); }, static_cast<const Output*>(nullptr));
      break;
    case PacketType::exec_end:
      take([&](const ExecEnd& end) { on_exec_end(end); }, static_cast<const ExecEnd*>(nullptr));
      break;
    case PacketType::refused:
      take([&](const Refused& refused) { on_refused(refused); }, static_cast<const Refused*>(nullptr));
      break;
    case PacketType::chunk:
      take([&](const Chunk& chunk) { on_chunk(chunk); }, static_cast<const Chunk*>(nullptr));
      break;
    case PacketType::ack:
      take([&](const Ack& ack) { on_ack(ack); }, static_cast<const Ack*>(nullptr));
      break;
    case PacketType::transfer_done:
      take([&](const TransferDone& done) { on_transfer_done(done); },
           static_cast<const TransferDone*>(nullptr));
      break;
    case PacketType::pong:
      take([&](const Pong& pong) { on_pong(pong.nonce); }, static_cast<const Pong*>(nullptr));
      break;
    case PacketType::exec_state:
      take(
          [&](const ExecState& state) {
            Exec* exec = find_exec(state.asked);
            if (exec != nullptr && exec->states_due > 0) --exec->states_due;
          },
          static_cast<const ExecState*>(nullptr));
      break;
    case PacketType::reset_done:
      break;
    default:
      good = false;
  }
  if (!good) lost("its first process sent a malformed packet");
}

/// An exec that an earlier host had started.
void Sandbox::on_known_exec(const frames::ExecState& state) {
  if (state.phase == frames::ExecPhase::waiting) {
    // it never passed its barrier, and init has ended it: only its group may be there
    return enqueue({false,
                    [this, number = state.number] { (void)around_.launcher.remove_exec(spec_.id, number); },
                    [] {}});
  }
  if (execs_.contains(state.number)) return;  // an answer to an earlier host's reset had it
  if (execs_.size() >= kMaxKnown) return lost("its first process names more commands than it can have");
  Exec& exec = execs_[state.number];
  exec.number = state.number;
  exec.key = state.key;
  exec.digest = state.digest;
  frame::v1::HostExecRecord record;
  record.ParseFromString(state.note);
  // it rode through init: it may lower a limit, and no more
  exec.limits = exec_limits(record.limits(), spec_.tmpl.limits);
  if (state.phase != frames::ExecPhase::ended) start_clocks(exec, state.elapsed_ms);
  // the end of an ended one comes again with this
  ++exec.states_due;
  tell(frames::Attach{state.number, 0, 0});
}

std::uint64_t Sandbox::reset_init() {
  const std::uint64_t nonce = static_cast<std::uint64_t>(around_.loop.now()) | 1;
  tell(frames::Reset{nonce});
  return nonce;
}

void Sandbox::on_pong(std::uint64_t nonce) {
  if (nonce == kBeat) pong_due_ = false;
  if (auto waiting = after_pong_.extract(nonce)) waiting.mapped()();
}

/// A first process that does not answer any more makes the sandbox unusable, however its commands fare
/// (ADV-B25).
void Sandbox::ping() {
  missed_pongs_ = pong_due_ ? missed_pongs_ + 1 : 0;
  if (missed_pongs_ >= kMaxMissed) return lost("its first process does not answer any more");
  pong_due_ = true;
  tell(frames::Ping{kBeat});
  if (control_) ping_timer_ = around_.loop.after(kPingMs, [this] { ping(); });
}

}  // namespace sandglass::sandbox_runtime::host
