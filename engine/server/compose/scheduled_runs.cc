#include "engine/server/compose/scheduled_runs.h"

#include <optional>

#include "engine/run/commands.h"
#include "engine/run/state.h"
#include "engine/schedule/decider.h"

namespace sandglass::engine::server::compose {

namespace {

using base::Code;

constexpr std::size_t kRecordsAtOnce = 256;

core::ActivityResult failed(const base::Error& error, bool retryable) {
  core::ActivityResult result;
  result.outcome = retryable ? core::Outcome::unknown : core::Outcome::not_done;
  result.encoding = core::Encoding::none;
  result.code = error.code;
  result.side = core::FailureSide::platform;
  result.retryable = retryable;
  result.message = error.message;
  return result;
}

/// What no second try can change.
bool is_final(Code code) {
  return code == Code::run_exists || code == Code::invalid_argument || code == Code::record_too_large ||
         code == Code::request_conflict || code == Code::stream_damaged;
}

std::optional<schedule::RunEnd> end_of(run::RunStatus status) {
  switch (status) {
    case run::RunStatus::completed:
      return schedule::RunEnd::completed;
    case run::RunStatus::failed:
      return schedule::RunEnd::failed;
    case run::RunStatus::cancelled:
      return schedule::RunEnd::cancelled;
    case run::RunStatus::terminated:
      return schedule::RunEnd::terminated;
    default:
      return std::nullopt;
  }
}

const schedule::State& state_of(const shard::StreamRead& read) {
  return static_cast<const core::StateOf<schedule::State>&>(*read.state).value;
}

/// The fire that an action's path names; null if its run is no longer wanted.
const schedule::OpenRun* open_run(const schedule::State& state, const std::string& path) {
  const std::string_view prefix = schedule::kRunPath;
  if (!path.starts_with(prefix)) return nullptr;
  const auto found = state.open.find(path.substr(prefix.size()));
  return found == state.open.end() ? nullptr : &found->second;
}

/// K5: one session for all runs of a schedule, or one each.
std::string session_of(const schedule::Definition& definition, const schedule::OpenRun& open) {
  const std::string job = "cron:" + definition.name;
  return definition.accumulates ? job : job + ":" + open.fire.id;
}

}  // namespace

void ScheduledRuns::start(core::ActivityCall call, core::ActivityDone done) {
  const core::StreamId stream = call.stream;
  engine_.read(stream, [this, call = std::move(call),
                        done = std::move(done)](base::Result<shard::StreamRead> read) mutable {
    if (!read) return done(failed(read.error(), true));
    const schedule::Definition& definition = state_of(*read).definition;
    const schedule::OpenRun* open = open_run(state_of(*read), call.path);
    if (open == nullptr)
      return done(failed({Code::not_found, "the schedule no longer waits for this run"}, false));
    run::StartRun start{.workflow = definition.workflow,
                        .version = open->version,
                        .tenant = definition.tenant,
                        .user = definition.user,
                        .session = session_of(definition, *open)};
    const core::DigestKey key(tenant_key_, open->run.text());
    if (call.input) start.input = key.make(call.input->encoding, call.input->bytes);
    engine_.submit({.target = open->run,
                    .command = core::make_command<run::Command>(std::move(start)),
                    .expected_head = std::nullopt,
                    .on_reply = [this, run = open->run, stopped = open->stopped,
                                 terminate = definition.overlap == schedule::Overlap::terminate_other,
                                 done = std::move(done)](base::Result<shard::Reply> reply) mutable {
                      if (!reply) return done(failed(reply.error(), !is_final(reply.error().code)));
                      if (stopped) stop(run, terminate);
                      await(run, reply->head, std::move(done));
                    }});
  });
}

void ScheduledRuns::cancel(const core::StreamId& stream, const std::string& path, const core::Token&) {
  engine_.read(stream, [this, path](base::Result<shard::StreamRead> read) {
    const schedule::OpenRun* open = read ? open_run(state_of(*read), path) : nullptr;
    if (open == nullptr) return;
    stop(open->run, state_of(*read).definition.overlap == schedule::Overlap::terminate_other);
  });
}

void ScheduledRuns::stop(const core::StreamId& run, bool terminate) {
  const char* reason = "a later fire of its schedule takes its place";
  engine_.submit({.target = run,
                  .command = terminate ? core::make_command<run::Command>(run::Terminate{reason})
                                       : core::make_command<run::Command>(run::Cancel{reason}),
                  .expected_head = std::nullopt,
                  .on_reply = nullptr});
}

/// Each durable record may be the one that ends it, or says as which run it goes on.
void ScheduledRuns::await(const core::StreamId& run, std::uint64_t from_seq, core::ActivityDone done) {
  engine_.follow(
      run, from_seq, kRecordsAtOnce,
      [this, run, done = std::move(done)](base::Result<std::vector<core::StoredRecord>> records) mutable {
        if (!records) return done(failed(records.error(), true));
        look(run, std::move(done));
      });
}

void ScheduledRuns::look(const core::StreamId& run, core::ActivityDone done) {
  engine_.read(run, [this, run, done = std::move(done)](base::Result<shard::StreamRead> read) mutable {
    if (!read) return done(failed(read.error(), true));
    const auto& state = static_cast<const core::StateOf<run::State>&>(*read->state).value;
    if (state.status == run::RunStatus::continued) return await(state.successor, 1, std::move(done));
    const auto how = end_of(state.status);
    if (!how) return await(run, read->head + 1, std::move(done));
    core::ActivityResult result;
    result.encoding = core::Encoding::bytes;
    result.bytes = schedule::encode_end(*how, state.end_code);
    done(std::move(result));
  });
}

}  // namespace sandglass::engine::server::compose
