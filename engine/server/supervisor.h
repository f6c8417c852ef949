// sandglassd: starts engine, sandglass-effect, sandglass-egress and sandglass-host as children, restarts each
// with backoff, and stops them in order. It does nothing else (V2, DESIGN §4).
//
// Rules it keeps: no engine starts before the former sandglass-effect has ended (J16); engine and effect of
// one start share a socketpair; a child ends with the supervisor (PDEATHSIG); an engine that ends for a cause
// that a restart cannot cure ends the supervisor with the same exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/data_folder.h"
#include "engine/base/exit_code.h"
#include "engine/base/unique_fd.h"
#include "engine/server/child.h"
#include "engine/server/config.h"
#include "engine/server/control.h"
#include "engine/server/separation.h"
#include "sandbox-runtime/provider/linux/server_group.h"

namespace sandglass::engine::server {

struct SupervisorOptions {
  std::string config_path;            // empty: the data folder's own
  std::vector<std::string> settings;  // passed on to the engine
  bool exit_when_idle = false;
  int ready_fd = -1;  // gets once "ready\n", "standby\n" or "error CODE MESSAGE\n"
};

/// Thread rule: one thread, which must be the process's main thread and its only one.
class Supervisor {
 public:
  Supervisor(base::DataFolder folder, Config config, Separation separation, SupervisorOptions options);
  /// Runs until stopped by SIGTERM or SIGINT, by idleness if asked for, or by an incurable end of the engine.
  base::Exit run();

 private:
  /// One supervised program and its place in the backoff.
  struct Service {
    std::string name;
    std::string program;
    Child child;
    std::int64_t started_ns = 0;
    std::int64_t start_at_ns = 0;  // not before
    unsigned failures = 0;         // in a row
    bool wanted = true;
  };

  /// Starts it as `service`, in the server's control group.
  base::Status start_service(Service& service, ChildStart start);
  base::Status start_due(std::int64_t now_ns);
  base::Status start_engine_pair();
  base::Result<base::UniqueFd> start_effect();
  base::Status start_host();
  base::Status start_egress();
  void start_or_back_off(Service& service, base::Status (Supervisor::*start)(), std::int64_t now_ns);
  void reap();
  void ended(Service& service, int status, std::int64_t now_ns);
  void back_off(Service& service, std::int64_t now_ns);
  void engine_ended(int status);
  void consider_giving_up(base::Exit exit, const std::string& report);
  void hear_engine();
  void tell_ready(const std::string& line);
  void stop_all();
  void stop(std::vector<Service*> services, std::int64_t grace_ms);
  int wait_ms(std::int64_t now_ns) const;

  base::DataFolder folder_;
  Config config_;
  Separation separation_;
  SupervisorOptions options_;
  std::string programs_;
  Service engine_, effect_, host_, egress_;
  sandbox_runtime::provider::linux_jail::ServerGroup group_;
  ControlChannel control_;
  std::string engine_error_;  // what the engine said last before it ended
  base::Exit exit_ = base::Exit::ok;
  bool was_ready_ = false;
  bool stopping_ = false;
};

}  // namespace sandglass::engine::server
