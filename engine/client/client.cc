#include "engine/client/client.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>

#include <chrono>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/system_ports.h"
#include "engine/base/unique_fd.h"
#include "engine/client/channel.h"
#include "engine/client/tree_walk.h"
#include "schemas/sandglass/v1/api_service.grpc.pb.h"

namespace sandglass::engine::client {

namespace {

using base::Code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kRetryPauseMs = 50;
constexpr int kConnectWaitMs = 200;

/// Whether the same call may be answered when it is made again.
bool may_come_back(const base::Error& error) {
  return error.code == Code::engine_unreachable || error.code == Code::unavailable ||
         error.code == Code::outcome_unknown;
}

}  // namespace

/// Ties a Stop to one call for as long as it lives.
class StopScope {
 public:
  StopScope(Stop& stop, grpc::ClientContext& context) : stop_(stop) {
    const std::lock_guard lock(stop_.mutex_);
    stop_.cancel_ = [&context] { context.TryCancel(); };
    if (stop_.stopped_) context.TryCancel();
  }
  ~StopScope() {
    const std::lock_guard lock(stop_.mutex_);
    stop_.cancel_ = nullptr;
  }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  Stop& stop_;
};

void Stop::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (cancel_) cancel_();
}

struct Client::Impl {
  explicit Impl(ConnectOptions connect) : options(std::move(connect)) {
    channel = open_channel(options, socket_folder);
    stub = api::Sandglass::NewStub(channel);
  }

  /// The engine is away: its supervisor needs a moment. Waiting on the channel also drives its connection
  /// attempt, which without a call under way nobody would.
  void pause_before_retry() {
    if (channel->GetState(true) == GRPC_CHANNEL_READY) {
      poll(nullptr, 0, kRetryPauseMs);
    } else {
      channel->WaitForConnected(std::chrono::system_clock::now() + milliseconds(kConnectWaitMs));
    }
  }

  void prepare(grpc::ClientContext& context) const {
    if (!options.token.empty()) context.AddMetadata("authorization", "Bearer " + options.token);
  }

  template <class Request, class Reply>
  base::Result<Reply> call(grpc::Status (api::Sandglass::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                        Reply*),
                           const Request& request) {
    const auto until = steady_clock::now() + milliseconds(options.retry_for_ms);
    for (;;) {
      grpc::ClientContext context;
      prepare(context);
      Reply reply;
      const grpc::Status status = ((*stub).*method)(&context, request, &reply);
      if (status.ok()) return reply;
      base::Error error = to_error(status);
      if (!may_come_back(error) || steady_clock::now() >= until) return std::unexpected(std::move(error));
      pause_before_retry();
    }
  }

  /// Reads one stream to its end. `got_any` tells whether something came.
  template <class Message, class Open>
  base::Status read(Open open, const Receiver<Message>& receiver, grpc::ClientContext& context,
                    bool& got_any) {
    auto reader = open(&context);
    Message message;
    while (reader->Read(&message)) {
      got_any = true;
      if (receiver(message)) continue;
      context.TryCancel();
      reader->Finish();
      return {};
    }
    const grpc::Status status = reader->Finish();
    if (status.ok()) return {};
    return std::unexpected(to_error(status));
  }

  template <class Message, class Open>
  base::Status read_once(Open open, const Receiver<Message>& receiver) {
    const auto until = steady_clock::now() + milliseconds(options.retry_for_ms);
    for (;;) {
      grpc::ClientContext context;
      prepare(context);
      bool got_any = false;
      auto status = read<Message>(open, receiver, context, got_any);
      if (status || got_any || !may_come_back(status.error()) || steady_clock::now() >= until) return status;
      pause_before_retry();
    }
  }

  ConnectOptions options;
  base::UniqueFd socket_folder;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<api::Sandglass::Stub> stub;
};

