// A real supervisor as process 1 of a process namespace of its own, talked to by packets as the host would.
#pragma once

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sandbox-runtime/frames/init_protocol.h"
#include "sandbox-runtime/frames/packet.h"
#include "sandbox-runtime/init/supervisor.h"

namespace sandglass::sandbox_runtime::init {

using namespace std::chrono_literals;

struct ExecOutcome {
  std::optional<frames::ExecEnd> end;
  std::optional<frames::Refused> refused;
  std::optional<frames::ExecState> state;
  std::string out;
  std::string err;
  std::uint64_t gaps = 0;  // bytes that the stream skipped
};

class InitHarness {
 public:
  /// `minded`: as where there are no control groups.
  explicit InitHarness(bool minded = false) : minded_(minded) {
    char name[] = "/tmp/sandglass-init-test-XXXXXX";
    folder_ = mkdtemp(name);
    workspace_ = folder_ + "/workspace";
    std::filesystem::create_directory(workspace_);
    if (geteuid() == 0) {
      EXPECT_EQ(chmod(folder_.c_str(), 0755), 0);
      EXPECT_EQ(chown(workspace_.c_str(), 1000, 1000), 0);
    }
    int fds[2], barrier[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, barrier), 0);
    host_.reset(fds[0]);
    barrier_.reset(barrier[0]);
    const engine::base::UniqueFd control(fds[1]), child_barrier(barrier[1]);
    const int on = 1;
    EXPECT_EQ(setsockopt(barrier_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    clone_args args{};
    args.flags = CLONE_NEWPID | CLONE_NEWNS | (geteuid() == 0 ? 0ull : CLONE_NEWUSER);
    args.exit_signal = SIGCHLD;
    pid_ = static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof args));
    if (pid_ == 0) be_init(control.get(), child_barrier.get());
    EXPECT_GT(pid_, 0);
    EXPECT_TRUE(wait_for([this] { return hello_.has_value(); }));
  }

