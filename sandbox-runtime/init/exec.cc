#include "sandbox-runtime/init/exec.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/base/text.h"
#include "sandbox-runtime/init/minder.h"

namespace sandglass::sandbox_runtime::init {

namespace {

constexpr MonotonicNs kMs = 1'000'000;
/// A reader that takes nothing for so long no longer slows the command down; the oldest output goes instead.
constexpr MonotonicNs kStall = 2'000 * kMs;
constexpr std::size_t kReadSize = std::size_t{64} << 10;
/// What one pass reads of one stream, so that a flood leaves room for everyone else.
constexpr int kReadsPerPass = 8;

}  // namespace

void Stream::skip_dropped() {
  const std::uint64_t next = ring.next_kept(sent);
  if (next == sent) return;
  const std::uint64_t size = next - sent;
  if (!gaps.empty() && gaps.back().first == sent) {
    gaps.back() = {next, gaps.back().second + size};
  } else {
    gaps.emplace_back(next, size);
  }
  sent = next;
}

void Stream::take(std::uint64_t offset) {
  taken = offset;
  while (!gaps.empty() && gaps.front().first <= taken) gaps.pop_front();
}

std::uint64_t Stream::room() const {
  std::uint64_t under_way = sent - taken;
  for (const auto& [end, size] : gaps) under_way -= std::min(under_way, size);
  return frames::kOutputWindow - std::min(frames::kOutputWindow, under_way);
}

Exec::Exec(frames::ExecStart request, Spawned spawned, RingBudget& budget, MonotonicNs now)
    : request_(std::move(request)),
      pid_(spawned.minder ? -1 : spawned.pid),
      minder_(spawned.minder ? spawned.pid : -1),
      in_(std::move(spawned.in)),
      command_(std::move(spawned.command)),
      failure_(std::move(spawned.failure)),
      minder_words_(std::move(spawned.minder)),
      out_(request_.ring_bytes, budget),
      err_(request_.ring_bytes, budget),
      stdin_due_(request_.stdin_bytes),
      started_at_(now),
      progress_at_(now) {
  out_.pipe = std::move(spawned.out);
  err_.pipe = std::move(spawned.err);
  if (request_.stdin_bytes == 0) in_.reset();
  if (request_.leave != frames::Leave::go) go(true, now);
}

void Exec::go(bool ok, MonotonicNs now) {
  if (!command_) return;
  if (ok) {
    (void)become(command_, request_);  // of a child that has ended the end is told
    started_at_ = now;
    running_ = true;
  }
  command_.reset();
}

void Exec::add_stdin(std::string_view bytes) {
  bytes = bytes.substr(0, stdin_due_);
  stdin_due_ -= bytes.size();
  if (!in_) return;
  stdin_.append(bytes);
  if (stdin_due_ == 0 && stdin_.empty()) in_.reset();
}

void Exec::write_stdin() {
  while (in_ && !stdin_.empty()) {
    const ssize_t put = ::write(in_.get(), stdin_.data(), stdin_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put < 0) {  // nobody reads it any more; that is the command's own affair
      stdin_.clear();
      in_.reset();
      return;
    }
    stdin_.erase(0, static_cast<std::size_t>(put));
  }
  if (stdin_due_ == 0) in_.reset();
}

void Exec::read_failure() {
  StartFailure failure;
  const ssize_t got = ::read(failure_.get(), &failure, sizeof failure);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  failure_.reset();
  if (got != sizeof failure) return;
  start_failure_ = failure;
  const std::size_t stage =
      std::min<std::size_t>(static_cast<std::size_t>(failure.stage), std::size(kStages) - 1);
  start_failure_.stage = static_cast<std::int32_t>(stage);
  // said where a shell would say it, so that whoever reads the output alone knows it too
  const std::string& what = kStages[stage] == std::string_view("cwd") ? request_.cwd : request_.argv[0];
  err_.ring.append("sandglass: cannot start " + engine::base::quote_for_terminal(what) + " (" +
                   kStages[stage] + "): " + std::strerror(failure.error) + "\n");
}

void Exec::read_minder(MonotonicNs now) {
  MinderWord word;
  while (minder_words_) {
    const ssize_t got = ::read(minder_words_.get(), &word, sizeof word);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got != sizeof word) return minder_words_.reset();
    pid_ = word.command;
    if (word.ended == 0) continue;
    cpu_ns_ = word.cpu_ns;
    process_ended(word.status, now);
  }
}

bool Exec::minder_ended(int status, MonotonicNs now) {
  read_minder(now);
  minder_ = -1;
  const bool orderly = WIFEXITED(status) && WEXITSTATUS(status) == 0 && gone_;
  if (!gone_) process_ended(orderly ? status : SIGKILL, now);
  return orderly;
}

void Exec::process_ended(int status, MonotonicNs now) {
  if (failure_) read_failure();
  pid_ = -1;
  gone_ = true;
  gone_at_ = now;
  if (WIFSIGNALED(status)) {
    signal_ = WTERMSIG(status);
  } else {
    exit_code_ = WEXITSTATUS(status);
    if (start_failure_.error != 0) exit_code_ = start_failure_.error == ENOENT ? 127 : 126;
  }
  command_.reset();
  in_.reset();
  stdin_.clear();
}