Client::Client(ConnectOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

base::Result<api::StatusReply> Client::ping(std::int64_t timeout_ms) {
  grpc::ClientContext context;
  impl_->prepare(context);
  context.set_deadline(std::chrono::system_clock::now() + milliseconds(timeout_ms));
  api::StatusReply reply;
  const grpc::Status status = impl_->stub->Status(&context, {}, &reply);
  if (status.ok()) return reply;
  return std::unexpected(to_error(status));
}

base::Result<api::StartRunReply> Client::start_run(const api::StartRunRequest& request) {
  return impl_->call(&api::Sandglass::Stub::StartRun, request);
}
base::Result<api::ListRunsReply> Client::list_runs(const api::ListRunsRequest& request) {
  return impl_->call(&api::Sandglass::Stub::ListRuns, request);
}
base::Result<std::uint64_t> Client::count_runs(api::CountRunsRequest request) {
  for (std::uint64_t runs = 0;;) {
    const auto part = impl_->call(&api::Sandglass::Stub::CountRuns, request);
    if (!part) return std::unexpected(part.error());
    runs += part->runs();
    if (part->next_page_token().empty()) return runs;
    request.set_page_token(part->next_page_token());
  }
}
base::Result<api::RunDetail> Client::get_run(const api::GetRunRequest& request) {
  return impl_->call(&api::Sandglass::Stub::GetRun, request);
}
base::Result<api::CommandReply> Client::signal_run(const api::SignalRunRequest& request) {
  return impl_->call(&api::Sandglass::Stub::SignalRun, request);
}
base::Result<api::QueryRunReply> Client::query_run(const api::QueryRunRequest& request) {
  return impl_->call(&api::Sandglass::Stub::QueryRun, request);
}
base::Result<api::CommandReply> Client::cancel_run(const api::CancelRunRequest& request) {
  return impl_->call(&api::Sandglass::Stub::CancelRun, request);
}
base::Result<api::CommandReply> Client::terminate_run(const api::TerminateRunRequest& request) {
  return impl_->call(&api::Sandglass::Stub::TerminateRun, request);
}
base::Result<api::CommandReply> Client::resume_run(const api::ResumeRunRequest& request) {
  return impl_->call(&api::Sandglass::Stub::ResumeRun, request);
}
base::Result<api::ListApprovalsReply> Client::list_approvals(const api::ListApprovalsRequest& request) {
  return impl_->call(&api::Sandglass::Stub::ListApprovals, request);
}
base::Result<api::CommandReply> Client::decide(const api::DecideRequest& request) {
  return impl_->call(&api::Sandglass::Stub::Decide, request);
}
base::Result<api::DescribeJournalReply> Client::describe_journal() {
  return impl_->call(&api::Sandglass::Stub::DescribeJournal, api::DescribeJournalRequest());
}
base::Result<api::ListArtifactsReply> Client::list_artifacts(const api::ListArtifactsRequest& request) {
  return impl_->call(&api::Sandglass::Stub::ListArtifacts, request);
}
base::Result<api::CommandReply> Client::create_schedule(const api::CreateScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::CreateSchedule, request);
}
base::Result<api::CommandReply> Client::update_schedule(const api::UpdateScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::UpdateSchedule, request);
}
base::Result<api::CommandReply> Client::pause_schedule(const api::ScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::PauseSchedule, request);
}
base::Result<api::CommandReply> Client::resume_schedule(const api::ScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::ResumeSchedule, request);
}
base::Result<api::CommandReply> Client::delete_schedule(const api::ScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::DeleteSchedule, request);
}
base::Result<api::CommandReply> Client::trigger_schedule(const api::ScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::TriggerSchedule, request);
}
base::Result<api::CommandReply> Client::backfill_schedule(const api::BackfillScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::BackfillSchedule, request);
}
base::Result<api::ScheduleDetail> Client::get_schedule(const api::GetScheduleRequest& request) {
  return impl_->call(&api::Sandglass::Stub::GetSchedule, request);
}
base::Result<api::ListSchedulesReply> Client::list_schedules(const api::ListSchedulesRequest& request) {
  return impl_->call(&api::Sandglass::Stub::ListSchedules, request);
}
base::Result<api::CommandReply> Client::create_token(const api::CreateTokenRequest& request) {
  return impl_->call(&api::Sandglass::Stub::CreateToken, request);
}
base::Result<api::CommandReply> Client::revoke_token(const api::RevokeTokenRequest& request) {
  return impl_->call(&api::Sandglass::Stub::RevokeToken, request);
}
base::Result<api::ListTokensReply> Client::list_tokens() {
  return impl_->call(&api::Sandglass::Stub::ListTokens, api::ListTokensRequest());
}
base::Result<api::StatusReply> Client::status(bool checks) {
  api::StatusRequest request;
  request.set_checks(checks);
  return impl_->call(&api::Sandglass::Stub::Status, request);
}

