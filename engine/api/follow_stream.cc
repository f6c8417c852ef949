#include <memory>
#include <optional>
#include <utility>

#include "engine/api/history_streams.h"
#include "engine/api/record_stream.h"
#include "engine/api/run_access.h"
#include "engine/api/run_text.h"

namespace sandglass::engine::api {

namespace {

/// Records are folded from the first on, so that each update has the run's status after it.
class FollowStream final : public RecordStream<v1::RunUpdate> {
 public:
  FollowStream(const Backend& backend, Caller caller, const v1::FollowRunRequest& request)
      : RecordStream(backend),
        caller_(std::move(caller)),
        run_id_(request.run_id()),
        after_(request.after_seq()) {}

 private:
  void begin() override {
    with_run(
        backend_.engine, caller_, run_id_,
        [self = std::static_pointer_cast<FollowStream>(shared_from_this())](base::Result<RunFacts> facts) {
          if (!facts) return self->give(std::unexpected(facts.error()));
          self->fold_.emplace(*self->backend_.kinds.find(core::StreamKind::run), facts->stream);
          self->read_from(facts->stream, 1);
        });
  }

  base::Status take(const core::StoredRecord& record) override {
    auto turn = fold::read_turn(fold_->kind(), record);
    if (!turn) return std::unexpected(turn.error());
    if (auto applied = fold_->apply(*turn); !applied) return std::unexpected(applied.error());
    if (record.seq > after_) tell(update_of(*turn));
    if (run::is_closed(state().status)) end();
    return {};
  }

  const run::State& state() const {
    return static_cast<const core::StateOf<run::State>&>(*fold_->state()).value;
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

  const Caller caller_;
  const std::string run_id_;
  const std::uint64_t after_;
  std::optional<fold::StreamFold> fold_;
};

}  // namespace

std::shared_ptr<Stream<v1::RunUpdate>> follow_stream(const Backend& backend, const Caller& caller,
                                                     const v1::FollowRunRequest& request) {
  return std::make_shared<FollowStream>(backend, caller, request);
}

}  // namespace sandglass::engine::api
