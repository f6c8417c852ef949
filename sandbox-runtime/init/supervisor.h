// The loop of process 1: packets from the host, ends of processes, pipes of commands, trees in motion. It
// must survive every packet: what is malformed ends the connection and with it the sandbox, never more
// (ADV-B26). Ownership: owns everything it starts; the control and barrier descriptors are the caller's. One
// thread.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/frames/init_protocol.h"
#include "sandbox-runtime/frames/packet.h"
#include "sandbox-runtime/init/exec.h"
#include "sandbox-runtime/init/tree_reader.h"
#include "sandbox-runtime/init/tree_remover.h"
#include "sandbox-runtime/init/tree_writer.h"

namespace sandglass::sandbox_runtime::init {

/// What the supervisor does to processes; fuzzing brings its own.
struct ProcessCalls {
  std::function<engine::base::Result<Spawned>(std::uint64_t number, bool barrier, const SpawnOptions&)>
      start = spawn;
  std::function<int(pid_t, int)> signal = ::kill;
  /// The next child that has ended, and its status; ≤ 0: none.
  std::function<pid_t(int&)> ended = [](int& status) { return waitpid(-1, &status, WNOHANG); };
};

struct SupervisorOptions {
  int control_fd = 3;
  SpawnOptions spawn;
  bool process_one = true;  // false only in tests: then "all processes" means those of its own execs
  ProcessCalls processes;
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);

  /// Runs until the host closes the connection or breaks the protocol. Returns why.
  engine::base::Status run();

 private:
  struct Transfer {
    std::unique_ptr<TreeWriter> put;
    std::unique_ptr<TreeReader> get;
    std::string out;          // of a get: made and not yet sent
    std::uint64_t taken = 0;  // of a put: bytes dealt with
    std::uint64_t acked = 0;
    std::uint64_t sent = 0;  // of a get
    std::uint64_t window = frames::kTransferWindow;
  };

  /// The child that waits for the command of an exec to come.
  struct Ready {
    std::uint64_t number = 0;
    Spawned child;
  };

  engine::base::Status start();
  engine::base::Status turn();
  engine::base::Status receive();
  engine::base::Status handle(std::string_view packet);
  template <class Message>
  engine::base::Status handle_as(std::string_view packet);
  void on(const frames::Reset& message);
  void on(const frames::ExecReady& message);
  void on(const frames::ExecStart& message);
  void on(const frames::ExecGo& message);
  void on(const frames::StdinData& message);
  void on(const frames::Window& message);
  void on(const frames::Signal& message);
  void on(const frames::Forget& message);
  void on(const frames::Ping& message);
  void on(const frames::PutOpen& message);
  void on(const frames::GetOpen& message);
  void on(const frames::TransferCancel& message);
  void on(const frames::Attach& message);
  void on(const frames::Chunk& message);
  void on(const frames::Ack& message);

  void refuse(std::uint64_t number, engine::base::Code code, std::string message);
  void transfer_failed(std::uint64_t id, const engine::base::Error& error);
  void transfer_done(std::uint64_t id, std::uint64_t entries, std::uint64_t bytes);
  void kill_all_of(Exec& exec);
  void signal_session(pid_t leader, int number);
  void kill_everything();
  void reap();
  void send_what_is_due();
  bool send_one();
  bool send_transfer_piece();
  void watch(Exec& exec);
  void set_watch(int fd, bool& watched, bool wanted, std::uint64_t tag, std::uint32_t events);
  void make_room();
  Exec* find(std::uint64_t number);
  bool any_live() const;
  void send(std::string packet);

  SupervisorOptions options_;
  engine::base::UniqueFd epoll_, signals_;
  frames::PacketWriter writer_;
  bool control_wants_write_ = false;
  engine::base::Status state_;  // of the connection; a failure ends run()
  RingBudget budget_;
  std::map<std::uint64_t, std::unique_ptr<Exec>> execs_;  // by number
  std::unordered_map<std::string, std::uint64_t> by_key_;
  std::optional<Ready> ready_;
  TreeRemover remover_;
  std::map<std::uint64_t, Transfer> transfers_;
  std::uint64_t turn_of_ = 0;  // fairness between the outputs
  frames::PacketBuffer buffer_{frames::kMaxPacket};
};

}  // namespace sandglass::sandbox_runtime::init
