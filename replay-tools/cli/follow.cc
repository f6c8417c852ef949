#include "replay-tools/cli/follow.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "replay-tools/cli/approval_text.h"
#include "replay-tools/cli/interrupts.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

constexpr std::size_t kLongestWord = 2000;
constexpr int kLookAgainMs = 500;
constexpr int kApprovalAppearsMs = 10'000;
constexpr int kApprovalLookMs = 50;
constexpr int kSuccessorAppearsMs = 30'000;

std::string status_word(api::RunStatus status) {
  switch (status) {
    case api::RUN_STATUS_RUNNING:
      return paint(Colour::blue, "running");
    case api::RUN_STATUS_COMPLETED:
      return paint(Colour::green, "completed");
    case api::RUN_STATUS_FAILED:
      return paint(Colour::red, "failed");
    case api::RUN_STATUS_CANCELLED:
      return paint(Colour::yellow, "cancelled");
    case api::RUN_STATUS_TERMINATED:
      return paint(Colour::yellow, "terminated");
    case api::RUN_STATUS_CONTINUED:
      return paint(Colour::blue, "continued");
    case api::RUN_STATUS_STUCK:
      return paint(Colour::red, "stuck");
    default:
      return "unknown";
  }
}

/// Events that say something to a person; the others are seen by `sandglass debug`.
bool is_shown(const api::EventView& event) {
  static const std::set<std::string> kQuiet = {"ActivationTaken", "ActivationCut",  "SignalTaken",
                                               "TimerStarted",    "TimerCancelled", "PatchMarked"};
  return !kQuiet.contains(event.type());
}

