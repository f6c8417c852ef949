// Questions to workflow code: it is shown what it has not seen, or built anew, and says something about its
// state. Nothing is recorded. The question stands at the front of its stream's queue meanwhile, so that
// nothing comes between an answer and what is decided because of it.
//
//   ask_code ─▶ turns_to_show ─▶ Activator ─▶ said ─▶ the front of the queue goes on with the answer

#include <utility>

#include "engine/shard/shard.h"

namespace sandglass::engine::shard {

/// True: stream.said has the answer. False: wait for it.
bool Shard::ask_code(Resident& stream, const core::Question& question) {
  if (stream.asking == Lookup::found) {
    stream.asking = Lookup::none;
    return true;
  }
  const std::uint64_t head = stream.fold->head().seq;
  if (head == 0 || !stream.fold->kind().activates()) {
    stream.said =
        base::fail(base::Code::not_found, stream.stream.text() + " has no workflow that could be asked");
    return true;
  }
  ++counters_.questions;
  stream.asking = Lookup::waiting;
  turns_to_show(
      stream, [this, &stream, head, question](base::Result<std::vector<core::TurnView>> turns, bool rebuild) {
        if (!turns) return said(stream, std::unexpected(turns.error()));
        ports_.activator.submit({.stream = stream.stream,
                                 .head = head,
                                 .state = stream.fold->state(),
                                 .turns = std::move(*turns),
                                 .rebuild = rebuild,
                                 .question = question});
      });
  return false;
}

void Shard::said(Resident& stream, base::Result<std::string> said) {
  stream.said = std::move(said);
  stream.asking = Lookup::found;
  const std::uint64_t head = stream.fold->head().seq;
  if (config_.evict_always) ports_.activator.evict(stream.stream);
  if (ports_.activator.is_live_at(stream.stream, head)) {
    stream.seen_seq = head;
    streams_.coroutine_used(stream, head);
  } else {
    ports_.activator.evict(stream.stream);
    streams_.coroutine_gone(stream);
  }
  forget_turns(stream);
  wake(stream);
}

Shard::Step Shard::step(Resident& stream, QuestionEnvelope& envelope, const Now&) {
  if (!ask_code(stream, envelope.question)) return Step::waits;
  hold(stream, [on_said = std::move(envelope.on_said),
                said = *std::exchange(stream.said, std::nullopt)](bool durable) mutable {
    if (durable) return on_said(std::move(said));
    on_said(base::fail(base::Code::outcome_unknown, "the engine lost its journal; ask again"));
  });
  return Step::done;
}

}  // namespace sandglass::engine::shard