base::Status Client::follow_run(api::FollowRunRequest request, const Receiver<api::RunUpdate>& receiver,
                                Stop& stop, const std::function<void(bool)>& away) {
  bool is_away = false;
  const auto tell = [&](bool now_away) {
    if (away && is_away != now_away) away(now_away);
    is_away = now_away;
  };
  const Receiver<api::RunUpdate> remember = [&](const api::RunUpdate& update) {
    tell(false);
    request.set_after_seq(update.seq());
    return receiver(update);
  };
  auto until = steady_clock::now() + milliseconds(impl_->options.retry_for_ms);
  for (;;) {
    grpc::ClientContext context;
    impl_->prepare(context);
    const StopScope scope(stop, context);
    bool got_any = false;
    auto status = impl_->read<api::RunUpdate>(
        [&](grpc::ClientContext* ctx) { return impl_->stub->FollowRun(ctx, request); }, remember, context,
        got_any);
    if (stop.stopped() && !status) return base::fail(Code::cancelled, "the call was cancelled");
    if (status || !may_come_back(status.error())) return status;
    if (got_any) until = steady_clock::now() + milliseconds(impl_->options.retry_for_ms);
    if (steady_clock::now() >= until) return status;
    tell(true);
    impl_->pause_before_retry();
  }
}

base::Status Client::update_run(const api::UpdateRunRequest& request,
                                const Receiver<api::UpdateProgress>& receiver, Stop& stop) {
  bool accepted = false;
  const Receiver<api::UpdateProgress> once = [&](const api::UpdateProgress& progress) {
    return (!progress.answered() && std::exchange(accepted, true)) || receiver(progress);
  };
  auto until = steady_clock::now() + milliseconds(impl_->options.retry_for_ms);
  for (;;) {
    grpc::ClientContext context;
    impl_->prepare(context);
    const StopScope scope(stop, context);
    bool got_any = false;
    auto status = impl_->read<api::UpdateProgress>(
        [&](grpc::ClientContext* ctx) { return impl_->stub->UpdateRun(ctx, request); }, once, context,
        got_any);
    if (stop.stopped() && !status) return base::fail(Code::cancelled, "the call was cancelled");
    if (status || !may_come_back(status.error())) return status;
    if (got_any) until = steady_clock::now() + milliseconds(impl_->options.retry_for_ms);
    if (steady_clock::now() >= until) return status;
    impl_->pause_before_retry();
  }
}

base::Status Client::read_history(const api::ReadHistoryRequest& request,
                                  const Receiver<api::HistoryRecord>& receiver) {
  return impl_->read_once<api::HistoryRecord>(
      [&](grpc::ClientContext* context) { return impl_->stub->ReadHistory(context, request); }, receiver);
}

base::Status Client::read_order(const api::ReadOrderRequest& request,
                                const Receiver<api::HistoryRecord>& receiver) {
  return impl_->read_once<api::HistoryRecord>(
      [&](grpc::ClientContext* context) { return impl_->stub->ReadOrder(context, request); }, receiver);
}

base::Status Client::hold_checkpoint(const Receiver<api::Checkpoint>& receiver) {
  return impl_->read_once<api::Checkpoint>(
      [&](grpc::ClientContext* context) {
        return impl_->stub->HoldCheckpoint(context, api::HoldCheckpointRequest());
      },
      receiver);
}

base::Status Client::get_artifact(const api::GetArtifactRequest& request,
                                  const Receiver<api::ContentPart>& receiver) {
  return impl_->read_once<api::ContentPart>(
      [&](grpc::ClientContext* context) { return impl_->stub->GetArtifact(context, request); }, receiver);
}

base::Result<api::UploadTreeReply> Client::upload_tree(const std::string& folder) {
  const auto until = steady_clock::now() + milliseconds(impl_->options.retry_for_ms);
  for (;;) {
    grpc::ClientContext context;
    impl_->prepare(context);
    api::UploadTreeReply reply;
    auto writer = impl_->stub->UploadTree(&context, &reply);
    const auto walked = walk_tree(folder, [&](const api::TreePart& part) { return writer->Write(part); });
    if (!walked) context.TryCancel();
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (!walked) return std::unexpected(walked.error());
    if (status.ok()) return reply;
    base::Error error = to_error(status);
    if (!may_come_back(error) || steady_clock::now() >= until) return std::unexpected(std::move(error));
    impl_->pause_before_retry();
  }
}

std::string new_request_id() {
  std::string bytes(16, '\0');
  base::SystemRandom().fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  return base::to_hex(bytes);
}

}  // namespace sandglass::engine::client
