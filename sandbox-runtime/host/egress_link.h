// The host's line to sandglass-egress: hands it each sandbox's listener and lease, tells it when a lease ends
// (V15), passes its verdicts on. The proxy keeps nothing; when it comes back, everything is sent anew. Thread
// rule: the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/frames/frame.h"
#include "sandbox-runtime/frames/loop.h"
#include "schemas/sandglass/frame/v1/egress.pb.h"

namespace sandglass::sandbox_runtime::host {

struct EgressLease {
  std::string sandbox;
  std::uint64_t token = 0;
  std::string run;
  std::vector<frame::v1::AllowRule> allow;
};

class EgressLink {
 public:
  using Done = std::move_only_function<void(engine::base::Status)>;
  using OnVerdict = std::function<void(const frame::v1::NetworkVerdict&)>;

  /// `socket_path` empty: there is no proxy; begin() then fails.
  EgressLink(frames::Loop& loop, std::string socket_path, OnVerdict on_verdict);
  ~EgressLink();

  /// `listener` is kept until remove(). Answers when the proxy has taken both; without a proxy in reach after
  /// a while with success, because the listener then answers nobody and the proxy gets it when it comes (N8).
  void begin(EgressLease lease, engine::base::UniqueFd listener, Done done);
  /// Another lease, with nothing allowed. Answers when the proxy has closed everything of the last one, or is
  /// not there.
  void change(const std::string& sandbox, std::uint64_t token, Done done);
  void allow(const std::string& sandbox, std::vector<frame::v1::AllowRule> allow, Done done);
  /// Answers when the proxy has closed everything of the lease, or is not there.
  void end(const std::string& sandbox, Done done);

 private:
  struct Known {
    EgressLease lease;
    engine::base::UniqueFd listener;
  };
  struct Waiting {
    Done done;
    frames::Loop::TimerId timer = 0;
    bool needs_proxy = false;
  };
  void connect();
  void retry();
  void drop(const std::string& why);
  void on_ready(std::uint32_t events);
  void on_message(const frame::v1::EgressMessage& message);
  void announce(const Known& known, Done done);
  void request(frame::v1::EgressRequest request, int descriptor, Done done, bool lives_without_proxy);
  void answer(std::uint64_t id, engine::base::Status status);
  void flush();

  frames::Loop& loop_;
  std::string path_;
  OnVerdict on_verdict_;
  engine::base::UniqueFd socket_;
  frames::Loop::WatchId watch_ = 0;
  frames::Loop::TimerId retry_ = 0;
  frames::FrameReader reader_;
  frames::FrameWriter writer_;
  bool stuck_ = false;  // the proxy does not read as fast as is written
  std::map<std::string, Known> known_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t last_id_ = 0;
};

}  // namespace sandglass::sandbox_runtime::host
