// Whether a caller may touch a run: the check that needs the run's own tenant and user.
#pragma once

#include <memory>

#include "engine/api/backend.h"
#include "engine/identity/access.h"
#include "engine/run/state.h"

namespace sandglass::engine::api {

/// A run as it is durably, for a caller who may touch it.
struct RunFacts {
  core::StreamId stream;
  std::shared_ptr<const core::StreamState> holder;
  std::uint64_t head = 0;

  const run::State& state() const { return static_cast<const core::StateOf<run::State>&>(*holder).value; }
};

inline base::Error no_such_run(const std::string& run_id) {
  return {base::Code::not_found,
          "there is no run " + run_id + " that this token may see; `sandglass list` has the ids"};
}

/// Parses the id, reads the state, checks tenant and user. Another's run is "not found". `then` is called on
/// the loop's thread, or at once.
inline void with_run(EnginePort& engine, const identity::Caller& caller, const std::string& run_id,
                     Answer<RunFacts> then) {
  const auto stream = core::StreamId::parse(run_id);
  if (!stream || stream->kind != core::StreamKind::run) {
    return then(base::fail(base::Code::invalid_argument,
                           "a run id has the form run-<32 hex digits>; `sandglass list` has them"));
  }
  engine.read(*stream, [caller, run_id, stream = *stream,
                        then = std::move(then)](base::Result<shard::StreamRead> read) mutable {
    if (!read) return then(std::unexpected(read.error()));
    if (read->head == 0) return then(std::unexpected(no_such_run(run_id)));
    RunFacts facts{.stream = stream, .holder = std::move(read->state), .head = read->head};
    if (!identity::may_touch(caller, facts.state().tenant, facts.state().user)) {
      return then(std::unexpected(no_such_run(run_id)));
    }
    then(std::move(facts));
  });
}

}  // namespace sandglass::engine::api
