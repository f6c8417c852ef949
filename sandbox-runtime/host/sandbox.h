// One sandbox as the host sees it: its lease, its init, its execs and transfers, and its end. States:
//   creating ─▶ greeting (init's hello and the proxy's answer) ─▶ live ─▶ ending ─▶ gone
// The launcher's calls for one sandbox come one after another: short ones on the loop, long ones on the pool.
// Thread rule: the loop's thread. Ownership: the host holds it by shared_ptr; work on the pool keeps it
// alive.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "sandbox-runtime/frames/init_protocol.h"
#include "sandbox-runtime/frames/loop.h"
#include "sandbox-runtime/frames/packet.h"
#include "sandbox-runtime/host/egress_link.h"
#include "sandbox-runtime/host/flow.h"
#include "sandbox-runtime/host/outbox.h"
#include "sandbox-runtime/provider/launcher.h"
#include "schemas/sandglass/frame/v1/host.pb.h"

namespace sandglass::sandbox_runtime::host {

/// What a sandbox needs of the host around it. All outlive it.
struct Surroundings {
  frames::Loop& loop;
  engine::base::TaskRunner& pool;
  provider::Launcher& launcher;
  Outbox& outbox;
  EgressLink& egress;
  frames::PacketBuffer& packet;  // for what inits say, one after the other
};

struct SandboxHooks {
  /// The record has changed: keep it.
  std::function<void(const frame::v1::HostSandboxRecord&)> keep;
  /// Nothing is left of it: forget record and sandbox.
  std::function<void(const std::string& id)> gone;
};

class Sandbox : public std::enable_shared_from_this<Sandbox> {
 public:
  Sandbox(Surroundings around, SandboxHooks hooks, provider::SandboxSpec spec,
          frame::v1::HostSandboxRecord record);
  ~Sandbox();

  /// Makes it; `call` hears of it. The record has been kept already.
  void create(CallRef call);
  /// Takes over one that an earlier host had made.
  void adopt(provider::Launched launched);
  /// A repeated create: answered as the first one.
  void create_again(const frame::v1::HostCreate& create, CallRef call);
  void renew(const frame::v1::HostRenew& request, CallRef call);
  void allow(const frame::v1::HostAllow& request, CallRef call);

  void exec(const frame::v1::HostExec& request, CallRef call);
  void exec_taken(CallRef call, const frame::v1::HostExecTaken& taken);
  void kill_exec(const std::string& key, CallRef call);
  void put_tree(const frame::v1::HostPutTree& request, CallRef call);
  void get_tree(const frame::v1::HostGetTree& request, CallRef call);
  void tree_chunk(CallRef call, const std::string& data);
  void tree_ack(CallRef call, std::uint64_t offset);
  void cancel_tree(CallRef call);
  /// The engine's connection has gone: nobody follows any more.
  void forget_calls();

  /// Destroys it; `call` (may be none) is answered when the end was verified. Everyone who waits for
  /// something of it gets `why`.
  void end(engine::base::Error why, CallRef call);

  const std::string& id() const { return spec_.id; }
  std::uint64_t fence() const { return record_.fence(); }
  /// lease_fenced for a token older than the newest seen; a newer one becomes the newest.
  engine::base::Status check_fence(std::uint64_t fence);
  bool alive() const { return state_ == State::live || state_ == State::greeting; }
  std::int64_t expires_at_ms() const { return record_.expires_at_ms(); }

 private:
  enum class State : std::uint8_t { creating, greeting, live, ending, gone };
  enum class KillReason : std::uint8_t { none, wall, cpu, memory, limit, cancelled };

