#include "engine/api/rpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/api/listener.h"
#include "engine/api/rpc_status.h"
#include "engine/api/worker_service.h"
#include "engine/base/unique_fd.h"
#include "schemas/sandglass/v1/api_service.grpc.pb.h"

namespace sandglass::engine::api {

namespace {

constexpr int kIdleMs = 60'000;  // without a call; clients connect again by themselves

using base::Code;
using identity::Call;
using Context = grpc::CallbackServerContext;

/// What a request is about, by whichever of these fields it has.
template <class Request>
RefusedCall refused_call(Call call, const Request& request) {
  RefusedCall refused{.call = call};
  if constexpr (requires { request.request_id(); }) refused.request_id = request.request_id();
  if constexpr (requires { request.approval_id(); }) {
    refused.target = request.approval_id();
  } else if constexpr (requires { request.run_id(); }) {
    refused.target = request.run_id();
  } else if constexpr (requires { request.stream(); }) {
    refused.target = request.stream();
  } else if constexpr (requires { request.token_hash(); }) {
    refused.target = request.name();
  }
  return refused;
}

/// Pulls a Stream and writes what comes. Deletes itself.
template <class Message>
class Puller final : public grpc::ServerWriteReactor<Message> {
 public:
  using OnError = std::move_only_function<void(const Caller&, const base::Error&)>;
  Puller(Gate::Pass pass, std::shared_ptr<Stream<Message>> stream, OnError on_error)
      : pass_(std::move(pass)), stream_(std::move(stream)), on_error_(std::move(on_error)) {
    pull();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::CANCELLED);
    pull();
  }
  void OnCancel() override { stream_->stop(); }
  void OnDone() override {
    stream_->stop();
    delete this;
  }

 private:
  void pull() {
    stream_->next([this](base::Result<std::optional<Message>> next) {
      if (!next) {
        on_error_(pass_.caller, next.error());
        return this->Finish(to_status(next.error()));
      }
      if (!*next) return this->Finish(grpc::Status::OK);
      if (const auto valid = pass_.still_valid(); !valid) return this->Finish(to_status(valid.error()));
      message_ = std::move(**next);
      this->StartWrite(&message_);
    });
  }

  Gate::Pass pass_;
  std::shared_ptr<Stream<Message>> stream_;
  OnError on_error_;
  Message message_;
};

template <class Message>
class Refuser final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit Refuser(const base::Error& error) { this->Finish(to_status(error)); }
  void OnDone() override { delete this; }
};

class UploadRefuser final : public grpc::ServerReadReactor<v1::TreePart> {
 public:
  explicit UploadRefuser(const base::Error& error) { Finish(to_status(error)); }
  void OnDone() override { delete this; }
};

/// Reads an upload part by part into its sink. Deletes itself.
class Uploader final : public grpc::ServerReadReactor<v1::TreePart> {
 public:
  Uploader(Gate::Pass pass, std::shared_ptr<UploadSink> sink, v1::UploadTreeReply* reply)
      : pass_(std::move(pass)), sink_(std::move(sink)), reply_(reply) {
    StartRead(&part_);
  }
  void OnReadDone(bool ok) override {
    if (ok) {
      sink_->take(std::move(part_), [this](base::Result<bool> taken) {
        if (!taken) return Finish(to_status(taken.error()));
        part_.Clear();
        StartRead(&part_);
      });
      return;
    }
    sink_->finish([this](base::Result<v1::UploadTreeReply> finished) {
      if (!finished) return Finish(to_status(finished.error()));
      *reply_ = std::move(*finished);
      Finish(grpc::Status::OK);
    });
  }
  void OnDone() override { delete this; }

 private:
  Gate::Pass pass_;
  std::shared_ptr<UploadSink> sink_;
  v1::UploadTreeReply* reply_;
  v1::TreePart part_;
};

