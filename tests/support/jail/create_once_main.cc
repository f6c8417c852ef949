// sandbox-create-once FOLDER FOLDER_ID: makes the sandbox "half" and destroys it, for tests that kill it on
// the way.
#include <cstdio>

#include "tests/support/jail/jail_rig.h"

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  auto launcher = sandglass::sandbox_runtime::provider::linux_jail::make_linux_launcher(
      sandglass::tests::launcher_options(argv[1], argv[2], 100));
  if (!launcher) return 1;
  const auto made = (*launcher)->create({"half", sandglass::tests::JailRig::small_template()});
  if (!made || !(*launcher)->destroy("half")) return 1;
  return 0;
}
