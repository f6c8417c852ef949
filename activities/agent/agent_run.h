// One run of workflow "agent". Lives in the workflow's coroutine; a function of its input and of what the
// context gives it, so that it can be rebuilt from history at any point.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "activities/agent/plan_values.h"
#include "activities/agent/taskfile/taskfile.h"
#include "activities/gateway/gateway.h"
#include "activities/leases/leases.h"
#include "engine/workflow/context.h"

namespace sandglass::activities::agent {

namespace core = engine::core;
namespace workflow = engine::workflow;

/// A part of what leaves, shown to the approver with its public digest (H1, J23).
struct ShownPart {
  std::string name;
  std::string text;
};

class AgentRun {
 public:
  AgentRun(const gateway::Gateway& gateway, taskfile::RunInput input);

  workflow::Task<base::Result<Json>> run(workflow::Context& ctx);

 private:
  /// How a list of actions went: on to what follows, or the plan's end.
  struct Flow {
    bool finished = false;
    bool failed = false;
    std::string by;  // the action
    std::string message;
  };
  using Actions = std::vector<taskfile::PlanAction>;
  using Action = taskfile::PlanAction;

  workflow::Task<base::Result<Json>> work(workflow::Context& ctx);
  workflow::Task<base::Status> prepare(workflow::Context& ctx);
  /// `sandbox_later`: what comes after this list still needs the sandbox.
  workflow::Task<base::Result<Flow>> carry_out(workflow::Context& ctx, const Actions& actions,
                                               bool sandbox_later);
  workflow::Task<base::Result<Flow>> one(workflow::Context& ctx, const Action& action, bool sandbox_later);
  workflow::Task<base::Result<Flow>> choose(workflow::Context& ctx, const Action& action, bool sandbox_later);
  workflow::Task<base::Result<Json>> perform(workflow::Context& ctx, const Action& action, Json arguments,
                                             bool sandbox_later);
  workflow::Task<base::Result<Json>> use_tool(workflow::Context& ctx, const Action& action, Json arguments,
                                              bool sandbox_later);
  workflow::Task<base::Result<Json>> act_outside(workflow::Context& ctx, const Action& action,
                                                 const gateway::Call& call, std::string approval);
  /// The path of the approval's exchange.
  workflow::Task<base::Result<std::string>> ask(workflow::Context& ctx, const Action& action,
                                                const gateway::Call& call, std::vector<ShownPart> parts);
  workflow::Task<base::Result<Json>> make_diff(workflow::Context& ctx, const Action& action, Json arguments);
  workflow::Task<base::Result<Json>> keep(workflow::Context& ctx, const Action& action, Json arguments);
  workflow::Task<base::Result<Json>> in_sandbox(workflow::Context& ctx, std::string name,
                                                std::string activity, Json input,
                                                engine::run::StepOptions options);
  workflow::Task<base::Status> release(workflow::Context& ctx);

  base::Result<std::int64_t> time_for(const workflow::Context& ctx, const Action& action) const;
  void enter(workflow::Context& ctx, engine::run::Phase phase);
  /// Where the plan is: what query "plan" gives.
  Json position() const;
  /// What query "value" gives: a value by its path, or the names of all.
  base::Result<Json> value(const Json& path) const;
  base::Result<Json> result(const Flow& flow) const;

  const gateway::Gateway& gateway_;
  const taskfile::RunInput input_;
  const taskfile::Task& task_;
  policy::Policy policy_;
  PlanValues values_;
  std::optional<leases::Lease> lease_;
  Json artifacts_ = Json::array();
  engine::run::Phase phase_ = engine::run::Phase::queued;
  Json carried_out_ = Json::array();  // names of actions
  std::string action_;                // under way
  std::int64_t started_ms_ = 0;
  std::int64_t waited_ms_ = 0;  // for people: does not count as the task's time
};

/// Whether an action uses the sandbox.
bool needs_sandbox(const taskfile::PlanAction& action);
bool needs_sandbox(const std::vector<taskfile::PlanAction>& actions, std::size_t from = 0);

/// Turns a plan's conveniences into the request as it will leave: "json" becomes the body, "show" becomes the
/// parts that the approver sees. arguments_invalid: a part that is not in the body.
base::Status complete_request(Json& arguments, std::vector<ShownPart>& parts);

/// What an approver is shown.
Json approval_view(const gateway::Call& call, const core::ContentDigest& digest,
                   const std::vector<ShownPart>& parts);

}  // namespace sandglass::activities::agent