class Service final : public v1::Sandglass::CallbackService {
 public:
  Service(Gate& gate, Methods* methods, RefusalLog& refusals)
      : gate_(gate), methods_(methods), refusals_(refusals) {}

#define SG_UNARY(Name, method, Request, Reply)                                                              \
  grpc::ServerUnaryReactor* Name(Context* context, const v1::Request* request, v1::Reply* reply) override { \
    return unary<v1::Request, v1::Reply>(context, request, reply, Call::method, &Methods::method);          \
  }
#define SG_STREAM(Name, method, Request, Message)                                                      \
  grpc::ServerWriteReactor<v1::Message>* Name(Context* context, const v1::Request* request) override { \
    return stream<v1::Request, v1::Message>(context, request, Call::method, &Methods::method);         \
  }
  SG_UNARY(StartRun, start_run, StartRunRequest, StartRunReply)
  SG_UNARY(ListRuns, list_runs, ListRunsRequest, ListRunsReply)
  SG_UNARY(CountRuns, count_runs, CountRunsRequest, CountRunsReply)
  SG_UNARY(GetRun, get_run, GetRunRequest, RunDetail)
  SG_STREAM(FollowRun, follow_run, FollowRunRequest, RunUpdate)
  SG_UNARY(SignalRun, signal_run, SignalRunRequest, CommandReply)
  SG_UNARY(QueryRun, query_run, QueryRunRequest, QueryRunReply)
  SG_STREAM(UpdateRun, update_run, UpdateRunRequest, UpdateProgress)
  SG_UNARY(CancelRun, cancel_run, CancelRunRequest, CommandReply)
  SG_UNARY(TerminateRun, terminate_run, TerminateRunRequest, CommandReply)
  SG_UNARY(ResumeRun, resume_run, ResumeRunRequest, CommandReply)
  SG_UNARY(ListApprovals, list_approvals, ListApprovalsRequest, ListApprovalsReply)
  SG_UNARY(Decide, decide, DecideRequest, CommandReply)
  SG_UNARY(DescribeJournal, describe_journal, DescribeJournalRequest, DescribeJournalReply)
  SG_STREAM(ReadHistory, read_history, ReadHistoryRequest, HistoryRecord)
  SG_STREAM(ReadOrder, read_order, ReadOrderRequest, HistoryRecord)
  SG_STREAM(HoldCheckpoint, hold_checkpoint, HoldCheckpointRequest, Checkpoint)
  SG_UNARY(ListArtifacts, list_artifacts, ListArtifactsRequest, ListArtifactsReply)
  SG_STREAM(GetArtifact, get_artifact, GetArtifactRequest, ContentPart)
  SG_UNARY(CreateSchedule, create_schedule, CreateScheduleRequest, CommandReply)
  SG_UNARY(UpdateSchedule, update_schedule, UpdateScheduleRequest, CommandReply)
  SG_UNARY(PauseSchedule, pause_schedule, ScheduleRequest, CommandReply)
  SG_UNARY(ResumeSchedule, resume_schedule, ScheduleRequest, CommandReply)
  SG_UNARY(DeleteSchedule, delete_schedule, ScheduleRequest, CommandReply)
  SG_UNARY(TriggerSchedule, trigger_schedule, ScheduleRequest, CommandReply)
  SG_UNARY(BackfillSchedule, backfill_schedule, BackfillScheduleRequest, CommandReply)
  SG_UNARY(GetSchedule, get_schedule, GetScheduleRequest, ScheduleDetail)
  SG_UNARY(ListSchedules, list_schedules, ListSchedulesRequest, ListSchedulesReply)
  SG_UNARY(CreateToken, create_token, CreateTokenRequest, CommandReply)
  SG_UNARY(RevokeToken, revoke_token, RevokeTokenRequest, CommandReply)
  SG_UNARY(ListTokens, list_tokens, ListTokensRequest, ListTokensReply)
  SG_UNARY(Status, status, StatusRequest, StatusReply)
#undef SG_UNARY
#undef SG_STREAM

