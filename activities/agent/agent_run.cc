#include "activities/agent/agent_run.h"

#include <algorithm>

#include "activities/artifacts/artifacts.h"
#include "engine/codec/json.h"

namespace sandglass::activities::agent {

namespace {

using engine::run::Phase;
using taskfile::PlanAction;
using workflow::Context;
using workflow::Task;

constexpr std::int64_t kUploadMs = 120'000;

std::unexpected<base::Error> about(const PlanAction& action, const base::Error& error) {
  return base::fail(error.code, "action \"" + action.name + "\": " + error.message);
}

policy::Policy policy_of(const taskfile::Task& task) {
  policy::Policy policy{.targets = task.targets, .ask_at_level_2 = task.approvals.ask_at_level_2};
  for (const auto& [name, rule] : task.tools) policy.tools[name] = {.level = rule.level, .grant = rule.grant};
  return policy;
}

Json destinations(const taskfile::Task& task) {
  Json allow = Json::array();
  for (const taskfile::Destination& one : task.network) {
    allow.push_back({{"host", one.host}, {"ports", one.ports}, {"methods", one.methods}});
  }
  return {{"allow", std::move(allow)}};
}

/// The end of a text, from the beginning of a line where there is one near enough; no white space after it.
std::string last_lines(std::string text) {
  constexpr std::size_t kMost = 200;
  text.resize(text.find_last_not_of(" \t\r\n") + 1);  // npos + 1 is 0
  if (text.size() <= kMost) return text;
  text.erase(0, text.size() - kMost);
  if (const auto line = text.find('\n'); line != std::string::npos) return text.substr(line + 1);
  while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xC0U) == 0x80U) text.erase(0, 1);
  return text;
}

/// A command that ended badly ends the plan, unless the plan says that it looks at that itself.
base::Status command_status(const Json& result) {
  if (result.value("exit_code", 0) == 0 && !result.value("timed_out", false)) return {};
  std::string what = "exit code " + std::to_string(result.value("exit_code", -1));
  if (result.value("signal", 0) != 0) what = "ended by signal " + std::to_string(result.value("signal", 0));
  if (result.value("timed_out", false)) what = "ran into its time limit";
  for (const Json& hit : result.value("limits_hit", Json::array()))
    what += ", limit reached: " + hit.value("limit", "");
  const std::string err = last_lines(result.value("err", ""));
  if (!err.empty()) what += "; its error output ends with: " + err;
  return base::fail(base::Code::step_failed,
                    what + "; write allow_failure: true if the plan looks at this itself");
}

}  // namespace

bool needs_sandbox(const PlanAction& action) {
  switch (action.kind) {
    case PlanAction::Kind::tool:
      return action.tool != "http_request";
    case PlanAction::Kind::list:
    case PlanAction::Kind::diff:
      return true;
    case PlanAction::Kind::artifact:
      return action.arguments.find("\"file\"") != std::string::npos;
    case PlanAction::Kind::choose:
      return std::ranges::any_of(action.branches,
                                 [](const auto& branch) { return needs_sandbox(branch.actions); });
    case PlanAction::Kind::finish:
      break;
  }
  return false;
}

bool needs_sandbox(const std::vector<PlanAction>& actions, std::size_t from) {
  return std::any_of(actions.begin() + static_cast<std::ptrdiff_t>(std::min(from, actions.size())),
                     actions.end(), [](const PlanAction& action) { return needs_sandbox(action); });
}

AgentRun::AgentRun(const gateway::Gateway& gateway, taskfile::RunInput input)
    : gateway_(gateway),
      input_(std::move(input)),
      task_(input_.task),
      policy_(policy_of(task_)),
      values_(task_.parameters) {}

void AgentRun::enter(Context& ctx, Phase phase) {
  if (phase == phase_) return;
  phase_ = phase;
  ctx.set_phase(phase);
}

Json AgentRun::position() const {
  return {{"phase", engine::run::name_of(phase_)},
          {"action", action_.empty() ? Json(nullptr) : Json(action_)},
          {"carried_out", carried_out_},
          {"artifacts", artifacts_},
          {"sandbox", lease_ ? Json(lease_->sandbox) : Json(nullptr)}};
}

base::Result<Json> AgentRun::value(const Json& path) const {
  if (path.is_null()) return Json(values_.names());
  if (!path.is_string()) {
    return base::fail(base::Code::arguments_invalid, "the path of a value is a text, as \"action.field\"");
  }
  return values_.fill(Json("${" + path.get<std::string>() + "}").dump());
}

