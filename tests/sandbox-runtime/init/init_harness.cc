#include "tests/sandbox-runtime/init/init_harness.h"

#include <sys/prctl.h>

namespace sandglass::sandbox_runtime::init {

void InitHarness::prepare_process() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // as the launcher leaves it
}

}  // namespace sandglass::sandbox_runtime::init
