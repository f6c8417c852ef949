#include "engine/api/update_stream.h"

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/api/requests.h"
#include "engine/api/run_access.h"
#include "engine/api/run_text.h"
#include "engine/run/commands.h"

namespace sandglass::engine::api {

namespace {

constexpr std::size_t kPage = 64;

/// The command's reply names the record that has accepted the update, whether it was decided now or earlier;
/// number and answer are read from that record on. Records are durable, so nothing is told too early (J5).
class UpdateStream final : public Stream<v1::UpdateProgress>,
                           public std::enable_shared_from_this<UpdateStream> {
 public:
  UpdateStream(const Backend& backend, Caller caller, v1::UpdateRunRequest request)
      : backend_(backend), caller_(std::move(caller)), request_(std::move(request)) {}

  void next(Answer<std::optional<v1::UpdateProgress>> answer) override {
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
    }
    if (stream_) return go_on();
    with_run(backend_.engine, caller_, request_.run_id(),
             [self = shared_from_this()](base::Result<RunFacts> facts) {
               if (!facts) return self->give(std::unexpected(facts.error()));
               self->submit(*facts);
             });
  }

  void stop() override {
    std::uint64_t follow = 0;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      follow = std::exchange(follow_, 0);
    }
    if (follow != 0) backend_.engine.cancel_follow(follow);
    give(base::fail(base::Code::cancelled, "the caller went away"));
  }

 private:
  void submit(const RunFacts& facts) {
    const core::DigestKey key{backend_.tenant_key, facts.state().history_root};
    auto input = json_payload(key, request_.input());
    if (!input) return give(std::unexpected(input.error()));
    stream_ = facts.stream;
    backend_.engine.submit(
        {.target = facts.stream,
         .command = core::make_command<run::Command>(run::Update{request_.name(), *input}),
         .request_id = request_.request_id(),
         .request_digest = digest_of("update", request_),
         .expected_head = std::nullopt,
         .on_reply =
             [self = shared_from_this()](base::Result<shard::Reply> reply) {
               if (!reply) return self->give(std::unexpected(reply.error()));
               self->next_seq_ = reply->head;
               self->go_on();
             },
         .consent = core::Question{
             .kind = core::Question::Kind::consent, .name = request_.name(), .input = input->slot}});
  }

  void go_on() {
    if (!ready_.empty()) {
      auto progress = std::move(ready_.front());
      ready_.pop_front();
      return give(std::optional(std::move(progress)));
    }
    if (ended_) return give(std::optional<v1::UpdateProgress>());
    const std::uint64_t follow = backend_.engine.follow(
        *stream_, next_seq_, kPage,
        [self = shared_from_this()](base::Result<std::vector<core::StoredRecord>> records) {
          self->backend_.pool.run(
              [self, records = std::move(records)]() mutable { self->take(std::move(records)); });
        });
    bool too_late = false;
    {
      const std::lock_guard lock(mutex_);
      too_late = stopped_;
      if (!stopped_) follow_ = follow;
    }
    if (too_late) backend_.engine.cancel_follow(follow);
  }

  /// On the pool; no next() comes before the answer.
  void take(base::Result<std::vector<core::StoredRecord>> records) {
    if (!records) return give(std::unexpected(records.error()));
    for (const auto& record : *records) {
      auto turn = fold::read_turn(*backend_.kinds.find(core::StreamKind::run), record);
      if (!turn) return give(std::unexpected(turn.error()));
      next_seq_ = record.seq + 1;
      for (const run::Event& event : static_cast<const core::Events<run::Event>&>(*turn->events).items)
        look_at(event, *turn);
      if (ended_) break;
    }
    go_on();
  }

  void look_at(const run::Event& event, const fold::ReadTurn& turn) {
    v1::UpdateProgress progress;
    if (const auto* accepted = std::get_if<run::UpdateAccepted>(&event)) {
      if (number_ != 0) return;
      number_ = accepted->number;
    } else if (const auto* done = std::get_if<run::UpdateCompleted>(&event)) {
      if (number_ == 0 || done->number != number_) return;
      progress.set_answered(true);
      if (done->code != base::Code::ok) {
        progress.set_error_code(static_cast<std::uint32_t>(done->code));
        progress.set_error(text_in(turn, done->result));
      } else if (!done->result.empty()) {
        progress.set_result(turn.slots.at(done->result.slot)->bytes);
      }
    } else if (const auto* gone = std::get_if<run::UpdateAbandoned>(&event)) {
      if (number_ == 0 || gone->number != number_) return;
      progress.set_answered(true);
      progress.set_error_code(static_cast<std::uint32_t>(base::Code::update_abandoned));
      progress.set_error("the run ended before it was done with the update");
    } else {
      return;
    }
    progress.set_number(number_);
    ended_ = progress.answered();
    ready_.push_back(std::move(progress));
  }

  void give(base::Result<std::optional<v1::UpdateProgress>> progress) {
    std::optional<Answer<std::optional<v1::UpdateProgress>>> answer;
    {
      const std::lock_guard lock(mutex_);
      answer = std::exchange(answer_, std::nullopt);
    }
    if (answer) (*answer)(std::move(progress));
  }

  const Backend& backend_;
  const Caller caller_;
  const v1::UpdateRunRequest request_;
  std::optional<core::StreamId> stream_;
  std::uint64_t next_seq_ = 0;
  std::uint64_t number_ = 0;  // 0: its record was not read yet
  std::deque<v1::UpdateProgress> ready_;
  bool ended_ = false;

  std::mutex mutex_;  // of what stop() may meet
  std::optional<Answer<std::optional<v1::UpdateProgress>>> answer_;
  std::uint64_t follow_ = 0;
  bool stopped_ = false;
};

}  // namespace

StreamPtr<v1::UpdateProgress> update_stream(const Backend& backend, const Caller& caller,
                                            const v1::UpdateRunRequest& request) {
  if (auto checked = check_request_id(request.request_id()); !checked)
    return std::unexpected(checked.error());
  if (request.name().empty() || request.name().size() > kLongestName) {
    return base::fail(base::Code::invalid_argument, "an update needs a name of 1 to 256 bytes");
  }
  return std::make_shared<UpdateStream>(backend, caller, request);
}

}  // namespace sandglass::engine::api
