// What a host leaves for its successor: one small file a sandbox, written before the sandbox is made (V1).
// Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "engine/base/result.h"
#include "schemas/sandglass/frame/v1/host.pb.h"

namespace sandglass::sandbox_runtime::host {

class RecordFiles {
 public:
  /// Makes the folder, 0700, if it is not there.
  static engine::base::Result<RecordFiles> open(std::string folder);

  engine::base::Status keep(const frame::v1::HostSandboxRecord& record) const;
  void forget(const std::string& id) const;
  /// Those that can be read; damaged ones are removed and named in the log.
  std::vector<frame::v1::HostSandboxRecord> all() const;

 private:
  explicit RecordFiles(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

}  // namespace sandglass::sandbox_runtime::host
