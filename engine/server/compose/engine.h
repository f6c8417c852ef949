// The composition root of sandglass-engine: which adapters stand behind which port, who owns which thread, in
// which order things begin and end. The one place that names them all.
//
//   threads: loop (shards, dispatcher, effects) · activation · committer and readers of the database · tasks
//   (blocking activities and reads of the API) · gRPC's own · main (supervisor's channel, signals)
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/server/config.h"
#include "engine/server/separation.h"

namespace sandglass::engine::server::compose {

struct OpenPorts {
  /// The journal is lost (J6): the process must then end. Comes from the loop's thread.
  std::function<void(const base::Error&)> lost;
  /// Another engine serves, this one stands by and tells its callers so. Comes within open, once.
  std::function<void()> standing_by;
  /// Asked while it stands by: the process shall end.
  std::function<bool()> ends;
};

/// Thread rule: open, close and the questions from one thread.
class Engine {
 public:
  /// Blocking: opens the folder (which the caller has locked), recovers, begins to answer. `separation` is
  /// for `doctor`. `effect` is the socket of sandglass-effect, if there is one.
  static base::Result<std::unique_ptr<Engine>> open(const base::DataFolder& folder, const Config& config,
                                                    Check separation, base::UniqueFd effect, OpenPorts ports);
  ~Engine();

  /// The socket of a new sandglass-effect; the former one has ended.
  void attach_effect(base::UniqueFd socket);

  /// Nobody is connected, nothing is in flight and no run is open. Reads only when something has changed.
  bool idle();

  /// Ends what is being answered, then everything.
  void close(std::int64_t grace_ms);

 private:
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace sandglass::engine::server::compose
