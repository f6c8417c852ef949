// sandglass-keeper SOCKET GRACE_MS, started by sandglass-host with its listening socket at 3 and the host's
// connection at 4. SOCKET, the path where it listens, is for people: it may outlive its host, and nothing
// else about it that they can read says whose it is.
#include <cstdio>
#include <cstdlib>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/keeper/keeper.h"

int main(int argc, char** argv) {
  if (sandglass::engine::base::list_crash_points(argc, argv)) return 0;
  using sandglass::engine::base::UniqueFd;
  namespace linux_jail = sandglass::sandbox_runtime::provider::linux_jail;
  if (argc != 3) {
    std::fputs("sandglass-keeper is started by sandglass-host, not by hand\n", stderr);
    return 64;
  }
  const unsigned long grace_ms = std::strtoul(argv[2], nullptr, 10);
  sandglass::sandbox_runtime::keeper::Keeper keeper(UniqueFd(linux_jail::kKeeperListenFd),
                                                    UniqueFd(linux_jail::kKeeperPeerFd),
                                                    static_cast<std::uint32_t>(grace_ms));
  return keeper.run();
}
