// Registers the sandbox activities. Their inputs and results are JSON objects; every input of a run's step
// names "sandbox" and "fence" (the lease's token, which the host checks) and "tenant" (whose blobs are used).
//
//   sandbox.exec      {argv, cwd?, env?, stdin?, timeout_ms?} → {exit_code, signal, timed_out, out, err,
//   out_total,
//                     err_total, truncated, log, log_size, duration_ms, limits_hit[]}; `log` is a blob with
//                     all output
//   sandbox.network   {allow: [{host, ports?, methods?}]} → {destinations}; replaces where the sandbox may
//   go,
//                     within what ManagerParts::check_destination admits (else policy_denied)
//   sandbox.put       {tree, to} → {files, bytes}; `tree` names a stored tree (codec/tree.h)
//   sandbox.put_file  {path, content, executable?} → {path, size}
//   sandbox.get_file  {path} → {path, size, blob, content?}; content only if it is text and small
//   sandbox.list      {path?} → {files[], count, refused[]}
//   sandbox.diff      {path?, tree} → {diff, truncated, blob, public_digest, size, changed, files[],
//   binary[], refused[]}
//
// A sandbox that is gone ends a step with sandbox_lost, never to be repeated (J16); a host that does not
// answer is a platform failure that may be. Thread rule: as core::Activity.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "engine/base/ports.h"
#include "engine/blob/blob.h"
#include "engine/core/ports/activity.h"
#include "sandbox-runtime/provider/provider.h"

namespace sandglass::sandbox_runtime::manager {

namespace base = engine::base;
namespace core = engine::core;

/// All of them must outlive the registry's activities.
struct ManagerParts {
  provider::Provider& provider;
  engine::blob::BlobStore& blobs;
  base::TaskRunner& runner;  // for what blocks
  const base::Clock& clock;
  std::map<std::string, provider::Template> templates;
  /// What the operator lets tasks ask for. Errors: policy_denied, invalid_argument. Empty: nothing.
  std::function<base::Status(const provider::AllowedDestination&)> check_destination = {};
};

void register_sandbox_activities(core::ActivityRegistry& registry,
                                 const std::shared_ptr<const ManagerParts>& parts);

}  // namespace sandglass::sandbox_runtime::manager