  ~InitHarness() {
    host_.reset();
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, 0) == pid_) {
      // it ends by itself when the connection does, without an error of its own
      const bool orderly =
          WIFEXITED(status) && (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 92 && malformed_));
      EXPECT_TRUE(orderly) << status;
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::string& workspace() const { return workspace_; }
  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  int barrier() const { return barrier_.get(); }
  /// The next child that presents itself at the barrier, as the kernel names it outside.
  pid_t receive_at_barrier(std::uint64_t expected) const;
  /// Answers it as the host does, with no group to enter.
  void let_in(std::uint64_t number) const;
  /// The number inside of a process.
  static std::string inside_number(pid_t pid);
  void expect_malformed() { malformed_ = true; }
  bool closed() const { return closed_; }

  template <class Message>
  void send(const Message& message) {
    send_raw(frames::encode(message));
  }
  void send_raw(const std::string& packet) {
    frames::PacketWriter writer(std::size_t{64} << 20);
    ASSERT_TRUE(writer.push(packet).has_value());
    ASSERT_TRUE(wait_for([&] {
      auto done = writer.flush(host_.get());
      return !done || *done;
    }));
  }

  frames::ExecStart shell(const std::string& script, std::string key = {}) {
    frames::ExecStart start;
    start.number = ++last_number_;
    start.key = key.empty() ? "key-" + std::to_string(start.number) : std::move(key);
    start.argv = {"/bin/sh", "-c", script};
    start.env = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    start.ring_bytes = 8 << 20;
    start.stream_bytes = 64 << 20;
    start.drain_ms = 200;
    return start;
  }

  /// Starts and follows to the end, acknowledging output as it comes.
  ExecOutcome run(const frames::ExecStart& start, const std::string& input = {},
                  std::chrono::milliseconds limit = 20s) {
    begin(start, input);
    return finish(start.number, limit);
  }
  void begin(const frames::ExecStart& start, const std::string& input = {}) {
    execs_[start.number] = {};
    send(start);
    for (std::size_t at = 0; at < input.size(); at += frames::kChunk) {
      send(frames::StdinData{start.number, std::string_view(input).substr(at, frames::kChunk)});
    }
  }
  ExecOutcome finish(std::uint64_t number, std::chrono::milliseconds limit = 20s) {
    EXPECT_TRUE(wait_for([&] { return is_over(number); }, limit)) << "exec " << number;
    return execs_[number];
  }
  ExecOutcome& outcome(std::uint64_t number) { return execs_[number]; }

  frames::TransferDone put(frames::PutOpen open, const std::string& stream,
                           std::size_t piece = frames::kChunk) {
    open.id = ++last_number_;
    if (open.max_bytes == 0) open.max_bytes = 1ull << 40;
    if (open.max_entries == 0) open.max_entries = 1 << 20;
    send(open);
    for (std::size_t at = 0; at < stream.size() && !done_.contains(open.id); at += piece) {
      send(frames::Chunk{open.id, std::string_view(stream).substr(at, piece)});
    }
    EXPECT_TRUE(wait_for([&] { return done_.contains(open.id); }));
    return done_[open.id];
  }
  frames::TransferDone get(frames::GetOpen open, std::string& stream) {
    open.id = ++last_number_;
    if (open.max_bytes == 0) open.max_bytes = 1ull << 40;
    if (open.max_entries == 0) open.max_entries = 1 << 20;
    send(open);
    EXPECT_TRUE(wait_for([&] { return done_.contains(open.id); }));
    stream = trees_[open.id];
    return done_[open.id];
  }

  bool wait_for(const std::function<bool()>& reached, std::chrono::milliseconds limit = 20s) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!reached()) {
      if (closed_ || std::chrono::steady_clock::now() > until) return false;
      pollfd item{host_.get(), POLLIN, 0};
      poll(&item, 1, 10);
      take();
    }
    return true;
  }

  std::map<std::uint64_t, frames::Pong> pongs;
  std::vector<std::uint64_t> resets;
  std::vector<frames::ExecState> known;  // answers to Reset
  bool acknowledge = true;

 private:
  [[noreturn]] void be_init(int control, int barrier) {
    // what a crash of the test leaves must not go on
    prepare_process();
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
      _exit(90);
    }
    host_.reset();
    barrier_.reset();
    SupervisorOptions options;
    options.control_fd = control;
    options.spawn.workspace = workspace_;
    options.spawn.identity.change = geteuid() == 0;
    options.spawn.barrier_fd = barrier;
    options.spawn.minded = minded_;
    Supervisor supervisor(options);
    const auto status = supervisor.run();
    if (status || status.error().code == engine::base::Code::unavailable) _exit(0);
    _exit(status.error().code == engine::base::Code::frame_malformed ? 92 : 91);
  }
  static void prepare_process();

  bool is_over(std::uint64_t number) {
    const ExecOutcome& exec = execs_[number];
    if (exec.refused) return true;
    return exec.end && exec.out.size() + out_gap_[number] >= exec.end->out_total &&
           exec.err.size() + err_gap_[number] >= exec.end->err_total;
  }

  void take() {
    static std::vector<char> buffer(frames::kMaxPacket);
    while (true) {
      auto got = frames::receive_packet(host_.get(), buffer);
      if (!got || got->what == frames::Receive::closed) closed_ = true;
      if (!got || got->what != frames::Receive::packet) return;
      handle(got->packet);
    }
  }

  void handle(std::string_view packet) {
    using namespace frames;
    if (auto hello = decode<Hello>(packet)) hello_ = *hello;
    if (auto pong = decode<Pong>(packet)) pongs[pong->nonce] = *pong;
    if (auto reset = decode<ResetDone>(packet)) resets.push_back(reset->nonce);
    if (auto refused = decode<Refused>(packet)) execs_[refused->number].refused = *refused;
    if (auto end = decode<ExecEnd>(packet)) execs_[end->number].end = *end;
    if (auto done = decode<TransferDone>(packet)) done_[done->id] = *done;
    if (auto state = decode<ExecState>(packet)) {
      if (state->asked == 0) known.push_back(*state);
      if (state->asked != 0) execs_[state->asked].state = *state;
    }
    if (auto output = decode<Output>(packet)) take_output(*output);
    if (auto chunk = decode<Chunk>(packet)) {
      trees_[chunk->id].append(chunk->bytes);
      send(Ack{chunk->id, trees_[chunk->id].size()});
    }
  }

  void take_output(const frames::Output& output) {
    ExecOutcome& exec = execs_[output.number];
    std::string& text = output.stream == 1 ? exec.out : exec.err;
    std::uint64_t& gap = output.stream == 1 ? out_gap_[output.number] : err_gap_[output.number];
    EXPECT_GE(output.offset, text.size() + gap);
    gap = output.offset - text.size();
    exec.gaps = out_gap_[output.number] + err_gap_[output.number];
    text.append(output.bytes);
    if (acknowledge) {
      send(frames::Window{output.number, output.stream, output.offset + output.bytes.size()});
    }
  }

  std::string folder_, workspace_;
  engine::base::UniqueFd host_, barrier_;
  pid_t pid_ = -1;
  bool minded_;
  bool malformed_ = false;
  bool closed_ = false;
  std::optional<frames::Hello> hello_;
  std::map<std::uint64_t, ExecOutcome> execs_;
  std::map<std::uint64_t, std::uint64_t> out_gap_, err_gap_;
  std::map<std::uint64_t, std::string> trees_;
  std::map<std::uint64_t, frames::TransferDone> done_;
  std::uint64_t last_number_ = 0;
};

}  // namespace sandglass::sandbox_runtime::init
