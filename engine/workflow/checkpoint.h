// ctx.checkpoint(state) and workflows that are called again from it (J15). Apart from context.h because of
// cereal: the state's members need their cereal/types/ headers.
//
// A State may say `static constexpr std::uint32_t kSchemaVersion`; bytes of another version do not open: the
// run is then stuck, never silently replayed from its start.
#pragma once

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/codec/snapshot.h"
#include "engine/workflow/context.h"
#include "engine/workflow/registry.h"

namespace sandglass::engine::workflow {

template <class State>
consteval std::uint32_t schema_version_of() {
  if constexpr (requires { State::kSchemaVersion; }) {
    return State::kSchemaVersion;
  } else {
    return 1;
  }
}

/// Ends at once, with an error value if a checkpoint is not legal here.
class CheckpointAwaiter : public EngineAwaiter {
 public:
  CheckpointAwaiter(Context& context, std::uint32_t schema_version, std::string bytes)
      : context_(context), schema_version_(schema_version), bytes_(std::move(bytes)) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> frame) {
    status_ = record(frame.address());
    return false;
  }
  Status await_resume() { return std::move(status_); }

 private:
  Status record(void* frame);

  Context& context_;
  std::uint32_t schema_version_;
  std::string bytes_;
  Status status_;
};

template <class State>
CheckpointAwaiter Context::checkpoint(const State& state) {
  constexpr std::uint32_t kVersion = schema_version_of<State>();
  return {*this, kVersion, codec::save_snapshot(kVersion, state)};
}

/// A task that ends with an error.
Task<Result<Json>> failed_task(base::Error error);

template <class State>
void add_checkpointing(Registry& registry, std::string name, std::string version,
                       std::function<Result<State>(const Json&)> initial,
                       std::function<Task<Result<Json>>(Context&, State)> run) {
  Workflow workflow{.name = std::move(name), .version = std::move(version), .start = {}, .restart = {}};
  workflow.start = [initial, run](Context& context, const Json& input) {
    Result<State> state = initial(input);
    return state ? run(context, std::move(*state)) : failed_task(state.error());
  };
  workflow.restart = [run](Context& context, std::uint32_t,
                           std::string_view bytes) -> Result<Task<Result<Json>>> {
    Result<State> state = codec::load_snapshot<State>(schema_version_of<State>(), bytes);
    if (!state) return std::unexpected(state.error());
    return run(context, std::move(*state));
  };
  registry.add(std::move(workflow));
}

}  // namespace sandglass::engine::workflow