Task<base::Result<Json>> AgentRun::run(Context& ctx) {
  started_ms_ = ctx.now_ms();
  const auto plan = ctx.on_query("plan", [this](const Json&) -> base::Result<Json> { return position(); });
  const auto values = ctx.on_query("value", [this](const Json& path) { return value(path); });
  auto ended = co_await work(ctx);
  // Whatever happened, a cancel included: the sandbox goes back before the run ends.
  const base::Status released =
      co_await ctx.cleanup("end", [this](Context& inner) { return release(inner); });
  if (!ended) co_return std::unexpected(ended.error());
  if (!released) co_return std::unexpected(released.error());
  enter(ctx, Phase::done);
  co_return ended;
}

Task<base::Result<Json>> AgentRun::work(Context& ctx) {
  if (!task_.inputs.empty() || needs_sandbox(task_.plan)) {
    const base::Status prepared = co_await prepare(ctx);
    if (!prepared) co_return std::unexpected(prepared.error());
  }
  enter(ctx, Phase::running);
  const auto flow = co_await carry_out(ctx, task_.plan, false);
  if (!flow) co_return std::unexpected(flow.error());
  co_return result(*flow);
}

base::Result<Json> AgentRun::result(const Flow& flow) const {
  if (flow.failed) return base::fail(base::Code::step_failed, flow.message);
  if (!flow.finished) {  // an early finish need not have made everything
    for (const std::string& name : task_.outputs) {
      const bool made = std::ranges::any_of(artifacts_, [&](const Json& one) { return one["name"] == name; });
      if (!made)
        return base::fail(base::Code::artifact_missing, "the plan ended without the output \"" + name + "\"");
    }
  }
  return Json{{"message", flow.finished ? flow.message : "the plan was carried out"},
              {"finished_by", flow.by},
              {"artifacts", artifacts_}};
}

Task<base::Status> AgentRun::prepare(Context& ctx) {
  ctx.set_phase(Phase::queued);
  auto lease = co_await leases::claim(
      ctx, "sandbox", {.template_name = task_.template_name, .queue_ms = task_.timeouts.queue_ms});
  if (!lease) co_return std::unexpected(lease.error());
  lease_ = *std::move(lease);
  if (!task_.network.empty()) {
    const auto opened = co_await in_sandbox(ctx, "network", "sandbox.network", destinations(task_),
                                            {.retry = {.max_attempts = 5}, .start_to_close_ms = kUploadMs});
    if (!opened) co_return std::unexpected(opened.error());
  }
  enter(ctx, Phase::restoring_workspace);
  for (std::size_t i = 0; i < task_.inputs.size(); ++i) {
    const auto put = co_await in_sandbox(ctx, "input", "sandbox.put",
                                         {{"tree", input_.trees[i]}, {"to", task_.inputs[i].to}},
                                         {.retry = {.max_attempts = 5}, .start_to_close_ms = kUploadMs});
    if (!put) co_return std::unexpected(put.error());
  }
  co_return base::Status();
}

Task<base::Result<AgentRun::Flow>> AgentRun::carry_out(Context& ctx, const Actions& actions,
                                                       bool sandbox_later) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const bool later = sandbox_later || needs_sandbox(actions, i + 1);
    auto flow = co_await one(ctx, actions[i], later);
    if (!flow) co_return std::unexpected(flow.error());
    if (flow->finished) co_return flow;
  }
  co_return Flow{};
}

Task<base::Result<AgentRun::Flow>> AgentRun::one(Context& ctx, const Action& action, bool sandbox_later) {
  const auto held = values_.holds(action.when);
  if (!held) co_return about(action, held.error());
  if (!*held) co_return Flow{};
  if (action.kind == Action::Kind::choose) co_return co_await choose(ctx, action, sandbox_later);
  auto arguments = values_.fill(action.arguments);
  if (!arguments) co_return about(action, arguments.error());
  if (action.kind == Action::Kind::finish) {
    const Json& message = (*arguments)["message"];
    co_return Flow{.finished = true,
                   .failed = action.failed,
                   .by = action.name,
                   .message = message.is_string() ? message.get<std::string>() : message.dump()};
  }
  action_ = action.name;
  auto made = co_await perform(ctx, action, *std::move(arguments), sandbox_later);
  if (!made) co_return about(action, made.error());
  if (const auto extracted = extract_into(*made, action.extracts); !extracted)
    co_return about(action, extracted.error());
  if (const auto kept = values_.set(action.name, *std::move(made)); !kept)
    co_return about(action, kept.error());
  action_.clear();
  carried_out_.push_back(action.name);
  co_return Flow{};
}

Task<base::Result<AgentRun::Flow>> AgentRun::choose(Context& ctx, const Action& action, bool sandbox_later) {
  for (std::size_t i = 0; i < action.branches.size(); ++i) {
    const auto held = values_.holds(action.branches[i].when);
    if (!held) co_return about(action, held.error());
    if (!*held) continue;
    if (const auto kept = values_.set(action.name, Json{{"branch", i}}); !kept)
      co_return about(action, kept.error());
    co_return co_await carry_out(ctx, action.branches[i].actions, sandbox_later);
  }
  if (const auto kept = values_.set(action.name, Json{{"branch", nullptr}}); !kept)
    co_return about(action, kept.error());
  co_return Flow{};
}

