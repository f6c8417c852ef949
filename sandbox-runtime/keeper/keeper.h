// The keeper's loop. One thread; it must never get a second one, because a jail's life hangs on the thread
// that cloned it (PR_SET_PDEATHSIG).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/keeper_protocol.h"

namespace sandglass::sandbox_runtime::keeper {

class Keeper {
 public:
  /// `listener`: where later hosts connect. `peer`: the host that started this keeper.
  Keeper(engine::base::UniqueFd listener, engine::base::UniqueFd peer, std::uint32_t adopt_grace_ms);

  /// Runs until no host has come back within the grace, or is there while no jail is; then every jail has
  /// ended. The process's exit status.
  int run();

 private:
  struct Jail {
    pid_t pid = 0;
    engine::base::UniqueFd pidfd;
    engine::base::UniqueFd listener;
    engine::base::UniqueFd control;
    engine::base::UniqueFd barrier;
    engine::base::UniqueFd image;
    std::vector<std::string> groups;  // folders of its control groups
  };

  bool prepare();
  int wait_ms() const;
  void serve_peer();
  void accept_peer();
  void lose_peer();
  void reap();
  void end_all();

  provider::linux_jail::KeeperReply launch(const provider::linux_jail::KeeperRequest& request,
                                           std::vector<engine::base::UniqueFd>& fds, Jail& jail);
  void answer_launch(const provider::linux_jail::KeeperRequest& request,
                     std::vector<engine::base::UniqueFd>& fds);
  void answer_list();
  void answer_forget(const provider::linux_jail::KeeperRequest& request);
  void send(provider::linux_jail::KeeperReply& reply, const Jail* jail, bool with_host_ends);

  engine::base::UniqueFd listener_;
  engine::base::UniqueFd peer_;
  engine::base::UniqueFd signals_;
  engine::base::UniqueFd self_;  // pidfd of this process, for the children
  const std::uint32_t adopt_grace_ms_;
  std::optional<std::int64_t> alone_until_ms_;  // monotonic
  std::map<std::string, Jail> jails_;
};

}  // namespace sandglass::sandbox_runtime::keeper
