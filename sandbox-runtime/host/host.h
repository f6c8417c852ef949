// The daemon: one engine at a time, many sandboxes. Takes calls, checks who calls and with which token, hands
// them to the sandbox. Without an engine it waits `grace`, then destroys everything and stops. Thread rule:
// the loop's thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/frames/frame.h"
#include "sandbox-runtime/frames/loop.h"
#include "sandbox-runtime/host/egress_link.h"
#include "sandbox-runtime/host/outbox.h"
#include "sandbox-runtime/host/record_files.h"
#include "sandbox-runtime/host/sandbox.h"
#include "sandbox-runtime/provider/launcher.h"

namespace sandglass::sandbox_runtime::host {

struct HostOptions {
  std::string socket_path;  // made 0600
  uid_t engine_uid = 0;     // owns the socket; nobody else is listened to
  std::string record_folder;
  std::string egress_socket;  // empty: no proxy
  std::int64_t grace_ms = 30'000;
  std::size_t max_sandboxes = 256;
};

/// A connection; it becomes the engine's with its hello.
struct EngineConnection {
  std::uint64_t number = 0;
  engine::base::UniqueFd socket;
  frames::Loop::WatchId watch = 0;
  frames::FrameReader reader;
  frames::FrameWriter writer;
  bool stuck = false;                  // EPOLLOUT is asked for
  frames::Loop::TimerId patience = 0;  // a hello must come, and a frame that has begun must become whole
};

class Host final : public Outbox {
 public:
  Host(frames::Loop& loop, engine::base::TaskRunner& pool, provider::Launcher& launcher, HostOptions options);
  ~Host() override;

  /// Takes over what an earlier host has left, sweeps the rest, opens the socket. Blocking.
  engine::base::Status start();
  /// Destroys every sandbox, then stops the loop.
  void shut_down(const std::string& why);
  bool idle() const { return sandboxes_.empty(); }

  void send(CallRef call, frame::v1::HostMessage message) override;
  void announce(frame::v1::HostMessage message) override;

 private:
  engine::base::Status listen();
  engine::base::Status adopt();
  void accept();
  void close_connection(std::uint64_t number, const std::string& why);
  EngineConnection* find_connection(std::uint64_t number);
  void on_ready(std::uint64_t number, std::uint32_t events);
  void read_frames(std::uint64_t number);
  void flush(EngineConnection& connection);
  void hello(const frame::v1::HostHello& hello, CallRef call);
  void beat();
  void arm_grace();
  void dispatch(const frame::v1::HostRequest& request, CallRef call);
  void create(const frame::v1::HostCreate& request, CallRef call);
  void destroy(const frame::v1::HostDestroy& request, CallRef call);
  void inventory(CallRef call);
  void features(CallRef call);
  /// The sandbox, if it is known and the token is not old; else the call is answered and nothing comes.
  std::shared_ptr<Sandbox> authorised(const std::string& id, std::uint64_t fence, CallRef call);
  std::shared_ptr<Sandbox> make(const frame::v1::HostSandboxRecord& record, provider::SandboxSpec spec);
  void route(CallRef call, const std::function<void(Sandbox&)>& what);

  frames::Loop& loop_;
  engine::base::TaskRunner& pool_;
  provider::Launcher& launcher_;
  HostOptions options_;
  EgressLink egress_;
  frames::PacketBuffer packet_{frames::kMaxPacket};
  std::optional<RecordFiles> records_;
  engine::base::UniqueFd listener_;
  frames::Loop::WatchId listener_watch_ = 0;
  std::map<std::uint64_t, EngineConnection> connections_;  // by number
  std::uint64_t engine_ = 0;                               // the one that is listened to; 0: none
  std::uint64_t last_connection_ = 0;
  std::map<std::uint64_t, std::string> call_sandbox_;  // calls with a stream of their own: exec and trees
  frames::Loop::TimerId beat_timer_ = 0, grace_timer_ = 0;
  std::map<std::string, std::shared_ptr<Sandbox>> sandboxes_;
  bool shutting_down_ = false;
};

}  // namespace sandglass::sandbox_runtime::host
