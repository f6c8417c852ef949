// Launcher by our own means (V3), as root or rootless: control groups, disks, plans and the keeper put
// together. The host's composition root makes one for its data folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sandbox-runtime/provider/launcher.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

struct LauncherOptions {
  std::string data_folder_id;  // 1..12 characters of [a-z0-9]; names everything that outlives a process (V1)
  std::string folder;  // exists, 0700, ours alone: template images, records of sandboxes, the keeper's socket
  std::string keeper_program;  // sandglass-keeper
  std::string
      init_program;  // sandglass-init; read once, so that an upgrade does not change running sandboxes
  std::uint32_t adopt_grace_ms = 30'000;
  /// Left free on the host's disk whatever the sandboxes are promised (V11).
  std::uint64_t disk_floor_bytes = 1ULL << 30;
  /// Blank disk images made ahead (loop_disk.h).
  std::uint32_t blank_images = 0;
};

/// Root or rootless by the effective uid. Finds a keeper of an earlier host or starts one. Codes:
/// invalid_argument, provider_failed with the reason.
engine::base::Result<std::unique_ptr<Launcher>> make_linux_launcher(LauncherOptions options);

/// Process id of the keeper behind a launcher made here; for supervision and tests.
int keeper_pid(const Launcher& launcher);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
