#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/api/history_streams.h"
#include "engine/api/run_access.h"
#include "engine/api/run_text.h"

namespace sandglass::engine::api {

namespace {

constexpr std::size_t kPage = 64;

/// Asks the loop for the next records when it has none left; so it is never given more than it has asked for,
/// and history and news come the same way. Records are folded from the first on, so that each update has the
/// run's status after it.
class FollowStream final : public Stream<v1::RunUpdate>, public std::enable_shared_from_this<FollowStream> {
 public:
  FollowStream(const Backend& backend, Caller caller, const v1::FollowRunRequest& request)
      : backend_(backend),
        caller_(std::move(caller)),
        run_id_(request.run_id()),
        after_(request.after_seq()) {}

  void next(Answer<std::optional<v1::RunUpdate>> answer) override {
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
    }
    if (!fold_) {
      return with_run(backend_.engine, caller_, run_id_,
                      [self = shared_from_this()](base::Result<RunFacts> facts) {
                        if (!facts) return self->give(std::unexpected(facts.error()));
                        const fold::AnyKind* kind = self->backend_.kinds.find(core::StreamKind::run);
                        self->fold_.emplace(*kind, facts->stream);
                        self->go_on();
                      });
    }
    go_on();
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
  const run::State& state() const {
    return static_cast<const core::StateOf<run::State>&>(*fold_->state()).value;
  }

  void go_on() {
    if (!ready_.empty()) {
      auto update = std::move(ready_.front());
      ready_.pop_front();
      return give(std::optional(std::move(update)));
    }
    if (ended_ || run::is_closed(state().status)) return give(std::optional<v1::RunUpdate>());
    const std::uint64_t follow = backend_.engine.follow(
        fold_->stream(), fold_->head().seq + 1, kPage,
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

  /// On the pool; nothing else touches the fold meanwhile, since no next() comes before the answer.
  void take(base::Result<std::vector<core::StoredRecord>> records) {
    if (!records) return give(std::unexpected(records.error()));
    for (const auto& record : *records) {
      auto turn = fold::read_turn(fold_->kind(), record);
      if (!turn) return give(std::unexpected(turn.error()));
      if (auto applied = fold_->apply(*turn); !applied) return give(std::unexpected(applied.error()));
      if (record.seq > after_) ready_.push_back(update_of(*turn));
      if (run::is_closed(state().status)) {
        ended_ = true;
        break;
      }
    }
    go_on();
  }

  v1::RunUpdate update_of(const fold::ReadTurn& turn) const {
    v1::RunUpdate update;
    update.set_seq(turn.header.seq);
    update.set_time_ms(turn.header.time_ms);
    for (const run::Event& event : static_cast<const core::Events<run::Event>&>(*turn.events).items) {
      fill_event(event, turn, *update.add_events());
    }
    fill_summary(fold_->stream(), run::view::row_of(state()), turn.header.seq, *update.mutable_summary());
    return update;
  }

  void give(base::Result<std::optional<v1::RunUpdate>> update) {
    std::optional<Answer<std::optional<v1::RunUpdate>>> answer;
    {
      const std::lock_guard lock(mutex_);
      answer = std::exchange(answer_, std::nullopt);
    }
    if (answer) (*answer)(std::move(update));
  }

  const Backend& backend_;
  const Caller caller_;
  const std::string run_id_;
  const std::uint64_t after_;
  std::optional<fold::StreamFold> fold_;
  std::deque<v1::RunUpdate> ready_;
  bool ended_ = false;

  std::mutex mutex_;  // of what stop() may meet
  std::optional<Answer<std::optional<v1::RunUpdate>>> answer_;
  std::uint64_t follow_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::shared_ptr<Stream<v1::RunUpdate>> follow_stream(const Backend& backend, const Caller& caller,
                                                     const v1::FollowRunRequest& request) {
  return std::make_shared<FollowStream>(backend, caller, request);
}

}  // namespace sandglass::engine::api