class Follower {
 public:
  Follower(Session& session, client::Client& client, FollowOptions options)
      : session_(session),
        client_(client),
        options_(std::move(options)),
        terminal_(isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {}

  Outcome run() {
    Interrupts interrupts([this](int number) { interrupted(number); });
    interrupts_ = &interrupts;
    for (;;) {
      api::FollowRunRequest request;
      request.set_run_id(options_.run_id);
      request.set_after_seq(options_.after_seq);
      auto status = client_.follow_run(
          request, [this](const api::RunUpdate& update) { return take(update); }, stop_,
          [this](bool away) { engine_away(away); });
      if (detached_) return detached();
      if (!status && begins_soon(status.error())) continue;
      if (!status) return std::unexpected(status.error());
      if (auto known = know_end(); !known) return std::unexpected(known.error());
      if (last_.status() != api::RUN_STATUS_CONTINUED) return ended();
      if (auto next = go_on(); !next) return std::unexpected(next.error());
    }
  }

 private:
  /// Whoever begins behind a run's last record was shown none that says how it ended.
  base::Status know_end() {
    if (last_.run_id() == options_.run_id) return {};
    api::GetRunRequest request;
    request.set_run_id(options_.run_id);
    auto run = client_.get_run(request);
    if (!run) return std::unexpected(run.error());
    last_ = std::move(*run->mutable_summary());
    return {};
  }

  /// The run goes on as another one, which is followed from its start.
  base::Status go_on() {
    api::GetRunRequest request;
    request.set_run_id(options_.run_id);
    const auto run = client_.get_run(request);
    if (!run) return std::unexpected(run.error());
    {
      const std::lock_guard lock(id_mutex_);
      options_.run_id = run->continued_as();
    }
    options_.after_seq = 0;
    if (!session_.json()) print_line("it goes on as " + paint(Colour::bold, safe(options_.run_id)));
    waited_ms_ = 0;
    return {};
  }

  /// The run that another one goes on as begins by a message, a moment after that one's last record.
  bool begins_soon(const base::Error& error) {
    if (error.code != base::Code::not_found || waited_ms_ >= kSuccessorAppearsMs) return false;
    pollfd polled{interrupts_->fd(), POLLIN, 0};
    poll(&polled, 1, kApprovalLookMs);
    waited_ms_ += kApprovalLookMs;
    return true;
  }

  bool take(const api::RunUpdate& update) {
    last_ = update.summary();
    if (session_.json()) {
      print_line(to_json(update));
    } else {
      for (const auto& event : update.events()) {
        if (is_shown(event)) print_event(update, event);
      }
    }
    for (const auto& event : update.events()) {
      const bool question = event.type() == "OperationUnknown" || event.type() == "OperationProbed";
      if (event.type() == "ExchangeOpened" && event.name() == "approvals") waiting_for_approval();
      if (question && last_.questions() > 0) waiting_for_approval();
    }
    return last_.status() != api::RUN_STATUS_STUCK || !options_.cancel_on_interrupt;
  }

  void print_event(const api::RunUpdate& update, const api::EventView& event) {
    if (start_ms_ == 0) start_ms_ = update.summary().started_ms();
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), "%8.3f s",
                  static_cast<double>(update.time_ms() - start_ms_) / 1000);
    std::string line = paint(Colour::dim, time.data()) + "  " + safe(event.type());
    if (!event.path().empty()) line += " " + paint(Colour::bold, safe(event.path()));
    if (!event.text().empty()) line += "  " + safe_block(event.text(), std::string(12, ' '));
    print_line(line);
  }

  void engine_away(bool away) {
    if (session_.json()) return;
    print_line(paint(Colour::yellow, away ? "the engine is away; waiting for it" : "the engine is back"));
  }

  /// The approvals stream learns of the request by a message, a moment after the run's own record. It may
  /// have been decided since: then there is nothing to offer.
  void waiting_for_approval() {
    api::ListApprovalsRequest request;
    request.set_run_id(options_.run_id);
    request.set_ended_too(true);
    for (int waited = 0; waited < kApprovalAppearsMs; waited += kApprovalLookMs) {
      const auto approvals = client_.list_approvals(request);
      if (!approvals) return;
      bool is_new = false;
      for (const auto& approval : approvals->approvals()) is_new = offer(approval) || is_new;
      pollfd polled{interrupts_->fd(), POLLIN, 0};
      if (is_new || poll(&polled, 1, kApprovalLookMs) != 0) return;
    }
  }

  /// False: it is known already.
  bool offer(const api::ApprovalView& approval) {
    if (!offered_.insert(approval.approval_id()).second) return false;
    if (approval.status() != "waiting") return true;
    if (session_.json()) {
      print_line(to_json(approval));
      return true;
    }
    std::fputs(approval_text(session_, approval).c_str(), stdout);
    if (approval.kind() == "outcome") return true;  // its text says how to answer
    if (terminal_ && options_.ask_approvals) {
      ask(approval);
      return true;
    }
    print_line("  decide with: " + session_.hint("approve " + approval.approval_id() + " --as approver"));
    print_line("  or:          " + session_.hint("deny " + approval.approval_id() + " --as approver"));
    return true;
  }

  void ask(const api::ApprovalView& approval) {
    auto approver = session_.connect("approver", 10'000);
    if (!approver) {
      print_line("  no token to decide with here: " + safe(approver.error().message));
      return;
    }
    // What was typed before the question was there is no answer to it.
    tcflush(STDIN_FILENO, TCIFLUSH);
    std::fputs(paint(Colour::bold, "Approve? [y/n] ").c_str(), stdout);
    std::fflush(stdout);
    const int answer = read_answer(approval.approval_id());
    if (answer == 0) return;
    api::DecideRequest decide;
    decide.set_request_id(client::new_request_id());
    decide.set_approval_id(approval.approval_id());
    decide.set_approve(answer == 'y');
    decide.set_arguments_digest(approval.arguments_digest());
    const auto decided = (*approver)->decide(decide);
    if (!decided) print_line("  " + safe(decided.error().message));
  }

  /// 'y', 'n', or 0 when somebody else decided or Ctrl-C came meanwhile.
  int read_answer(const std::string& id) {
    for (;;) {
      std::array<pollfd, 2> polled = {{{STDIN_FILENO, POLLIN, 0}, {interrupts_->fd(), POLLIN, 0}}};
      if (poll(polled.data(), polled.size(), 4 * kLookAgainMs) < 0) continue;
      if (polled[1].revents != 0) return 0;
      if (polled[0].revents != 0) {
        std::array<char, 64> line{};
        const auto got = read(STDIN_FILENO, line.data(), line.size());
        if (got <= 0) return 0;
        if (line[0] == 'y' || line[0] == 'Y') return 'y';
        if (line[0] == 'n' || line[0] == 'N') return 'n';
        std::fputs("Please answer y or n: ", stdout);
        std::fflush(stdout);
        continue;
      }
      api::ListApprovalsRequest request;
      request.set_run_id(options_.run_id);
      const auto waiting = client_.list_approvals(request);
      if (!waiting) continue;
      bool there = false;
      for (const auto& approval : waiting->approvals()) there = there || approval.approval_id() == id;
      if (!there) {
        print_line("\n  it was decided elsewhere");
        return 0;
      }
    }
  }

  /// On the thread of the interrupts.
  void interrupted(int number) {
    if (options_.cancel_on_interrupt && number == 1) {
      std::fputs("\ncancelling; waiting for clean-up (Ctrl-C again leaves it to the engine)\n", stderr);
      api::CancelRunRequest cancel;
      cancel.set_request_id(client::new_request_id());
      {
        const std::lock_guard lock(id_mutex_);
        cancel.set_run_id(options_.run_id);
      }
      cancel.set_reason("the command was interrupted");
      const auto cancelled = client_.cancel_run(cancel);
      if (!cancelled) std::fprintf(stderr, "sandglass: %s\n", safe(cancelled.error().message).c_str());
      return;
    }
    detached_ = true;
    stop_.stop();
  }

  Outcome detached() {
    if (!session_.json()) {
      print_line(std::string("\ndetached; ") +
                 (options_.cancel_on_interrupt ? "the engine finishes the clean-up" : "the run goes on") +
                 ". Watch it with: " + session_.hint("watch " + options_.run_id));
    }
    return base::Exit::detached;
  }

  /// What the run itself says about its end: why it failed, or its result's "message".
  std::string last_word() {
    api::GetRunRequest request;
    request.set_run_id(options_.run_id);
    const auto run = client_.get_run(request);
    if (!run) return {};
    std::string word = run->error();
    if (const auto result = nlohmann::json::parse(run->result(), nullptr, false); result.is_object()) {
      const auto message = result.find("message");
      if (word.empty() && message != result.end() && message->is_string()) word = message->get<std::string>();
    }
    while (word.ends_with('\n')) word.pop_back();
    if (word.size() > kLongestWord) word = word.substr(0, kLongestWord) + "…";
    return word.empty() ? "" : ": " + safe_block(word, "  ");
  }

  Outcome ended() {
    if (session_.json()) return exit_of(last_);
    std::string line = safe(options_.run_id) + " " + status_word(last_.status());
    if (last_.closed_ms() != 0) line += " after " + show_duration(last_.closed_ms() - last_.started_ms());
    if (last_.error_code() != 0) {
      const auto code = static_cast<base::Code>(last_.error_code());
      line += ": " + std::to_string(last_.error_code()) + " " + std::string(base::title_of(code));
    }
    print_line(line + last_word());
    if (last_.status() == api::RUN_STATUS_STUCK) {
      print_line("see why with: " + session_.hint("show " + options_.run_id));
    }
    return exit_of(last_);
  }

  Session& session_;
  client::Client& client_;
  FollowOptions options_;                // of the run that is followed now
  int waited_ms_ = kSuccessorAppearsMs;  // for that run to begin
  std::mutex id_mutex_;                  // of its id, which the thread of the interrupts reads
  const bool terminal_;
  client::Stop stop_;
  Interrupts* interrupts_ = nullptr;
  api::RunSummary last_;
  std::set<std::string> offered_;
  std::int64_t start_ms_ = 0;
  std::atomic<bool> detached_{false};
};

}  // namespace

base::Exit exit_of(const api::RunSummary& summary) {
  switch (summary.status()) {
    case api::RUN_STATUS_COMPLETED:
      return base::Exit::ok;
    case api::RUN_STATUS_CANCELLED:
    case api::RUN_STATUS_TERMINATED:
      return base::Exit::run_cancelled;
    case api::RUN_STATUS_STUCK:
      return base::Exit::run_stuck;
    case api::RUN_STATUS_FAILED:
      return base::exit_for_failed_run(static_cast<base::Code>(summary.error_code()));
    default:
      return base::Exit::internal;
  }
}

Outcome follow(Session& session, client::Client& client, const FollowOptions& options) {
  return Follower(session, client, options).run();
}

}  // namespace sandglass::replay_tools::cli
