// What runs in this engine: workflows, activities, tools, and the executors behind them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/ports.h"
#include "engine/base/unique_fd.h"
#include "engine/blob/blob.h"
#include "engine/core/ports/activity.h"
#include "engine/core/ports/operations.h"
#include "engine/server/compose/loop.h"
#include "engine/server/config.h"
#include "engine/workflow/registry.h"
#include "schemas/sandglass/v1/admin.pb.h"

namespace sandglass::engine::server::compose {

/// All of them outlive the work.
struct WorkPorts {
  const base::DataFolder& folder;
  const Config& config;
  base::Clock& clock;
  blob::BlobStore& blobs;
  base::TaskRunner& runner;
  Loop& loop;  // runs only after the work is made
  const std::string& tenant_key;
  base::UniqueFd effect;  // socket of sandglass-effect; none: effects are answered "not done"
};

/// Thread rule: made and destroyed by the composition root; poll, wake_fd and attach_effect on the loop's
/// thread.
class Work {
 public:
  explicit Work(WorkPorts ports);
  ~Work();

  const workflow::Registry& workflows() const;
  const core::ActivityRegistry& activities() const;
  core::Operations* operations();

  /// Commands that every start gives, such as the limits of the configuration. Blocks until they are durable.
  base::Status begin();

  void attach_effect(base::UniqueFd socket);
  void poll();
  int wake_fd() const;
  /// What the sandbox host can do here. May block for seconds.
  void fill_status(::sandglass::v1::StatusReply& status) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sandglass::engine::server::compose