  /// How far a child has come on its way under its limits (sandbox_barrier.cc).
  struct Passage {
    int placed = 0;         // times that one was let into the group
    int entered = 0;        // and said that it is there
    bool admitted = false;  // and was seen there
    bool grouped = false;   // the group is there
    bool limited = false;   // with the limits of the exec
  };
  /// The child that waits for the next exec.
  struct Ready {
    std::uint64_t number = 0;
    engine::base::UniqueFd memory_event;
    Passage passage;
  };
  struct Exec {
    std::uint64_t number = 0;
    std::string key;
    frames::Digest digest{};
    provider::ExecLimits limits;
    CallRef follower;
    engine::base::UniqueFd memory_event;
    frames::Loop::WatchId memory_watch = 0;
    frames::Loop::TimerId wall_timer = 0;
    frames::Loop::TimerId cpu_timer = 0;
    frames::Loop::TimerId look_timer = 0;
    frames::Loop::TimerId patience = 0;          // with init: see await_init
    engine::base::MonotonicNs second_began = 0;  // of counting refused forks
    std::uint64_t refused = 0;
    std::uint64_t refused_before = 0;
    std::vector<provider::LimitHit> hits;  // seen so far
    KillReason reason = KillReason::none;
    provider::LimitKind ended_for{};  // with KillReason::limit
    bool kill_running = false;
    Passage passage;
    std::vector<CallRef> killers;  // to be answered when it has ended
    OutputFlow flow[2];            // of out and err
    int states_due = 0;            // output before these answers of init was meant for an earlier reader
    std::optional<frames::ExecEnd> end;  // from init
    bool finishing = false;
    std::optional<frame::v1::HostExecDone> done;
  };
  struct Job {
    bool pool = false;
    std::move_only_function<void()> work;
    std::move_only_function<void()> then;
  };
  struct Transfer {
    CallRef call;
    bool put = false;
    std::uint64_t sent = 0;  // by the sender, whichever side that is
    std::uint64_t acked = 0;
  };

  static constexpr std::uint64_t kBeat = 1;  // nonce of the regular ping

  // sandbox.cc
  void launched(engine::base::Result<provider::Launched> made);
  void take(provider::Launched made);
  void announce();
  void on_network(engine::base::Status status);
  void greeted();
  void become_live();
  void begin_next_lease();
  void lease_changed(std::uint64_t token, engine::base::Status status);
  void arm_expiry();
  void lost(const std::string& why);
  void destroy();
  void destroyed(engine::base::Status status);
  void fail_all(const engine::base::Error& why);
  void release_init();
  frame::v1::HostMessage created_message() const;
  void enqueue(Job job);
  void pump();
  /// Carries `work` out now, or as soon as the sandbox is live and the current lease's; `call` is answered if
  /// it will not be.
  void when_live(CallRef call, std::move_only_function<void()> work);

  // sandbox_init.cc
  void on_control(std::uint32_t events);
  void on_packet(std::string_view packet);
  void on_known_exec(const frames::ExecState& state);
  template <class Message>
  void tell(const Message& message);
  void flush();
  void ping();
  void on_pong(std::uint64_t nonce);
  std::uint64_t reset_init();

  // sandbox_exec.cc
  void start_exec(const frame::v1::HostExec& request, CallRef call);
  void exec_now(const frame::v1::HostExec& request, CallRef call);
  void kill_exec_now(const std::string& key, CallRef call);
  void attach(Exec& exec, const frame::v1::HostExec& request, CallRef call);
  engine::base::Result<std::vector<std::string>> environment(const frame::v1::HostExec& request) const;
  frames::ExecStart start_packet(const frame::v1::HostExec& request, std::vector<std::string> env,
                                 const provider::ExecLimits& limits) const;
  void kill(Exec& exec, KillReason reason);
  /// Rootless: init ends everything of the exec, and then `then` is called.
  void end_inside(std::uint64_t number, std::move_only_function<void()> then);
  void on_exec_end(const frames::ExecEnd& end);
  void on_refused(const frames::Refused& refused);
  void on_output(const frames::Output& output);
  void finish_exec(std::uint64_t number);
  void report(Exec& exec, const provider::Usage& usage);
  void add_hits(Exec& exec, const provider::Usage& usage, frame::v1::HostExecDone& done);
  void stop_watching(Exec& exec);
  void trim_execs();
  Exec* find_exec(std::uint64_t number);
  Exec* find_key(const std::string& key);

