#include "engine/api/engine_methods.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "activities/approvals/approvals.h"
#include "engine/api/approval_view.h"
#include "engine/api/artifacts.h"
#include "engine/api/history_streams.h"
#include "engine/api/requests.h"
#include "engine/api/run_access.h"
#include "engine/api/run_detail.h"
#include "engine/api/run_list.h"
#include "engine/api/schedules.h"
#include "engine/api/update_stream.h"
#include "engine/api/upload.h"
#include "engine/base/crash_point.h"
#include "engine/codec/json.h"
#include "engine/identity/decider.h"
#include "engine/run/commands.h"

namespace sandglass::engine::api {

namespace {

using base::Code;
namespace approvals = activities::approvals;

class EngineMethods final : public Methods {
 public:
  explicit EngineMethods(const Backend& backend)
      : backend_(backend),
        schedules_(backend, [this](const core::StreamId& stream, core::CommandPtr command,
                                   const Changing& changing, Answer<v1::CommandReply> answer) {
          submit(stream, std::move(command), changing.request_id, changing.digest, std::move(answer));
        }) {}

  void start_run(const Caller& caller, const v1::StartRunRequest& request,
                 Answer<v1::StartRunReply> answer) override;
  void list_runs(const Caller& caller, const v1::ListRunsRequest& request,
                 Answer<v1::ListRunsReply> answer) override {
    backend_.pool.run([this, caller, request, answer = std::move(answer)]() mutable {
      auto page = api::list_runs(backend_.view, backend_.partitions, caller, request, backend_.damage_of);
      if (page) {
        if (auto filled = fill_heads(backend_.view, *page); !filled) page = std::unexpected(filled.error());
      }
      answer(std::move(page));
    });
  }
  void count_runs(const Caller& caller, const v1::CountRunsRequest& request,
                  Answer<v1::CountRunsReply> answer) override {
    backend_.pool.run([this, caller, request, answer = std::move(answer)]() mutable {
      answer(api::count_runs(backend_.view, backend_.partitions, caller, request, backend_.damage_of));
    });
  }
  void get_run(const Caller& caller, const v1::GetRunRequest& request, Answer<v1::RunDetail> answer) override;
  void get_damaged_run(const Caller& caller, const core::StreamId& stream, const base::Error& damage,
                       Answer<v1::RunDetail> answer);
  StreamPtr<v1::RunUpdate> follow_run(const Caller& caller, const v1::FollowRunRequest& request) override {
    return follow_stream(backend_, caller, request);
  }

  void signal_run(const Caller& caller, const v1::SignalRunRequest& request,
                  Answer<v1::CommandReply> answer) override {
    if (request.name().empty() || request.name().size() > kLongestName) {
      return answer(base::fail(Code::invalid_argument, "a signal needs a name of 1 to 256 bytes"));
    }
    command(caller, "signal", request, std::move(answer),
            [request](const core::DigestKey& key) -> base::Result<run::Command> {
              auto payload = json_payload(key, request.payload());
              if (!payload) return std::unexpected(payload.error());
              return run::Signal{request.name(), std::move(*payload)};
            });
  }
  void query_run(const Caller& caller, const v1::QueryRunRequest& request,
                 Answer<v1::QueryRunReply> answer) override;
  StreamPtr<v1::UpdateProgress> update_run(const Caller& caller,
                                           const v1::UpdateRunRequest& request) override {
    return update_stream(backend_, caller, request);
  }
  void cancel_run(const Caller& caller, const v1::CancelRunRequest& request,
                  Answer<v1::CommandReply> answer) override {
    command(caller, "cancel", request, std::move(answer),
            [request](const core::DigestKey&) -> base::Result<run::Command> {
              return run::Cancel{request.reason()};
            });
  }
  void terminate_run(const Caller& caller, const v1::TerminateRunRequest& request,
                     Answer<v1::CommandReply> answer) override {
    command(caller, "terminate", request, std::move(answer),
            [request](const core::DigestKey&) -> base::Result<run::Command> {
              return run::Terminate{request.reason()};
            });
  }
  void resume_run(const Caller& caller, const v1::ResumeRunRequest& request,
                  Answer<v1::CommandReply> answer) override {
    command(caller, "resume", request, std::move(answer),
            [](const core::DigestKey&) -> base::Result<run::Command> { return run::Resume{}; });
  }
  void list_approvals(const Caller& caller, const v1::ListApprovalsRequest& request,
                      Answer<v1::ListApprovalsReply> answer) override;
  void decide(const Caller& caller, const v1::DecideRequest& request,
              Answer<v1::CommandReply> answer) override;

