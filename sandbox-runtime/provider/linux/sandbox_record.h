// What is known of a sandbox beside the process that made it: written before anything of it exists, removed
// after its end was verified (V1). Text of "key number" lines, in the launcher's folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "sandbox-runtime/provider/sandbox_spec.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

struct SandboxRecord {
  std::uint32_t uid_base = 0;
  std::uint64_t memory = 0;
  std::uint64_t pids = 0;
  std::uint64_t disk = 0;
  std::uint64_t network = 0;
  std::int64_t loop = -1;
  std::uint64_t image_inode = 0;

  friend bool operator==(const SandboxRecord&, const SandboxRecord&) = default;
};

/// Replaces the file as a whole.
engine::base::Status write_record(const std::string& path, const SandboxRecord& record);
std::optional<SandboxRecord> read_record(const std::string& path);
/// Ids of the records in `folder` whose names are `prefix` + id + ".jail", sorted.
std::vector<std::string> recorded_ids(const std::string& folder, const std::string& prefix);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