Task<base::Result<Json>> AgentRun::perform(Context& ctx, const Action& action, Json arguments,
                                           bool sandbox_later) {
  switch (action.kind) {
    case Action::Kind::diff:
      enter(ctx, Phase::running);
      co_return co_await make_diff(ctx, action, std::move(arguments));
    case Action::Kind::artifact:
      enter(ctx, Phase::uploading_artifacts);
      co_return co_await keep(ctx, action, std::move(arguments));
    case Action::Kind::list: {
      enter(ctx, Phase::running);
      const auto left = time_for(ctx, action);
      if (!left) co_return std::unexpected(left.error());
      co_return co_await in_sandbox(ctx, action.name, "sandbox.list", std::move(arguments),
                                    {.retry = {.max_attempts = 5}, .start_to_close_ms = *left});
    }
    default:
      enter(ctx, Phase::running);
      co_return co_await use_tool(ctx, action, std::move(arguments), sandbox_later);
  }
}

/// What one attempt may take: its own limit, and never more than the task has left (Q10).
base::Result<std::int64_t> AgentRun::time_for(const Context& ctx, const Action& action) const {
  const std::int64_t left = task_.timeouts.task_ms - (ctx.now_ms() - started_ms_ - waited_ms_);
  if (left <= 0) {
    return base::fail(base::Code::timed_out, "the task's time limit of " +
                                                 std::to_string(task_.timeouts.task_ms / 1000) +
                                                 " s is reached; raise timeouts.task");
  }
  return std::min(action.timeout_ms > 0 ? action.timeout_ms : task_.timeouts.step_ms, left);
}

Task<base::Result<Json>> AgentRun::in_sandbox(Context& ctx, std::string name, std::string activity,
                                              Json input, engine::run::StepOptions options) {
  if (!lease_) co_return base::fail(base::Code::sandbox_lost, "the sandbox was given back already");
  if (ctx.lease_ended(lease_->path)) co_return base::fail(base::Code::sandbox_lost, "the sandbox was lost");
  input["sandbox"] = lease_->sandbox;
  input["fence"] = lease_->token;
  input["tenant"] = ctx.info().tenant;
  co_return co_await ctx.step(std::move(name), std::move(activity), std::move(input), std::move(options));
}

Task<base::Result<Json>> AgentRun::use_tool(Context& ctx, const Action& action, Json arguments,
                                            bool sandbox_later) {
  const auto left = time_for(ctx, action);
  if (!left) co_return std::unexpected(left.error());
  std::vector<ShownPart> parts;
  if (action.tool == "http_request") {
    if (const auto complete = complete_request(arguments, parts); !complete)
      co_return std::unexpected(complete.error());
  }
  auto call = gateway_.prepare(action.tool, arguments, policy_, *left);
  if (!call) co_return std::unexpected(call.error());
  if (call->decision.verdict == policy::Verdict::deny) {
    co_return base::fail(base::Code::policy_denied, "not executed: " + call->decision.reason);
  }
  std::string approval;
  if (call->decision.verdict == policy::Verdict::ask) {
    if (!sandbox_later && !needs_sandbox(action)) {  // waiting costs no sandbox (H2)
      const auto released = co_await release(ctx);
      if (!released) co_return std::unexpected(released.error());
    }
    auto approved = co_await ask(ctx, action, *call, std::move(parts));
    if (!approved) co_return std::unexpected(approved.error());
    approval = *std::move(approved);
  }
  if (call->operation) co_return co_await act_outside(ctx, action, *call, std::move(approval));
  Json input = call->arguments;
  if (action.tool == "exec") input["timeout_ms"] = *left;
  auto done = co_await in_sandbox(ctx, action.name, call->activity, std::move(input), call->step_options);
  if (!done) co_return done;
  if (action.tool == "exec" && !action.allow_failure) {
    if (const auto status = command_status(*done); !status) co_return std::unexpected(status.error());
  }
  co_return done;
}

