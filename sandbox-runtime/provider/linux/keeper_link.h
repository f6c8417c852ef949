// The launcher's end of the connection to sandglass-keeper: finds one that runs (V1) or starts one. Thread
// rule: any thread; calls are served one after another.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/keeper_protocol.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

struct KeeperOptions {
  std::string program;      // sandglass-keeper
  std::string socket_path;  // made by us, 0600
  std::uint32_t adopt_grace_ms = 30'000;
};

struct RoleFd {
  FdRole role;
  int fd;
};

/// A jail as the keeper holds it.
struct KeptJail {
  std::string id;
  pid_t pid = 0;
  engine::base::UniqueFd pidfd;
  engine::base::UniqueFd listener;
  engine::base::UniqueFd control;  // of list() only
  engine::base::UniqueFd barrier;  // of list() only
  engine::base::UniqueFd image;    // of list() only; invalid without a disk
};

class KeeperLink {
 public:
  static engine::base::Result<std::unique_ptr<KeeperLink>> open(KeeperOptions options);
  ~KeeperLink();

  /// `meanwhile` is called once the keeper has begun: it brings what the child waits for.
  engine::base::Result<KeptJail> launch(const std::string& id, const std::vector<RoleFd>& fds,
                                        const std::function<void()>& meanwhile);
  engine::base::Result<std::vector<KeptJail>> list();
  engine::base::Status forget(const std::string& id);
  /// Process id of the keeper.
  pid_t keeper_pid() const { return keeper_pid_; }

 private:
  explicit KeeperLink(KeeperOptions options) : options_(std::move(options)) {}
  engine::base::Status connect_or_start();
  engine::base::Status start();
  engine::base::Result<KeptJail> receive(bool& more);
  engine::base::Status send(KeeperOp op, const std::string& id, const std::vector<RoleFd>& fds);

  const KeeperOptions options_;
  std::mutex mutex_;
  engine::base::UniqueFd socket_;
  pid_t keeper_pid_ = 0;
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
