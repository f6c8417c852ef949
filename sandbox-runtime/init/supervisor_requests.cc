// What each packet of the host does.
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "sandbox-runtime/init/minder.h"
#include "sandbox-runtime/init/supervisor.h"

namespace sandglass::sandbox_runtime::init {

using engine::base::Code;
using engine::base::Error;

namespace {

constexpr std::size_t kMaxExecs = 256;  // known at a time, ended ones included
constexpr std::size_t kMaxLive = 32;
constexpr std::size_t kMaxTransfers = 4;
constexpr std::size_t kMaxRing = std::size_t{16} << 20;
constexpr std::uint64_t kAckEvery = frames::kTransferWindow / 8;

MonotonicNs now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

void Supervisor::refuse(std::uint64_t number, Code code, std::string message) {
  send(encode(frames::Refused{number, static_cast<std::uint16_t>(code), std::move(message)}));
}

void Supervisor::on(const frames::Reset& message) {
  transfers_.clear();
  writer_.clear();
  const MonotonicNs now = now_ns();
  // a child that waits at a barrier that nobody will lift any more has done nothing: its key is free again
  std::erase_if(execs_, [&](const auto& item) {
    const Exec& exec = *item.second;
    if (exec.started() || !exec.live()) return false;
    if (exec.pid() > 0)
      options_.processes.signal(exec.pid(),
                                SIGKILL);  // otherwise it ends because nobody can let it go any more
    send(encode(exec.state(0, now)));
    by_key_.erase(exec.key());
    return true;
  });
  if (ready_) {
    frames::ExecState waiting;
    waiting.number = ready_->number;
    send(encode(waiting));
    ready_.reset();
  }
  for (auto& [number, exec] : execs_) {
    exec->detach();
    send(encode(exec->state(0, now)));
  }
  send(encode(frames::ResetDone{message.nonce}));
}

/// Forgets the oldest ended execs when there are too many, and their output when memory is short.
void Supervisor::make_room() {
  std::vector<Exec*> done;
  for (auto& [number, exec] : execs_) {
    if (exec->ended() && !exec->live()) done.push_back(exec.get());
  }
  std::ranges::sort(done, {}, &Exec::ended_at);
  for (Exec* exec : done) {
    if (budget_.left >= 2 * kMaxRing / 4) break;
    exec->release_output();
  }
  for (Exec* exec : done) {
    if (execs_.size() < kMaxExecs) break;
    by_key_.erase(exec->key());
    execs_.erase(exec->number());
  }
}

/// Without such a child the exec makes its own when it comes.
void Supervisor::on(const frames::ExecReady& message) {
  ready_.reset();
  if (find(message.number) != nullptr) return;
  if (auto child = options_.processes.start(message.number, true, options_.spawn))
    ready_ = Ready{message.number, std::move(*child)};
}

void Supervisor::on(const frames::ExecStart& message) {
  const MonotonicNs now = now_ns();
  if (ready_) reap();          // it may have ended just now
  std::optional<Ready> ready;  // ends with this if it is not used
  if (ready_ && ready_->number == message.number) ready = std::exchange(ready_, std::nullopt);
  if (const auto known = by_key_.find(message.key); known != by_key_.end()) {
    const Exec& exec = *execs_.at(known->second);
    if (exec.digest() != message.digest) {
      return refuse(message.number, Code::exec_conflict, "the exec key was used with another command");
    }
    return send(encode(exec.state(message.number, now)));
  }
  if (message.argv.empty() || message.argv[0].empty() || message.key.empty() ||
      message.key.size() > frames::kMaxKey || message.stdin_bytes > frames::kMaxStdin ||
      find(message.number) != nullptr) {
    return refuse(message.number, Code::invalid_argument,
                  "the exec has no command, no key, or too much input");
  }
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (std::ranges::any_of(message.argv, has_nul) || std::ranges::any_of(message.env, has_nul) ||
      has_nul(message.cwd)) {
    return refuse(message.number, Code::invalid_argument, "an argument or variable contains a NUL byte");
  }
  make_room();
  const auto live = std::ranges::count_if(execs_, [](const auto& item) { return item.second->live(); });
  if (execs_.size() >= kMaxExecs || live >= static_cast<std::ptrdiff_t>(kMaxLive)) {
    return refuse(message.number, Code::overloaded, "too many commands run in this sandbox at once");
  }
  const bool importing =
      std::ranges::any_of(transfers_, [](const auto& item) { return item.second.put != nullptr; });
  if (importing)
    return refuse(message.number, Code::unavailable, "a tree is being imported; retry when it is done");
  frames::ExecStart request = message;
  if (!ready && request.leave == frames::Leave::given) request.leave = frames::Leave::go;
  auto spawned =
      ready ? engine::base::Result<Spawned>(std::move(ready->child))
            : options_.processes.start(message.number, request.leave == frames::Leave::go, options_.spawn);
  if (!spawned) return refuse(message.number, spawned.error().code, spawned.error().message);
  request.ring_bytes = std::clamp<std::uint64_t>(request.ring_bytes, 4096, kMaxRing);
  auto exec = std::make_unique<Exec>(std::move(request), std::move(*spawned), budget_, now);
  send(encode(exec->state(message.number, now)));
  by_key_[message.key] = message.number;
  execs_[message.number] = std::move(exec);
}

void Supervisor::on(const frames::ExecGo& message) {
  if (ready_ && ready_->number == message.number && !message.ok) ready_.reset();
  if (Exec* exec = find(message.number)) exec->go(message.ok, now_ns());
}

void Supervisor::on(const frames::StdinData& message) {
  if (Exec* exec = find(message.number)) exec->add_stdin(message.bytes);
}

void Supervisor::on(const frames::Window& message) {
  if (message.stream != 1 && message.stream != 2) return;
  if (Exec* exec = find(message.number)) exec->output_taken(message.stream, message.taken, now_ns());
}

void Supervisor::on(const frames::Attach& message) {
  Exec* exec = find(message.number);
  if (exec == nullptr) return;
  const MonotonicNs now = now_ns();
  exec->attach(message.out_offset, message.err_offset, now);
  send(encode(exec->state(message.number, now)));
}

void Supervisor::on(const frames::Forget& message) {
  Exec* exec = find(message.number);
  if (exec == nullptr || exec->live()) return;
  by_key_.erase(exec->key());
  execs_.erase(message.number);
}

void Supervisor::on(const frames::Ping& message) {
  const auto live = std::ranges::count_if(execs_, [](const auto& item) { return item.second->live(); });
  send(encode(frames::Pong{message.nonce, static_cast<std::uint32_t>(live)}));
}

void Supervisor::on(const frames::Signal& message) {
  Exec* exec = find(message.number);
  if (exec == nullptr) return;
  if (message.all) return kill_all_of(*exec);
  if (exec->pid() > 0) signal_session(exec->pid(), message.signal);
}

/// A command that still sets itself up leads no session yet, and is alone.
void Supervisor::signal_session(pid_t leader, int number) {
  if (options_.processes.signal(-leader, number) != 0) options_.processes.signal(leader, number);
}

void Supervisor::kill_everything() {
  if (options_.process_one) options_.processes.signal(-1, SIGKILL);
}

/// With control groups it is the host that ends what is left; this is for where there are none.
void Supervisor::kill_all_of(Exec& exec) {
  if (exec.minder() > 0) {
    if (!kill_below(exec.minder())) kill_everything();
    return;
  }
  if (exec.pid() > 0) signal_session(exec.pid(), SIGKILL);
}

void Supervisor::transfer_failed(std::uint64_t id, const Error& error) {
  transfers_.erase(id);
  send(encode(frames::TransferDone{id, static_cast<std::uint16_t>(error.code), error.message, 0, 0}));
}

void Supervisor::transfer_done(std::uint64_t id, std::uint64_t entries, std::uint64_t bytes) {
  transfers_.erase(id);
  send(encode(frames::TransferDone{id, 0, {}, entries, bytes}));
}

void Supervisor::on(const frames::PutOpen& message) {
  if (any_live() && !message.while_running) {
    return transfer_failed(message.id,
                           {Code::unavailable, "a command runs in this sandbox; import when it has ended"});
  }
  if (transfers_.size() >= kMaxTransfers || transfers_.contains(message.id)) {
    return transfer_failed(message.id, {Code::overloaded, "too many transfers run in this sandbox at once"});
  }
  auto writer = TreeWriter::open(options_.spawn.workspace, message.path, message.id,
                                 {message.max_bytes, message.max_entries}, options_.spawn.identity, remover_);
  if (!writer) return transfer_failed(message.id, writer.error());
  transfers_[message.id].put = std::move(*writer);
}

void Supervisor::on(const frames::Chunk& message) {
  const auto found = transfers_.find(message.id);
  if (found == transfers_.end() || !found->second.put) return;  // ended already; what was on its way is void
  Transfer& transfer = found->second;
  if (auto status = transfer.put->feed(message.bytes); !status)
    return transfer_failed(message.id, status.error());
  transfer.taken += message.bytes.size();
  if (transfer.put->finished())
    return transfer_done(message.id, transfer.put->entries(), transfer.put->bytes());
  if (transfer.taken - transfer.acked < kAckEvery) return;
  transfer.acked = transfer.taken;
  send(encode(frames::Ack{message.id, transfer.taken}));
}

void Supervisor::on(const frames::GetOpen& message) {
  if (transfers_.size() >= kMaxTransfers || transfers_.contains(message.id)) {
    return transfer_failed(message.id, {Code::overloaded, "too many transfers run in this sandbox at once"});
  }
  auto reader = TreeReader::open(options_.spawn.workspace, message.path, message.content,
                                 {message.max_bytes, message.max_entries}, options_.spawn.identity);
  if (!reader) return transfer_failed(message.id, reader.error());
  transfers_[message.id].get = std::move(*reader);
}

void Supervisor::on(const frames::Ack& message) {
  const auto found = transfers_.find(message.id);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  if (message.offset <= transfer.sent) {
    transfer.window = std::max(transfer.window, message.offset + frames::kTransferWindow);
  }
}

void Supervisor::on(const frames::TransferCancel& message) {
  transfers_.erase(message.id);
}

/// One packet of an outgoing tree. False: none may go now.
bool Supervisor::send_transfer_piece() {
  for (auto& [id, transfer] : transfers_) {
    if (!transfer.get || transfer.sent >= transfer.window) continue;
    if (transfer.out.size() < frames::kChunk && !transfer.get->finished()) {
      if (auto status = transfer.get->produce(transfer.out, frames::kChunk); !status) {
        transfer_failed(id, status.error());
        return true;
      }
    }
    const bool last = transfer.get->finished();
    const std::size_t size = std::min<std::size_t>(transfer.out.size(), frames::kChunk);
    if (size > 0 && (last || size == frames::kChunk)) {
      send(encode(frames::Chunk{id, std::string_view(transfer.out).substr(0, size)}));
      transfer.sent += size;
      transfer.out.erase(0, size);
      return true;
    }
    if (last) {
      transfer_done(id, transfer.get->entries(), transfer.get->bytes());
      return true;
    }
  }
  return false;
}

}  // namespace sandglass::sandbox_runtime::init