Task<base::Result<std::string>> AgentRun::ask(Context& ctx, const Action& action, const gateway::Call& call,
                                              std::vector<ShownPart> parts) {
  const auto digest = ctx.digest(call.arguments);
  if (!digest) co_return std::unexpected(digest.error());
  enter(ctx, Phase::waiting_for_approval);
  const std::int64_t asked = ctx.now_ms();
  workflow::ExchangeRequest request{.target = core::StreamId::named(core::StreamKind::approvals, "")};
  request.body = core::ApprovalRequested{.tenant = ctx.info().tenant,
                                         .user = ctx.info().user,
                                         .tool = call.tool,
                                         .level = static_cast<std::uint32_t>(call.decision.level),
                                         .arguments = *digest,
                                         .expires_ms = asked + task_.approvals.expires_ms,
                                         .approvers = task_.approvals.approvers};
  request.payload = approval_view(call, *digest, parts);
  auto answer = co_await ctx.exchange(action.name + ".approval", std::move(request));
  waited_ms_ += ctx.now_ms() - asked;
  enter(ctx, Phase::running);
  if (!answer) co_return std::unexpected(answer.error());
  const auto* decided = std::get_if<core::ApprovalDecided>(&answer->body);
  if (decided == nullptr)
    co_return base::fail(base::Code::internal, "the approvals stream answered something else");
  if (decided->code != base::Code::ok) {
    const bool expired = decided->code == base::Code::approval_expired;
    std::string why = expired ? "nobody decided in time" : "it was not approved";
    if (answer->payload.is_object()) {
      why += " (" + answer->payload.value("who", "") + ": " + answer->payload.value("why", "") + ")";
    }
    co_return base::fail(decided->code, "not executed: " + why);
  }
  if (decided->arguments != *digest) {  // approved for something else: never carried out (ADV-G7)
    co_return base::fail(base::Code::approval_mismatch, "not executed: the approval is for other arguments");
  }
  co_return answer->path;
}

Task<base::Result<Json>> AgentRun::act_outside(Context& ctx, const Action& action, const gateway::Call& call,
                                               std::string approval) {
  engine::run::OperationOptions options = call.operation_options;
  options.approval = std::move(approval);
  const auto ended = co_await ctx.operation(action.name, call.tool, call.arguments, std::move(options));
  Json made = ended.result.is_object() ? ended.result : Json::object();
  made["done"] = ended.done();
  if (!ended.done() && !action.allow_failure) {
    std::string message = ended.message.empty() ? std::string(base::title_of(ended.code)) : ended.message;
    co_return base::fail(ended.code, std::move(message));
  }
  made["message"] = ended.message;
  if (const auto body = made.find("body"); body != made.end() && body->is_string()) {
    // What others answer may be too deep to walk (J3): then it is a text and nothing else.
    const auto& text = body->get_ref<const std::string&>();
    if (engine::codec::check_json(text)) made["json"] = Json::parse(text);
  }
  co_return made;
}

Task<base::Result<Json>> AgentRun::make_diff(Context& ctx, const Action& action, Json arguments) {
  const std::string path =
      arguments.is_object() && arguments.contains("path") && arguments["path"].is_string()
          ? arguments["path"].get<std::string>()
          : (task_.inputs.empty() ? "" : task_.inputs.front().to);
  const auto input = std::ranges::find_if(task_.inputs, [&](const auto& one) { return one.to == path; });
  if (input == task_.inputs.end()) {
    co_return base::fail(base::Code::arguments_invalid,
                         "\"path\" must be the place of an input; \"" + path + "\" is none");
  }
  const auto left = time_for(ctx, action);
  if (!left) co_return std::unexpected(left.error());
  const std::string& tree = input_.trees[static_cast<std::size_t>(input - task_.inputs.begin())];
  co_return co_await in_sandbox(ctx, action.name, "sandbox.diff", {{"path", path}, {"tree", tree}},
                                {.retry = {.max_attempts = 5}, .start_to_close_ms = *left});
}

Task<base::Result<Json>> AgentRun::keep(Context& ctx, const Action& action, Json arguments) {
  const auto text = [&](const char* field) {
    return arguments.contains(field) && arguments[field].is_string() ? arguments[field].get<std::string>()
                                                                     : "";
  };
  Json input{{"tenant", ctx.info().tenant}, {"name", text("name").empty() ? action.name : text("name")}};
  const engine::run::StepOptions options{.retry = {.max_attempts = 5}, .start_to_close_ms = kUploadMs};
  if (arguments.contains("file")) {
    const auto file = co_await in_sandbox(ctx, action.name + ".file", "sandbox.get_file",
                                          {{"path", text("file")}}, options);
    if (!file) co_return file;
    input["blob"] = (*file)["blob"];
  } else if (arguments.contains("blob")) {
    input["blob"] = text("blob");
  } else {
    input["text"] = text("text");
  }
  auto kept = co_await ctx.step(action.name, artifacts::kStoreActivity, std::move(input), options);
  if (kept) artifacts_.push_back(*kept);
  co_return kept;
}

Task<base::Status> AgentRun::release(Context& ctx) {
  if (!lease_) co_return base::Status();
  const std::string path = lease_->path;
  lease_.reset();
  if (ctx.lease_ended(path)) co_return base::Status();
  enter(ctx, Phase::releasing);
  co_return co_await ctx.release_lease(path);
}

}  // namespace sandglass::activities::agent