  grpc::ServerReadReactor<v1::TreePart>* UploadTree(Context* context, v1::UploadTreeReply* reply) override {
    auto pass = admit(*context, Call::upload_tree, true);
    if (!pass) return new UploadRefuser(pass.error());
    auto sink = methods_->upload_tree(pass->caller);
    if (!sink) return new UploadRefuser(sink.error());
    return new Uploader(std::move(*pass), std::move(*sink), reply);
  }

 private:
  base::Result<Gate::Pass> admit(const Context& context, Call call, bool streams) {
    std::optional<Caller> denied;
    auto pass = gate_.admit(authorization_of(context), call, streams, &denied);
    if (!pass && denied) refusals_.refused(*denied, {.call = call}, pass.error());
    return pass;
  }

  template <class Request, class Reply, class Method>
  grpc::ServerUnaryReactor* unary(Context* context, const Request* request, Reply* reply, Call call,
                                  Method method) {
    auto* reactor = context->DefaultReactor();
    auto pass = admit(*context, call, false);
    if (!pass) {
      reactor->Finish(to_status(pass.error()));
      return reactor;
    }
    const Caller caller = pass->caller;
    // The request lives as long as the call does.
    (methods_->*method)(
        caller, *request,
        [this, reactor, reply, call, request, held = std::move(*pass)](base::Result<Reply> answer) mutable {
          if (answer) {
            *reply = std::move(*answer);
          } else {
            refusals_.refused(held.caller, refused_call(call, *request), answer.error());
          }
          reactor->Finish(answer ? grpc::Status::OK : to_status(answer.error()));
        });
    return reactor;
  }

  template <class Request, class Message, class Method>
  grpc::ServerWriteReactor<Message>* stream(Context* context, const Request* request, Call call,
                                            Method method) {
    auto pass = admit(*context, call, true);
    if (!pass) return new Refuser<Message>(pass.error());
    auto opened = (methods_->*method)(pass->caller, *request);
    if (!opened) {
      refusals_.refused(pass->caller, refused_call(call, *request), opened.error());
      return new Refuser<Message>(opened.error());
    }
    return new Puller<Message>(
        std::move(*pass), std::move(*opened),
        [this, what = refused_call(call, *request)](const Caller& caller, const base::Error& error) {
          refusals_.refused(caller, what, error);
        });
  }

  Gate& gate_;
  Methods* methods_;  // null: nobody is admitted
  RefusalLog& refusals_;
};

}  // namespace

struct RpcServer::Impl {
  Impl(Gate& gate, Methods* methods, RefusalLog& refusals) : service(gate, methods, refusals) {}

  Service service;
  std::unique_ptr<grpc::Service> workers;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Listener> listener;  // hands on to the server, hence ends before it
};

RpcServer::RpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RpcServer::~RpcServer() {
  stop(0);
}

base::Result<std::unique_ptr<RpcServer>> RpcServer::start(const RpcOptions& options, Gate& gate,
                                                          Methods* methods, RefusalLog& refusals,
                                                          dispatch::WorkerPool* workers) {
  auto impl = std::make_unique<Impl>(gate, methods, refusals);
  if (workers != nullptr) {
    impl->workers =
        worker_service(gate, *workers, [&refusals](const Caller& caller, const base::Error& error) {
          refusals.refused(caller, {.call = Call::work}, error);
        });
  }
  auto listener = Listener::open({.socket = options.socket, .tcp = options.tcp});
  if (!listener) return std::unexpected(listener.error());
  impl->listener = std::move(*listener);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 128);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.RegisterService(&impl->service);
  if (impl->workers) builder.RegisterService(impl->workers.get());
  impl->server = builder.BuildAndStart();
  if (!impl->server) return base::fail(Code::internal, "the RPC server does not start");
  impl->listener->start([server = impl->server.get()](base::UniqueFd fd) {
    grpc::AddInsecureChannelFromFd(server, fd.release());
  });
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(impl)));
}

void RpcServer::stop(std::int64_t grace_ms) {
  impl_->listener.reset();
  if (impl_->server)
    impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
}

}  // namespace sandglass::engine::api
