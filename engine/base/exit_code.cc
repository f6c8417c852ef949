#include "engine/base/exit_code.h"

namespace sandglass::engine::base {

Exit exit_for(Code code) {
  switch (code) {
    case Code::ok:
      return Exit::ok;
    case Code::usage:
      return Exit::usage;
    case Code::config_invalid:
    case Code::task_invalid:
    case Code::file_unreadable:
      return Exit::bad_file;
    case Code::engine_unreachable:
    case Code::brokers_unreachable:
    case Code::unavailable:
    case Code::overloaded:
    case Code::timed_out:
    case Code::outcome_unknown:
      return Exit::unreachable;
    case Code::unauthenticated:
    case Code::permission_denied:
    case Code::brokers_refuse_us:
    case Code::brokers_forbid:
      return Exit::denied;
    case Code::not_found:
    case Code::artifact_missing:
    case Code::workflow_unknown:
    case Code::query_unknown:
    case Code::update_unknown:
    case Code::activity_unknown:
    case Code::tool_unknown:
      return Exit::not_found;
    case Code::folder_locked:
    case Code::folder_version:
    case Code::format_unknown:
    case Code::event_unknown:
    case Code::record_damaged:
    case Code::chain_broken:
    case Code::journal_diverged:
    case Code::journal_incomplete:
    case Code::stream_damaged:
    case Code::blob_missing:
    case Code::topic_missing:
    case Code::topic_foreign:
      return Exit::folder;
    case Code::address_in_use:
      return Exit::address_in_use;
    case Code::disk_full:
    case Code::io_error:
    case Code::limit_unenforceable:
    case Code::topic_unsafe:
    case Code::brokers_too_old:
      return Exit::machine;
    case Code::internal:
    case Code::journal_fenced:
      return Exit::internal;
    case Code::run_stuck:
    case Code::non_determinism:
      return Exit::run_stuck;
    default:
      return Exit::refused;
  }
}

Exit exit_for_failed_run(Code code) {
  switch (code) {
    case Code::approval_denied:
    case Code::approval_expired:
      return Exit::run_denied;
    case Code::sandbox_lost:
    case Code::provider_failed:
    case Code::limit_unenforceable:
    case Code::host_unreachable:
    case Code::queue_timeout:
    case Code::executor_lost:
    case Code::disk_full:
    case Code::io_error:
    case Code::internal:
      return Exit::run_platform;
    default:
      return Exit::run_failed;
  }
}

}  // namespace sandglass::engine::base
