#include "tests/sandbox-runtime/init/init_harness.h"

#include <sys/prctl.h>

namespace sandglass::sandbox_runtime::init {

void InitHarness::prctl_death() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace sandglass::sandbox_runtime::init
