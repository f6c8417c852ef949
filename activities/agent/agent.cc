#include "activities/agent/agent.h"

#include "activities/agent/agent_run.h"

namespace sandglass::activities::agent {

namespace {

workflow::Task<base::Result<Json>> run_agent(std::shared_ptr<const gateway::Gateway> gateway,
                                             workflow::Context& ctx, Json input) {
  auto parsed = taskfile::parse_run_input(input.dump());
  if (!parsed) co_return std::unexpected(parsed.error());
  AgentRun run(*gateway, *std::move(parsed));
  co_return co_await run.run(ctx);
}

}  // namespace

void register_agent(engine::workflow::Registry& registry, std::shared_ptr<const gateway::Gateway> gateway) {
  registry.add("agent", "1", [gateway = std::move(gateway)](workflow::Context& ctx, Json input) {
    return run_agent(gateway, ctx, std::move(input));
  });
}

}  // namespace sandglass::activities::agent