  void describe_journal(const Caller&, const v1::DescribeJournalRequest&,
                        Answer<v1::DescribeJournalReply> answer) override {
    backend_.pool.run([this, answer = std::move(answer)]() mutable {
      auto id = backend_.reader.journal_id();
      if (!id) return answer(std::unexpected(id.error()));
      v1::DescribeJournalReply reply;
      reply.set_journal_id(*id);
      reply.set_partitions(backend_.partitions);
      answer(std::move(reply));
    });
  }
  StreamPtr<v1::HistoryRecord> read_history(const Caller& caller,
                                            const v1::ReadHistoryRequest& request) override {
    if (!core::StreamId::parse(request.stream())) {
      return base::fail(Code::invalid_argument, "a stream id has the form kind-<32 hex digits>");
    }
    return history_stream(backend_, caller, request);
  }
  StreamPtr<v1::Checkpoint> hold_checkpoint(const Caller&, const v1::HoldCheckpointRequest&) override {
    return checkpoint_stream(backend_);
  }
  StreamPtr<v1::HistoryRecord> read_order(const Caller& caller,
                                          const v1::ReadOrderRequest& request) override {
    if (request.partition() >= backend_.partitions) {
      return base::fail(Code::invalid_argument,
                        "the journal has " + std::to_string(backend_.partitions) + " partitions");
    }
    return order_stream(backend_, caller, request);
  }

