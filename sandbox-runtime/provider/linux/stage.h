// The stages of making a jail, in the order of jail.cc. A child that fails reports {stage, errno} and ends;
// the launcher turns that into a message. Numbers travel between programs: append only.
#pragma once

#include <cstdint>
#include <string_view>

namespace sandglass::sandbox_runtime::provider::linux_jail {

enum class Stage : std::uint32_t {
  none = 0,
  clone = 1,
  maps = 2,
  groups = 3,
  namespaces = 4,
  private_mounts = 5,
  root = 6,
  usr = 7,
  devices = 8,
  proc = 9,
  proc_masks = 10,
  tmp = 11,
  work = 12,
  pivot = 13,
  network = 14,
  listener = 15,
  user_namespace = 16,
  identity = 17,
  rlimits = 18,
  capabilities = 19,
  parent_watch = 20,
  landlock = 21,
  seccomp = 22,
  descriptors = 23,
  exec_init = 24,
  plan = 25,
  handshake = 26,
};

/// A few words for messages: "mounting /proc".
std::string_view describe(Stage stage);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
