#include "engine/run/types.h"

namespace sandglass::engine::run {

std::string_view name_of(RunStatus status) {
  switch (status) {
    case RunStatus::none:
      return "none";
    case RunStatus::running:
      return "running";
    case RunStatus::stuck:
      return "stuck";
    case RunStatus::completed:
      return "completed";
    case RunStatus::failed:
      return "failed";
    case RunStatus::cancelled:
      return "cancelled";
    case RunStatus::terminated:
      return "terminated";
    case RunStatus::continued:
      return "continued";
  }
  return "unknown";
}

std::string_view name_of(ClosePolicy policy) {
  switch (policy) {
    case ClosePolicy::cancel:
      return "cancel";
    case ClosePolicy::terminate:
      return "terminate";
    case ClosePolicy::abandon:
      return "abandon";
  }
  return "unknown";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::queued:
      return "Queued";
    case Phase::starting_sandbox:
      return "Starting sandbox";
    case Phase::restoring_workspace:
      return "Restoring workspace";
    case Phase::running:
      return "Running";
    case Phase::waiting_for_approval:
      return "Waiting for approval";
    case Phase::uploading_artifacts:
      return "Uploading artifacts";
    case Phase::releasing:
      return "Releasing";
    case Phase::done:
      return "Done";
  }
  return "unknown";
}

std::string_view name_of(Recovery recovery) {
  switch (recovery) {
    case Recovery::ask:
      return "ask";
    case Recovery::probe:
      return "probe";
    case Recovery::resend:
      return "resend";
  }
  return "unknown";
}

std::string_view name_of(OperationStatus status) {
  switch (status) {
    case OperationStatus::waiting:
      return "waiting for a place";
    case OperationStatus::intended:
      return "intended";
    case OperationStatus::backoff:
      return "waiting to try again";
    case OperationStatus::probing:
      return "probing";
    case OperationStatus::probe_wait:
      return "waiting to probe";
    case OperationStatus::asking:
      return "asking a person";
    case OperationStatus::ending:
      return "ending";
  }
  return "unknown";
}

}  // namespace sandglass::engine::run
