// The whole proxy behind one call: what sandglass-egress runs, and its tests and benches.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "schemas/sandglass/frame/v1/network.pb.h"

namespace sandglass::sandbox_runtime::egress {

/// Thread rule: run() on one thread; stop() from any.
class Egress {
 public:
  /// `control` is a listening Unix socket for the host; `resolver_changes` as net::Dialer takes them.
  /// config_invalid names the entry.
  static engine::base::Result<std::unique_ptr<Egress>> make(const frame::v1::NetworkConfig& config,
                                                            engine::base::UniqueFd control,
                                                            std::vector<uid_t> host_uids,
                                                            engine::base::UniqueFd resolver_changes = {});
  ~Egress();

  void run();
  void stop();

 private:
  struct Parts;
  explicit Egress(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// A listening Unix socket at `path`, mode 0600; a socket that is there already is replaced.
engine::base::Result<engine::base::UniqueFd> listen_on_path(const std::string& path);

}  // namespace sandglass::sandbox_runtime::egress
