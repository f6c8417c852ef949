#include "sandbox-runtime/provider/linux/stage.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

std::string_view describe(Stage stage) {
  switch (stage) {
    case Stage::none:
      return "nothing";
    case Stage::clone:
      return "creating the namespaces, without root a user namespace among them (clone3)";
    case Stage::maps:
      return "writing the uid and gid maps";
    case Stage::groups:
      return "entering the control groups";
    case Stage::namespaces:
      return "leaving the host's control group namespace";
    case Stage::private_mounts:
      return "making the mounts private";
    case Stage::root:
      return "building the root file system";
    case Stage::usr:
      return "binding /usr read-only";
    case Stage::devices:
      return "making /dev";
    case Stage::proc:
      return "mounting /proc";
    case Stage::proc_masks:
      return "masking /proc";
    case Stage::tmp:
      return "mounting /tmp and /dev/shm";
    case Stage::work:
      return "mounting /workspace";
    case Stage::pivot:
      return "leaving the host's root (pivot_root)";
    case Stage::network:
      return "raising the loopback interface";
    case Stage::listener:
      return "opening the proxy listener";
    case Stage::user_namespace:
      return "entering the user namespace";
    case Stage::identity:
      return "taking the inside identity";
    case Stage::rlimits:
      return "setting resource limits";
    case Stage::capabilities:
      return "dropping capabilities";
    case Stage::parent_watch:
      return "binding the life to the keeper's";
    case Stage::landlock:
      return "applying Landlock";
    case Stage::seccomp:
      return "loading the system call filter";
    case Stage::descriptors:
      return "arranging descriptors";
    case Stage::exec_init:
      return "starting sandglass-init";
    case Stage::plan:
      return "checking the launch plan";
    case Stage::handshake:
      return "the hand-over between keeper and child";
  }
  return "an unknown stage";
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
