#include "engine/api/update_stream.h"

#include <memory>
#include <utility>

#include "engine/api/record_stream.h"
#include "engine/api/requests.h"
#include "engine/api/run_access.h"
#include "engine/api/run_text.h"
#include "engine/run/commands.h"

namespace sandglass::engine::api {

namespace {

/// The command's reply names the record that has accepted the update, whether it was decided now or earlier;
/// number and answer are read from that record on. Records are durable, so nothing is told too early (J5).
class UpdateStream final : public RecordStream<v1::UpdateProgress> {
 public:
  UpdateStream(const Backend& backend, Caller caller, v1::UpdateRunRequest request)
      : RecordStream(backend), caller_(std::move(caller)), request_(std::move(request)) {}

 private:
  std::shared_ptr<UpdateStream> self() { return std::static_pointer_cast<UpdateStream>(shared_from_this()); }

  void begin() override {
    with_run(backend_.engine, caller_, request_.run_id(), [self = self()](base::Result<RunFacts> facts) {
      if (!facts) return self->give(std::unexpected(facts.error()));
      self->submit(*facts);
    });
  }

  void submit(const RunFacts& facts) {
    const core::DigestKey key{backend_.tenant_key, facts.state().history_root};
    auto input = json_payload(key, request_.input());
    if (!input) return give(std::unexpected(input.error()));
    backend_.engine.submit(
        {.target = facts.stream,
         .command = core::make_command<run::Command>(run::Update{request_.name(), *input}),
         .request_id = request_.request_id(),
         .request_digest = digest_of("update", request_),
         .expected_head = std::nullopt,
         .on_reply =
             [self = self(), run = facts.stream](base::Result<shard::Reply> reply) {
               if (!reply) return self->give(std::unexpected(reply.error()));
               self->read_from(run, reply->head);
             },
         .consent = core::Question{
             .kind = core::Question::Kind::consent, .name = request_.name(), .input = input->slot}});
  }

  base::Status take(const core::StoredRecord& record) override {
    auto turn = fold::read_turn(*backend_.kinds.find(core::StreamKind::run), record);
    if (!turn) return std::unexpected(turn.error());
    for (const run::Event& event : static_cast<const core::Events<run::Event>&>(*turn->events).items)
      look_at(event, *turn);
    return {};
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
    if (progress.answered()) end();
    tell(std::move(progress));
  }

  const Caller caller_;
  const v1::UpdateRunRequest request_;
  std::uint64_t number_ = 0;  // 0: its record was not read yet
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