void Exec::attach(std::uint64_t out_offset, std::uint64_t err_offset, MonotonicNs now) {
  attached_ = true;
  stalled_ = false;
  progress_at_ = now;
  end_due_ = true;
  for (auto [stream, offset] : {std::pair(&out_, out_offset), std::pair(&err_, err_offset)}) {
    stream->sent = std::min(offset, stream->ring.total());
    stream->taken = stream->sent;
    stream->gaps.clear();
    stream->mark_due = true;
  }
}

void Exec::detach() {
  attached_ = false;
}

void Exec::output_taken(int number, std::uint64_t offset, MonotonicNs now) {
  Stream& target = stream(number);
  if (offset <= target.taken || offset > target.sent) return;
  target.take(offset);
  progress_at_ = now;
  stalled_ = false;
}

/// True while the command may be made to wait because its reader is behind.
bool Exec::slowed(const Stream& stream) const {
  return attached_ && !stalled_ && !gone_ && stream.ring.total() < request_.stream_bytes &&
         stream.ring.total() - stream.sent >= stream.ring.room();
}

/// How much may be read at once: no more than fits beside what its reader has not had yet.
std::size_t Exec::readable(const Stream& stream, std::size_t most) const {
  const bool followed = attached_ && !stalled_ && !gone_ && stream.ring.total() < request_.stream_bytes;
  const std::uint64_t unsent = stream.ring.total() - stream.sent;
  if (!followed || unsent >= stream.ring.room()) return most;
  return static_cast<std::size_t>(std::min<std::uint64_t>(most, stream.ring.room() - unsent));
}

bool Exec::wants_output(int number) const {
  const Stream& stream = number == 1 ? out_ : err_;
  return stream.pipe && !slowed(stream);
}

void Exec::read_output(int number, MonotonicNs now) {
  Stream& target = stream(number);
  static std::array<char, kReadSize> buffer;
  for (int reads = 0; target.pipe && (gone_ || (reads < kReadsPerPass && !slowed(target))); ++reads) {
    if (reads > 64 * kReadsPerPass) break;  // something that outlives the command floods: time decides
    const ssize_t got = ::read(target.pipe.get(), buffer.data(), readable(target, buffer.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      target.pipe.reset();
      target.watched = false;  // closing has taken it out of the epoll set
      break;
    }
    target.ring.append({buffer.data(), static_cast<std::size_t>(got)});
  }
  if (gone_ && !out_.pipe && !err_.pipe) finish(now);
}

void Exec::finish(MonotonicNs now) {
  if (ended_) return;
  ended_ = true;
  end_due_ = true;
  ended_at_ = now;
}

std::optional<MonotonicNs> Exec::settle(MonotonicNs now) {
  if (gone_ && !ended_) {
    read_output(1, now);
    read_output(2, now);
    const MonotonicNs deadline = gone_at_ + static_cast<MonotonicNs>(request_.drain_ms) * kMs;
    if (!ended_ && now >= deadline) {
      pipes_open_ = true;
      finish(now);
    }
    return ended_ ? std::nullopt : std::optional(deadline);
  }
  if (!slowed(out_) && !slowed(err_)) return std::nullopt;
  if (now - progress_at_ < kStall) return progress_at_ + kStall;
  stalled_ = true;
  return std::nullopt;
}

std::optional<std::string> Exec::next_output(MonotonicNs now) {
  if (!attached_) return std::nullopt;
  for (int number : {1, 2}) {
    Stream& source = stream(number);
    // past stream_bytes a running command is not followed live; its last bytes come at its end
    if (!ended_ && source.sent >= request_.stream_bytes) continue;
    source.skip_dropped();
    if (ended_ && source.sent == source.ring.total() && source.mark_due) {
      source.mark_due = false;
      return frames::encode(
          frames::Output{request_.number, static_cast<std::uint8_t>(number), source.sent, {}});
    }
    std::string_view bytes = source.ring.at(source.sent);
    bytes = bytes.substr(0, std::min<std::uint64_t>(frames::kChunk, source.room()));
    if (bytes.empty()) continue;
    frames::Output output{request_.number, static_cast<std::uint8_t>(number), source.sent, bytes};
    source.sent += bytes.size();
    progress_at_ = now;
    return frames::encode(output);
  }
  return std::nullopt;
}

frames::ExecEnd Exec::end() const {
  frames::ExecEnd message;
  message.number = request_.number;
  message.exit_code = exit_code_;
  message.signal = signal_;
  message.start_errno = start_failure_.error;
  message.start_stage = kStages[start_failure_.stage];
  message.out_total = out_.ring.total();
  message.err_total = err_.ring.total();
  message.out_dropped = out_.ring.dropped();
  message.err_dropped = err_.ring.dropped();
  message.duration_ms = static_cast<std::uint64_t>((gone_at_ - started_at_) / kMs);
  message.pipes_open = pipes_open_;
  message.cpu_ns = cpu_ns_;
  if (minder_ > 0) message.left = count_below(minder_);
  return message;
}

frames::ExecState Exec::state(std::uint64_t asked, MonotonicNs now) const {
  frames::ExecState message;
  message.asked = asked;
  message.number = request_.number;
  message.key = request_.key;
  message.digest = request_.digest;
  message.phase = ended_     ? frames::ExecPhase::ended
                  : running_ ? frames::ExecPhase::running
                             : frames::ExecPhase::waiting;
  message.elapsed_ms = static_cast<std::uint64_t>((now - started_at_) / kMs);
  message.note = request_.note;
  return message;
}

void Exec::release_output() {
  out_.ring.release();
  err_.ring.release();
}

}  // namespace sandglass::sandbox_runtime::init