  base::Result<std::shared_ptr<UploadSink>> upload_tree(const Caller& caller) override {
    return upload_sink(backend_, caller);
  }
  void list_artifacts(const Caller& caller, const v1::ListArtifactsRequest& request,
                      Answer<v1::ListArtifactsReply> answer) override;
  StreamPtr<v1::ContentPart> get_artifact(const Caller& caller,
                                          const v1::GetArtifactRequest& request) override {
    return artifact_stream(backend_, caller, request);
  }

#define SG_SCHEDULE(name, method, Request)                                                                \
  void name(const Caller& caller, const v1::Request& request, Answer<v1::CommandReply> answer) override { \
    schedules_.method(caller, request, {request.request_id(), digest_of(#name, request)},                 \
                      std::move(answer));                                                                 \
  }
  SG_SCHEDULE(create_schedule, create, CreateScheduleRequest)
  SG_SCHEDULE(update_schedule, update, UpdateScheduleRequest)
  SG_SCHEDULE(pause_schedule, pause, ScheduleRequest)
  SG_SCHEDULE(resume_schedule, resume, ScheduleRequest)
  SG_SCHEDULE(delete_schedule, remove, ScheduleRequest)
  SG_SCHEDULE(trigger_schedule, trigger, ScheduleRequest)
  SG_SCHEDULE(backfill_schedule, backfill, BackfillScheduleRequest)
#undef SG_SCHEDULE
  void get_schedule(const Caller& caller, const v1::GetScheduleRequest& request,
                    Answer<v1::ScheduleDetail> answer) override {
    schedules_.get(caller, request, std::move(answer));
  }
  void list_schedules(const Caller& caller, const v1::ListSchedulesRequest& request,
                      Answer<v1::ListSchedulesReply> answer) override {
    schedules_.list(caller, request, std::move(answer));
  }

  void create_token(const Caller& caller, const v1::CreateTokenRequest& request,
                    Answer<v1::CommandReply> answer) override;
  void revoke_token(const Caller& caller, const v1::RevokeTokenRequest& request,
                    Answer<v1::CommandReply> answer) override {
    submit(identity::identity_stream(),
           core::make_command<identity::Command>(identity::RevokeToken{request.name(), caller.token_name}),
           request.request_id(), digest_of("revoke_token", request), once_known(std::move(answer)));
  }
  void list_tokens(const Caller& caller, const v1::ListTokensRequest&,
                   Answer<v1::ListTokensReply> answer) override;
  void status(const Caller&, const v1::StatusRequest& request, Answer<v1::StatusReply> answer) override {
    backend_.pool.run([this, checks = request.checks(), answer = std::move(answer)]() mutable {
      v1::StatusReply reply;
      for (const auto& [name, version] : backend_.workflows) reply.add_workflows(name);
      reply.set_partitions(backend_.partitions);
      if (backend_.fill_status) backend_.fill_status(reply, checks);
      answer(std::move(reply));
    });
  }

 private:
  /// Answers when the gate knows of the change, so that a token that was made can be used and a revoked one
  /// cannot.
  Answer<v1::CommandReply> once_known(Answer<v1::CommandReply> answer) {
    return [this, answer = std::move(answer)](base::Result<v1::CommandReply> reply) mutable {
      if (!reply || !backend_.identities_changed) return answer(std::move(reply));
      backend_.identities_changed(
          [answer = std::move(answer), reply = std::move(reply)](base::Status status) mutable {
            if (!status) return answer(std::unexpected(status.error()));
            answer(std::move(reply));
          });
    };
  }

  core::DigestKey key_of(std::string_view history_root) const { return {backend_.tenant_key, history_root}; }

  void submit(const core::StreamId& target, core::CommandPtr command, const std::string& request_id,
              const base::Hash256& digest, Answer<v1::CommandReply> answer) {
    if (auto checked = check_request_id(request_id); !checked)
      return answer(std::unexpected(checked.error()));
    backend_.engine.submit(
        {.target = target,
         .command = std::move(command),
         .request_id = request_id,
         .request_digest = digest,
         .expected_head = std::nullopt,
         .on_reply = [answer = std::move(answer)](base::Result<shard::Reply> reply) mutable {
           if (!reply) return answer(std::unexpected(reply.error()));
           v1::CommandReply out;
           if (reply->payload) out.set_reply(reply->payload.slot->bytes);
           answer(std::move(out));
         }});
  }

  /// A command of a run that the caller may touch. `make` gets the key of the run's digests.
  template <class Request, class Make>
  void command(const Caller& caller, const char* call, const Request& request,
               Answer<v1::CommandReply> answer, Make make) {
    with_run(backend_.engine, caller, request.run_id(),
             [this, request_id = request.request_id(), digest = digest_of(call, request),
              make = std::move(make), answer = std::move(answer)](base::Result<RunFacts> facts) mutable {
               if (!facts) return answer(std::unexpected(facts.error()));
               base::Result<run::Command> made = make(key_of(facts->state().history_root));
               if (!made) return answer(std::unexpected(made.error()));
               submit(facts->stream, core::make_command<run::Command>(std::move(*made)), request_id, digest,
                      std::move(answer));
             });
  }

  const Backend& backend_;
  Schedules schedules_;
};

void EngineMethods::start_run(const Caller& caller, const v1::StartRunRequest& request,
                              Answer<v1::StartRunReply> answer) {
  if (auto checked = check_request_id(request.request_id()); !checked) {
    return answer(std::unexpected(checked.error()));
  }
  const auto workflow = backend_.workflows.find(request.workflow());
  if (workflow == backend_.workflows.end()) {
    std::string known;
    for (const auto& [name, version] : backend_.workflows) known += (known.empty() ? "" : ", ") + name;
    return answer(base::fail(Code::workflow_unknown, "no workflow named " + request.workflow() +
                                                         " is registered; there are: " + known));
  }
  auto stream = core::StreamId::for_request(core::StreamKind::run, caller.tenant, request.request_id());
  if (!request.run_id().empty()) {
    const auto given = core::StreamId::parse(request.run_id());
    if (!given || given->kind != core::StreamKind::run) {
      return answer(base::fail(Code::invalid_argument, "a run id has the form run-<32 hex digits>"));
    }
    stream = *given;
  }
  // Both stand in the clear header of every record and in lists.
  for (const std::string& name : {request.user(), request.session()}) {
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
    if (name.size() > 128 || std::ranges::any_of(name, is_control)) {
      return answer(base::fail(Code::invalid_argument,
                               "user and session are at most 128 bytes each, without control characters"));
    }
  }
  const std::string user = request.user().empty() ? caller.user : request.user();
  if (!identity::may_touch(caller, caller.tenant, user)) {
    return answer(
        base::fail(Code::permission_denied, "this token may start runs for " + caller.user + " only"));
  }
  auto input = json_payload(key_of(stream.text()), request.input());
  if (!input) return answer(std::unexpected(input.error()));
  run::StartRun start{.workflow = request.workflow(),
                      .version = workflow->second,
                      .tenant = caller.tenant,
                      .user = user,
                      .session = request.session(),
                      .input = std::move(*input)};
  submit(stream, core::make_command<run::Command>(std::move(start)), request.request_id(),
         digest_of("start", request),
         [id = stream.text(), answer = std::move(answer)](base::Result<v1::CommandReply> reply) mutable {
           if (!reply) return answer(std::unexpected(reply.error()));
           v1::StartRunReply out;
           out.set_run_id(id);
           answer(std::move(out));
         });
}

void EngineMethods::query_run(const Caller& caller, const v1::QueryRunRequest& request,
                              Answer<v1::QueryRunReply> answer) {
  if (request.name().empty() || request.name().size() > kLongestName) {
    return answer(base::fail(Code::invalid_argument, "a query needs a name of 1 to 256 bytes"));
  }
  with_run(backend_.engine, caller, request.run_id(),
           [this, request, answer = std::move(answer)](base::Result<RunFacts> facts) mutable {
             if (!facts) return answer(std::unexpected(facts.error()));
             auto input = json_payload(key_of(facts->state().history_root), request.input());
             if (!input) return answer(std::unexpected(input.error()));
             backend_.engine.ask(
                 facts->stream,
                 {.kind = core::Question::Kind::query, .name = request.name(), .input = input->slot},
                 [answer = std::move(answer)](base::Result<std::string> said) mutable {
                   if (!said) return answer(std::unexpected(said.error()));
                   v1::QueryRunReply reply;
                   reply.set_answer(*said);
                   answer(std::move(reply));
                 });
           });
}

void EngineMethods::list_approvals(const Caller& caller, const v1::ListApprovalsRequest& request,
                                   Answer<v1::ListApprovalsReply> answer) {
  backend_.engine.read(approvals::approvals_stream(), [this, caller, request, answer = std::move(answer)](
                                                          base::Result<shard::StreamRead> read) mutable {
    if (!read) return answer(std::unexpected(read.error()));
    backend_.pool.run(
        [this, caller, request, state = std::move(read->state), answer = std::move(answer)]() mutable {
          const auto& typed = static_cast<const core::StateOf<approvals::ApprovalsState>&>(*state).value;
          answer(read_approvals(backend_.reader, caller, typed, request.run_id(), request.ended_too()));
        });
  });
}

/// Of a run whose records cannot be read: what the list knows, and why.
void EngineMethods::get_damaged_run(const Caller& caller, const core::StreamId& stream,
                                    const base::Error& damage, Answer<v1::RunDetail> answer) {
  if (backend_.found_damaged) backend_.found_damaged(stream, damage);
  backend_.pool.run([this, caller, stream, damage, answer = std::move(answer)]() mutable {
    auto summary = find_listed(backend_.view, backend_.partitions, caller, stream);
    if (!summary) return answer(std::unexpected(summary.error()));
    v1::RunDetail detail;
    *detail.mutable_summary() = std::move(*summary);
    detail.mutable_summary()->set_status(v1::RUN_STATUS_STUCK);
    detail.mutable_summary()->set_error_code(static_cast<std::uint32_t>(Code::stream_damaged));
    detail.set_error_code(static_cast<std::uint32_t>(Code::stream_damaged));
    detail.set_error(damage.message);
    answer(std::move(detail));
  });
}

void EngineMethods::get_run(const Caller& caller, const v1::GetRunRequest& request,
                            Answer<v1::RunDetail> answer) {
  const auto is_damage = [](const base::Error& error) {
    return error.code == Code::stream_damaged || error.code == Code::record_damaged;
  };
  with_run(
      backend_.engine, caller, request.run_id(),
      [this, caller, is_damage, run_id = request.run_id(),
       answer = std::move(answer)](base::Result<RunFacts> facts) mutable {
        if (!facts && is_damage(facts.error()))
          return get_damaged_run(caller, *core::StreamId::parse(run_id), facts.error(), std::move(answer));
        if (!facts) return answer(std::unexpected(facts.error()));
        std::map<std::string, std::string> places;
        for (const auto& [path, step] : facts->state().steps) {
          if (auto place = backend_.step_place ? backend_.step_place(facts->stream, path) : std::nullopt)
            places.emplace(path, std::move(*place));
        }
        backend_.pool.run([this, caller, is_damage, places = std::move(places), facts = std::move(*facts),
                           answer = std::move(answer)]() mutable {
          const fold::AnyKind& kind = *backend_.kinds.find(core::StreamKind::run);
          auto detail = read_detail(backend_.reader, kind, facts.stream, facts.state(), facts.head);
          if (!detail && is_damage(detail.error()))
            return get_damaged_run(caller, facts.stream, detail.error(), std::move(answer));
          if (!detail) return answer(std::move(detail));
          for (auto& step : *detail->mutable_steps()) {
            if (const auto place = places.find(step.path()); place != places.end())
              step.set_status(place->second);
          }
          v1::ListApprovalsRequest of_run;
          of_run.set_run_id(facts.stream.text());
          of_run.set_ended_too(true);
          list_approvals(caller, of_run,
                         [is_damage, detail = std::move(*detail),
                          answer = std::move(answer)](base::Result<v1::ListApprovalsReply> waiting) mutable {
                           // A damaged inbox hides no runs (E14).
                           if (!waiting && !is_damage(waiting.error()))
                             return answer(std::unexpected(waiting.error()));
                           if (waiting) detail.mutable_approvals()->Swap(waiting->mutable_approvals());
                           answer(std::move(detail));
                         });
        });
      });
}

void EngineMethods::list_artifacts(const Caller& caller, const v1::ListArtifactsRequest& request,
                                   Answer<v1::ListArtifactsReply> answer) {
  with_run(backend_.engine, caller, request.run_id(),
           [this, answer = std::move(answer)](base::Result<RunFacts> facts) mutable {
             if (!facts) return answer(std::unexpected(facts.error()));
             backend_.pool.run([this, facts = std::move(*facts), answer = std::move(answer)]() mutable {
               const fold::AnyKind& kind = *backend_.kinds.find(core::StreamKind::run);
               auto artifacts = read_artifacts(backend_.reader, kind, facts.stream, facts.head);
               if (!artifacts) return answer(std::unexpected(artifacts.error()));
               v1::ListArtifactsReply reply;
               for (auto& artifact : *artifacts) *reply.add_artifacts() = std::move(artifact);
               answer(std::move(reply));
             });
           });
}

void EngineMethods::decide(const Caller& caller, const v1::DecideRequest& request,
                           Answer<v1::CommandReply> answer) {
  const auto digest = base::Hash256::from_bytes(request.arguments_digest());
  if (!digest) {
    return answer(base::fail(Code::invalid_argument,
                             "a decision names the digest of the arguments that were shown: 32 bytes"));
  }
  const auto stream = approvals::approvals_stream();
  const nlohmann::ordered_json reason = {{"who", caller.user}, {"why", request.reason()}};
  const std::string text = reason.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (request.outcome() > v1::OUTCOME_VERDICT_AGAIN) {
    return answer(base::fail(Code::invalid_argument, "an outcome is done, not done or again"));
  }
  if (!request.result().empty() && request.outcome() != v1::OUTCOME_VERDICT_DONE) {
    return answer(base::fail(Code::invalid_argument, "only what was done has a result"));
  }
  auto result = json_payload(key_of(stream.text()), request.result());
  if (!result) return answer(std::unexpected(result.error()));
  approvals::Decide decide{.id = request.approval_id(),
                           .arguments = {*digest},
                           .approve = request.approve(),
                           .tenant = identity::has(caller.roles, identity::Role::admin) ? "" : caller.tenant,
                           .who = caller.user,
                           .role = "approver",
                           .reason = key_of(stream.text()).make(core::Encoding::json, text),
                           .result = std::move(*result)};
  if (request.outcome() != v1::OUTCOME_VERDICT_UNSPECIFIED) {
    decide.outcome = static_cast<core::OutcomeVerdict>(request.outcome() - 1);
  }
  SG_CRASH_POINT("approval.before_decision");
  submit(stream, core::make_command<approvals::ApprovalsDecider::Command>(std::move(decide)),
         request.request_id(), digest_of("decide", request),
         [answer = std::move(answer)](base::Result<v1::CommandReply> reply) mutable {
           SG_CRASH_POINT("approval.decided");
           answer(std::move(reply));
         });
}

void EngineMethods::create_token(const Caller& caller, const v1::CreateTokenRequest& request,
                                 Answer<v1::CommandReply> answer) {
  const auto hash = base::Hash256::from_bytes(request.token_hash());
  if (!hash) return answer(base::fail(Code::invalid_argument, "the token's hash must have 32 bytes"));
  identity::Token token{.name = request.name(),
                        .tenant = request.tenant().empty() ? caller.tenant : request.tenant(),
                        .user = request.user().empty() ? request.name() : request.user(),
                        .hash = *hash};
  for (const auto& name : request.roles()) {
    const auto role = identity::parse_role(name);
    if (!role) {
      return answer(base::fail(
          Code::invalid_argument,
          "there is no role " + name + "; there are admin, operator, approver, auditor, user, worker"));
    }
    token.roles = token.roles | *role;
  }
  submit(identity::identity_stream(),
         core::make_command<identity::Command>(identity::CreateToken{std::move(token), caller.token_name}),
         request.request_id(), digest_of("create_token", request), once_known(std::move(answer)));
}

void EngineMethods::list_tokens(const Caller& caller, const v1::ListTokensRequest&,
                                Answer<v1::ListTokensReply> answer) {
  backend_.engine.read(identity::identity_stream(), [caller, answer = std::move(answer)](
                                                        base::Result<shard::StreamRead> read) mutable {
    if (!read) return answer(std::unexpected(read.error()));
    v1::ListTokensReply reply;
    for (const auto& [name, token] :
         static_cast<const core::StateOf<identity::State>&>(*read->state).value.tokens) {
      if (token.tenant != caller.tenant && !identity::has(caller.roles, identity::Role::admin)) continue;
      auto& out = *reply.add_tokens();
      out.set_name(token.name);
      out.set_tenant(token.tenant);
      out.set_user(token.user);
      for (const auto& role : identity::role_names(token.roles)) out.add_roles(role);
      out.set_created_ms(token.created_ms);
      out.set_revoked_ms(token.revoked_ms);
    }
    answer(std::move(reply));
  });
}

}  // namespace

std::unique_ptr<Methods> engine_methods(const Backend& backend) {
  return std::make_unique<EngineMethods>(backend);
}

}  // namespace sandglass::engine::api
