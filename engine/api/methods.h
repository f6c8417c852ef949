// The methods of the public API, without any RPC framework: the gRPC server calls them, as will a JSON
// transcoder. The caller has passed the gate; what it may see is checked here.
#pragma once

#include <memory>

#include "engine/api/answer.h"
#include "engine/identity/identity.h"
#include "schemas/sandglass/v1/admin.pb.h"
#include "schemas/sandglass/v1/approval.pb.h"
#include "schemas/sandglass/v1/content.pb.h"
#include "schemas/sandglass/v1/history.pb.h"
#include "schemas/sandglass/v1/run.pb.h"
#include "schemas/sandglass/v1/schedule.pb.h"

namespace sandglass::engine::api {

namespace v1 = ::sandglass::v1;
using identity::Caller;

template <class Message>
using StreamPtr = base::Result<std::shared_ptr<Stream<Message>>>;
using UploadSink = Sink<v1::TreePart, v1::UploadTreeReply>;

/// Thread rule: any thread; nothing blocks the caller. Requests are copied or used before the method returns.
class Methods {
 public:
  virtual ~Methods() = default;

  virtual void start_run(const Caller&, const v1::StartRunRequest&, Answer<v1::StartRunReply>) = 0;
  virtual void list_runs(const Caller&, const v1::ListRunsRequest&, Answer<v1::ListRunsReply>) = 0;
  virtual void count_runs(const Caller&, const v1::CountRunsRequest&, Answer<v1::CountRunsReply>) = 0;
  virtual void get_run(const Caller&, const v1::GetRunRequest&, Answer<v1::RunDetail>) = 0;
  virtual StreamPtr<v1::RunUpdate> follow_run(const Caller&, const v1::FollowRunRequest&) = 0;
  virtual void signal_run(const Caller&, const v1::SignalRunRequest&, Answer<v1::CommandReply>) = 0;
  virtual void query_run(const Caller&, const v1::QueryRunRequest&, Answer<v1::QueryRunReply>) = 0;
  virtual StreamPtr<v1::UpdateProgress> update_run(const Caller&, const v1::UpdateRunRequest&) = 0;
  virtual void cancel_run(const Caller&, const v1::CancelRunRequest&, Answer<v1::CommandReply>) = 0;
  virtual void terminate_run(const Caller&, const v1::TerminateRunRequest&, Answer<v1::CommandReply>) = 0;
  virtual void resume_run(const Caller&, const v1::ResumeRunRequest&, Answer<v1::CommandReply>) = 0;

  virtual void list_approvals(const Caller&, const v1::ListApprovalsRequest&,
                              Answer<v1::ListApprovalsReply>) = 0;
  virtual void decide(const Caller&, const v1::DecideRequest&, Answer<v1::CommandReply>) = 0;

  virtual void describe_journal(const Caller&, const v1::DescribeJournalRequest&,
                                Answer<v1::DescribeJournalReply>) = 0;
  virtual StreamPtr<v1::HistoryRecord> read_history(const Caller&, const v1::ReadHistoryRequest&) = 0;
  virtual StreamPtr<v1::HistoryRecord> read_order(const Caller&, const v1::ReadOrderRequest&) = 0;
  virtual StreamPtr<v1::Checkpoint> hold_checkpoint(const Caller&, const v1::HoldCheckpointRequest&) = 0;

  virtual base::Result<std::shared_ptr<UploadSink>> upload_tree(const Caller&) = 0;
  virtual void list_artifacts(const Caller&, const v1::ListArtifactsRequest&,
                              Answer<v1::ListArtifactsReply>) = 0;
  virtual StreamPtr<v1::ContentPart> get_artifact(const Caller&, const v1::GetArtifactRequest&) = 0;

  virtual void create_schedule(const Caller&, const v1::CreateScheduleRequest&, Answer<v1::CommandReply>) = 0;
  virtual void update_schedule(const Caller&, const v1::UpdateScheduleRequest&, Answer<v1::CommandReply>) = 0;
  virtual void pause_schedule(const Caller&, const v1::ScheduleRequest&, Answer<v1::CommandReply>) = 0;
  virtual void resume_schedule(const Caller&, const v1::ScheduleRequest&, Answer<v1::CommandReply>) = 0;
  virtual void delete_schedule(const Caller&, const v1::ScheduleRequest&, Answer<v1::CommandReply>) = 0;
  virtual void trigger_schedule(const Caller&, const v1::ScheduleRequest&, Answer<v1::CommandReply>) = 0;
  virtual void backfill_schedule(const Caller&, const v1::BackfillScheduleRequest&,
                                 Answer<v1::CommandReply>) = 0;
  virtual void get_schedule(const Caller&, const v1::GetScheduleRequest&, Answer<v1::ScheduleDetail>) = 0;
  virtual void list_schedules(const Caller&, const v1::ListSchedulesRequest&,
                              Answer<v1::ListSchedulesReply>) = 0;

  virtual void create_token(const Caller&, const v1::CreateTokenRequest&, Answer<v1::CommandReply>) = 0;
  virtual void revoke_token(const Caller&, const v1::RevokeTokenRequest&, Answer<v1::CommandReply>) = 0;
  virtual void list_tokens(const Caller&, const v1::ListTokensRequest&, Answer<v1::ListTokensReply>) = 0;
  virtual void status(const Caller&, const v1::StatusRequest&, Answer<v1::StatusReply>) = 0;
};

}  // namespace sandglass::engine::api
