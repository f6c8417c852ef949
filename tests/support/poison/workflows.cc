// Workflows and a step that loop or crash, for an engine that is otherwise the product's (J13, E14). Input:
// {"unless": path}: once that file is there, the code is cured and behaves. Linked into the test program
// poison-engine alone.
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/dispatch/function_activity.h"
#include "engine/server/compose/extra_work.h"
#include "engine/workflow/context.h"

namespace sandglass::tests {
namespace {

using engine::base::Result;
using engine::workflow::Context;
using engine::workflow::Json;
using engine::workflow::Task;

bool is_cured(const Json& input) {
  return std::filesystem::exists(input.value("unless", std::string()));
}

void crash() {
  std::raise(SIGSEGV);
}

Task<Result<Json>> loops(Context&, Json input) {
  for (volatile bool cured = is_cured(input); !cured;) {
  }
  co_return Json("cured");
}

Task<Result<Json>> crashes(Context&, Json input) {
  if (!is_cured(input)) crash();
  co_return Json("cured");
}

/// Its step crashes; another one beside it is innocent.
Task<Result<Json>> step_crashes(Context& ctx, Json input) {
  auto innocent = co_await ctx.step("innocent", "hello.greet", Json{{"name", "step"}});
  if (!innocent) co_return std::unexpected(innocent.error());
  co_return co_await ctx.step("culprit", "poison.crash", input);
}

engine::core::ActivityResult crash_step(const engine::core::ActivityCall& call) {
  if (!is_cured(Json::parse(call.input->bytes))) crash();
  return {.bytes = "\"cured\""};
}

void register_poison(engine::workflow::Registry& workflows, engine::core::ActivityRegistry& activities,
                     engine::base::TaskRunner& runner) {
  workflows.add("poison.loops", "1", loops);
  workflows.add("poison.crashes", "1", crashes);
  workflows.add("poison.step_crashes", "1", step_crashes);
  activities.add("poison.crash", std::make_shared<engine::dispatch::FunctionActivity>(runner, crash_step));
}

[[maybe_unused]] const auto kRegistered = engine::server::compose::extra_work =
    &register_poison;  // before main

}  // namespace
}  // namespace sandglass::tests
