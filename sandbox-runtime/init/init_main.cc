// Program sandglass-init; sandbox-runtime/provider/launcher.h says what it finds when it starts.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "sandbox-runtime/init/supervisor.h"

int main() {
  namespace init = sandglass::sandbox_runtime::init;
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return 70;
  umask(022);
  const char* mode = getenv("SANDGLASS_INIT_MODE");
  init::SupervisorOptions options;
  const bool rootless = mode != nullptr && std::string_view(mode) == "rootless";
  options.spawn.identity.change = !rootless;
  options.spawn.workspace = "/workspace";
  options.spawn.barrier_fd = 4;
  options.spawn.identity.keeper_fd = 5;
  options.spawn.minded = rootless;
  init::Supervisor supervisor(options);
  return supervisor.run() ? 0 : 71;
}
