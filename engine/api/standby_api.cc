#include "engine/api/standby_api.h"

#include "engine/api/methods.h"

namespace sandglass::engine::api {
namespace {

/// Nobody passes the gate, so that none of these is called.
class NoMethods final : public Methods {
 public:
  void start_run(const Caller&, const v1::StartRunRequest&, Answer<v1::StartRunReply> answer) override {
    answer(none());
  }
  void list_runs(const Caller&, const v1::ListRunsRequest&, Answer<v1::ListRunsReply> answer) override {
    answer(none());
  }
  void get_run(const Caller&, const v1::GetRunRequest&, Answer<v1::RunDetail> answer) override {
    answer(none());
  }
  StreamPtr<v1::RunUpdate> follow_run(const Caller&, const v1::FollowRunRequest&) override { return none(); }
  void signal_run(const Caller&, const v1::SignalRunRequest&, Answer<v1::CommandReply> answer) override {
    answer(none());
  }
  void cancel_run(const Caller&, const v1::CancelRunRequest&, Answer<v1::CommandReply> answer) override {
    answer(none());
  }
  void terminate_run(const Caller&, const v1::TerminateRunRequest&,
                     Answer<v1::CommandReply> answer) override {
    answer(none());
  }
  void resume_run(const Caller&, const v1::ResumeRunRequest&, Answer<v1::CommandReply> answer) override {
    answer(none());
  }
  void list_approvals(const Caller&, const v1::ListApprovalsRequest&,
                      Answer<v1::ListApprovalsReply> answer) override {
    answer(none());
  }
  void decide(const Caller&, const v1::DecideRequest&, Answer<v1::CommandReply> answer) override {
    answer(none());
  }
  void describe_journal(const Caller&, const v1::DescribeJournalRequest&,
                        Answer<v1::DescribeJournalReply> answer) override {
    answer(none());
  }
  StreamPtr<v1::HistoryRecord> read_history(const Caller&, const v1::ReadHistoryRequest&) override {
    return none();
  }
  StreamPtr<v1::HistoryRecord> read_order(const Caller&, const v1::ReadOrderRequest&) override {
    return none();
  }
  base::Result<std::shared_ptr<UploadSink>> upload_tree(const Caller&) override { return none(); }
  void list_artifacts(const Caller&, const v1::ListArtifactsRequest&,
                      Answer<v1::ListArtifactsReply> answer) override {
    answer(none());
  }
  StreamPtr<v1::ContentPart> get_artifact(const Caller&, const v1::GetArtifactRequest&) override {
    return none();
  }
  void create_token(const Caller&, const v1::CreateTokenRequest&, Answer<v1::CommandReply> answer) override {
    answer(none());
  }
  void revoke_token(const Caller&, const v1::RevokeTokenRequest&, Answer<v1::CommandReply> answer) override {
    answer(none());
  }
  void list_tokens(const Caller&, const v1::ListTokensRequest&, Answer<v1::ListTokensReply> answer) override {
    answer(none());
  }
  void status(const Caller&, const v1::StatusRequest&, Answer<v1::StatusReply> answer) override {
    answer(none());
  }

 private:
  static std::unexpected<base::Error> none() {
    return base::fail(base::Code::unavailable, "this engine stands by; try again");
  }
};

}  // namespace

StandbyApi::StandbyApi(EnginePort& engine, const base::Clock& clock)
    : gate_({}), methods_(std::make_unique<NoMethods>()), refusals_(engine, clock, {}) {}
StandbyApi::~StandbyApi() = default;

base::Result<std::unique_ptr<StandbyApi>> StandbyApi::start(const RpcOptions& options, EnginePort& engine,
                                                            const base::Clock& clock) {
  std::unique_ptr<StandbyApi> api(new StandbyApi(engine, clock));
  auto started = RpcServer::start(options, api->gate_, *api->methods_, api->refusals_);
  if (!started) return std::unexpected(started.error());
  api->server_ = std::move(*started);
  return api;
}

}  // namespace sandglass::engine::api