  // sandbox_barrier.cc
  void make_ready();
  bool is_ready(std::uint64_t number) const;
  Passage* find_passage(std::uint64_t number);
  void forget_ready();
  void take_ready(Exec& exec);
  void started_at_once(Exec& exec);
  bool has_usual_limits(const provider::ExecLimits& limits) const;
  void make_group(std::uint64_t number, const provider::ExecLimits& limits);
  void on_group(Exec& exec, engine::base::Result<engine::base::UniqueFd> made);
  void watch_memory(Exec& exec, engine::base::UniqueFd event);
  void set_limits(std::uint64_t number);
  void on_barrier();
  void at_barrier(std::uint64_t number, pid_t pid, std::size_t size);
  void place(std::uint64_t number, pid_t pid);
  void admit(std::uint64_t number, pid_t pid);
  void refuse_to_go(std::uint64_t number, const engine::base::Error& why);
  void go_on(Exec& exec);

  // sandbox_limits.cc
  void await_init(Exec& exec);
  void start_clocks(Exec& exec, std::uint64_t elapsed_ms);
  void check_cpu(std::uint64_t number);
  void on_memory(std::uint64_t number);
  provider::OnLimit on_limit(provider::LimitKind kind) const;
  void look(std::uint64_t number);
  bool must_end(Exec& exec, const provider::LimitHit& hit);
  static void note_hits(Exec& exec, const std::vector<provider::LimitHit>& hits);

  // sandbox_tree.cc
  void on_chunk(const frames::Chunk& chunk);
  void on_ack(const frames::Ack& ack);
  void on_transfer_done(const frames::TransferDone& done);
  std::uint64_t transfer_of(CallRef call) const;

  Surroundings around_;
  SandboxHooks hooks_;
  provider::SandboxSpec spec_;
  frame::v1::HostSandboxRecord record_;
  State state_ = State::creating;
  std::vector<CallRef> creators_;
  std::vector<std::pair<CallRef, std::move_only_function<void()>>> deferred_;  // see when_live
  std::vector<CallRef> enders_;
  std::optional<engine::base::Error> end_reason_;  // set when its end was asked for or came about
  std::vector<provider::LimitSupport> support_;
  engine::base::UniqueFd control_, barrier_, listener_, pidfd_;
  frames::Loop::WatchId control_watch_ = 0, barrier_watch_ = 0, pidfd_watch_ = 0;
  frames::Loop::TimerId expiry_timer_ = 0, greeting_timer_ = 0, ping_timer_ = 0, retry_timer_ = 0;
  frames::PacketWriter writer_;
  bool stuck_ = false;  // init does not read as fast as is written
  const bool rootless_;
  bool network_there_ = false;         // as the proxy says
  std::uint64_t announced_token_ = 0;  // what it was told at the beginning
  bool changing_lease_ = false;        // the proxy ends the last lease; what is asked for waits in deferred_
  std::uint64_t awaited_reset_ = 0;    // packets before its ResetDone belong to an earlier host
  bool pong_due_ = false;
  int missed_pongs_ = 0;
  std::map<std::uint64_t, std::move_only_function<void()>> after_pong_;  // by the ping's nonce
  std::uint64_t last_nonce_ = kBeat;
  std::deque<Job> jobs_;
  bool job_running_ = false;
  std::map<std::uint64_t, Exec> execs_;  // by number
  std::uint64_t last_number_ = 0;
  std::optional<Ready> ready_;
  std::map<std::uint64_t, Transfer> transfers_;
  std::uint64_t last_transfer_ = 0;
};

}  // namespace sandglass::sandbox_runtime::host
