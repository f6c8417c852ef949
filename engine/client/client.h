// A client of the engine: connect, call, follow, upload a tree. Links no engine.
//
// Ownership: a Client owns its connection. Thread rule: calls may be made from several threads.
// Errors: what the engine said, with its code; engine_unreachable when nobody answers. A call that may be
// repeated (reads, and everything with a request id) is repeated for `retry_for_ms` while the engine is away:
// an engine that is killed and restarted meanwhile carries it out once (J19).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "schemas/sandglass/v1/admin.pb.h"
#include "schemas/sandglass/v1/approval.pb.h"
#include "schemas/sandglass/v1/content.pb.h"
#include "schemas/sandglass/v1/history.pb.h"
#include "schemas/sandglass/v1/run.pb.h"
#include "schemas/sandglass/v1/schedule.pb.h"

namespace sandglass::engine::client {

namespace api = ::sandglass::v1;

struct ConnectOptions {
  std::string socket;   // path of the engine's Unix socket
  std::string address;  // "127.0.0.1:7233" instead of it
  std::string token;    // bearer token; empty: none is sent
  std::int64_t retry_for_ms = 30'000;
};

/// Ends a stream from another thread, also before it began.
class Stop {
 public:
  void stop();
  bool stopped() const { return stopped_.load(); }

 private:
  friend class StopScope;
  std::mutex mutex_;
  std::function<void()> cancel_;
  std::atomic<bool> stopped_{false};
};

/// False ends the stream.
template <class Message>
using Receiver = std::function<bool(const Message&)>;

class Client {
 public:
  explicit Client(ConnectOptions options);
  ~Client();

  /// One try with a short deadline, for "does somebody answer?".
  base::Result<api::StatusReply> ping(std::int64_t timeout_ms);

  base::Result<api::StartRunReply> start_run(const api::StartRunRequest& request);
  base::Result<api::ListRunsReply> list_runs(const api::ListRunsRequest& request);
  /// All parts of it, one call after another.
  base::Result<std::uint64_t> count_runs(api::CountRunsRequest request);
  base::Result<api::RunDetail> get_run(const api::GetRunRequest& request);
  base::Result<api::CommandReply> signal_run(const api::SignalRunRequest& request);
  base::Result<api::QueryRunReply> query_run(const api::QueryRunRequest& request);
  base::Result<api::CommandReply> cancel_run(const api::CancelRunRequest& request);
  base::Result<api::CommandReply> terminate_run(const api::TerminateRunRequest& request);
  base::Result<api::CommandReply> resume_run(const api::ResumeRunRequest& request);
  base::Result<api::ListApprovalsReply> list_approvals(const api::ListApprovalsRequest& request);
  base::Result<api::CommandReply> decide(const api::DecideRequest& request);
  base::Result<api::DescribeJournalReply> describe_journal();
  base::Result<api::ListArtifactsReply> list_artifacts(const api::ListArtifactsRequest& request);
  base::Result<api::CommandReply> create_schedule(const api::CreateScheduleRequest& request);
  base::Result<api::CommandReply> update_schedule(const api::UpdateScheduleRequest& request);
  base::Result<api::CommandReply> pause_schedule(const api::ScheduleRequest& request);
  base::Result<api::CommandReply> resume_schedule(const api::ScheduleRequest& request);
  base::Result<api::CommandReply> delete_schedule(const api::ScheduleRequest& request);
  base::Result<api::CommandReply> trigger_schedule(const api::ScheduleRequest& request);
  base::Result<api::CommandReply> backfill_schedule(const api::BackfillScheduleRequest& request);
  base::Result<api::ScheduleDetail> get_schedule(const api::GetScheduleRequest& request);
  base::Result<api::ListSchedulesReply> list_schedules(const api::ListSchedulesRequest& request);
  base::Result<api::CommandReply> create_token(const api::CreateTokenRequest& request);
  base::Result<api::CommandReply> revoke_token(const api::RevokeTokenRequest& request);
  base::Result<api::ListTokensReply> list_tokens();
  base::Result<api::StatusReply> status(bool checks = false);

  /// Durable records of a run after `request.after_seq`, each once and in order, over restarts of the engine.
  /// Returns when the run has closed, the receiver has had enough (ok), or `stop` was used (cancelled).
  /// `away` is told when the engine stops (true) and begins again (false) to answer.
  base::Status follow_run(api::FollowRunRequest request, const Receiver<api::RunUpdate>& receiver, Stop& stop,
                          const std::function<void(bool)>& away = {});
  /// What becomes of an update, over restarts of the engine: that it is accepted, once, then its answer.
  /// Returns as follow_run does.
  base::Status update_run(const api::UpdateRunRequest& request, const Receiver<api::UpdateProgress>& receiver,
                          Stop& stop);
  /// Ends with engine_unreachable where the connection breaks in between.
  base::Status read_history(const api::ReadHistoryRequest& request,
                            const Receiver<api::HistoryRecord>& receiver);
  base::Status read_order(const api::ReadOrderRequest& request, const Receiver<api::HistoryRecord>& receiver);
  /// The checkpoint stays while `receiver` works; the call ends with it.
  base::Status hold_checkpoint(const Receiver<api::Checkpoint>& receiver);
  base::Status get_artifact(const api::GetArtifactRequest& request,
                            const Receiver<api::ContentPart>& receiver);

  /// Sends the files below `folder`, read as this process. Symlinks travel as such and are never followed;
  /// what is neither file, folder nor symlink is an error (file_unreadable), as is a file that changes while
  /// it is read.
  base::Result<api::UploadTreeReply> upload_tree(const std::string& folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A fresh request id: 16 random bytes in hex.
std::string new_request_id();

}  // namespace sandglass::engine::client
