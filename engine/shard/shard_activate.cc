// Pass 2: workflow code answers, and its output is decided into the record that caused it (J12).
//
//   open_turn ─▶ live coroutine? ── yes ─▶ turns it has not seen ─┐
//                     └─ no ─▶ turns since the restart point ─────┴─▶ Activator ─▶ take_answer ─▶ finish_turn
//
//   answer                   what becomes of it
//   nothing                  the record closes as it is
//   output                   decided into the open record; if the batch went without it, into a record of its
//   own that
//                            names the turn's first (late); if it does not fit, in pieces into several (J2)
//   an error, or an output   ActivationFailed is decided instead: the stream parks itself as stuck (E5)
//   that is refused

#include <algorithm>
#include <utility>

#include "engine/base/log.h"
#include "engine/shard/shard.h"

namespace sandglass::engine::shard {
namespace {

/// Workflow code that answers each activation with work that makes it runnable at once is stopped here.
constexpr std::uint32_t kMaxRounds = 1000;

}  // namespace

void Shard::open_turn(Resident& stream, std::unique_ptr<RecordInMaking> record, std::uint64_t first_seq) {
  stream.open = std::make_unique<OpenTurn>();
  stream.open->first_seq = first_seq;
  if (record != nullptr) {
    stream.open->record = std::move(record);
    open_turns_.push_back(&stream);
    auto& since = batches_.open().waits_since;
    if (!since) since = now_.monotonic_ns;
  }
  request_activation(stream);
}

void Shard::request_activation(Resident& stream) {
  OpenTurn& open = *stream.open;
  open.request_head = 0;
  ++counters_.activations;
  turns_to_show(stream, [this, &stream](base::Result<std::vector<core::TurnView>> turns, bool rebuild) {
    if (!turns) return take_answer(stream, std::unexpected(turns.error()), now_);  // stuck, alone (E14)
    if (rebuild) stream.open->shown = 0;
    send_request(stream, std::move(*turns), rebuild);
  });
}

/// The closed turns that workflow code needs: those that its live coroutine has not seen, or all since the
/// restart point. They may have to be read; a damaged one is an error. The stream is in use until then.
void Shard::turns_to_show(Resident& stream, ShowFn show) {
  if (!config_.evict_always && stream.coroutine_head != 0 &&
      ports_.activator.is_live_at(stream.stream, stream.coroutine_head)) {
    std::vector<core::TurnView> turns;
    for (const core::TurnView& turn : stream.recent) {
      if (turn.info.seq > stream.seen_seq) turns.push_back(turn);
    }
    return show(std::move(turns), false);
  }
  ++counters_.rebuilds;
  streams_.coroutine_gone(stream);
  const std::uint64_t restart =
      std::max<std::uint64_t>(1, ports_.activator.restart_point(*stream.fold->state()));
  const std::uint64_t durable = stream.durable_seq;
  // Meanwhile `recent` only grows: an open record may close without its answer while we read.
  const auto newer = [&stream, durable, restart](std::vector<core::TurnView> turns) {
    for (const core::TurnView& turn : stream.recent) {
      if (turn.info.seq > durable && turn.info.seq >= restart) turns.push_back(turn);
    }
    return turns;
  };
  if (restart > durable) return show(newer({}), true);
  ++stream.reads;
  loader_.read_turns(stream.fold->kind(), stream.stream, restart, durable,
                     [this, &stream, newer,
                      show = std::move(show)](base::Result<std::vector<core::TurnView>> turns) mutable {
                       --stream.reads;
                       if (!turns && turns.error().code != base::Code::stream_damaged)
                         return fail(turns.error());
                       if (!turns) return show(std::unexpected(turns.error()), true);
                       show(newer(std::move(*turns)), true);
                     });
}

void Shard::send_request(Resident& stream, std::vector<core::TurnView> turns, bool rebuild) {
  OpenTurn& open = *stream.open;
  open.request_head = stream.fold->head().seq;
  if (open.record != nullptr) {
    ++open.request_head;
    const auto& parts = open.record->views;
    turns.insert(turns.end(), parts.begin() + static_cast<std::ptrdiff_t>(open.shown), parts.end());
    open.shown = parts.size();
  }
  ports_.activator.submit({.stream = stream.stream,
                           .head = open.request_head,
                           .state = stream.fold->state(),
                           .turns = std::move(turns),
                           .rebuild = rebuild});
}

bool Shard::answered(core::ActivationAnswer answer, const Now& now) {
  Resident* stream = streams_.find(answer.stream);
  if (answer.said) {
    if (failure_ || stream == nullptr || stream->asking != Lookup::waiting) return false;
    said(*stream, std::move(*answer.said));
    return true;
  }
  if (failure_ || stream == nullptr || stream->open == nullptr || stream->open->request_head == 0 ||
      stream->open->request_head != answer.head) {
    return false;
  }
  take_answer(*stream, std::move(answer.command), now);
  return true;
}

void Shard::take_answer(Resident& stream, base::Result<core::CommandPtr> output, const Now& now) {
  OpenTurn& open = *stream.open;
  open.again = false;
  if (!output) {
    decide_failure(stream, output.error(), now);
  } else if (*output != nullptr) {
    auto status = decide_output(stream, **output, now);
    if (!status && status.error().code == base::Code::record_too_large) {
      status = decide_pieces(stream, stream.fold->kind().split(**output), now);
    }
    if (!status) decide_failure(stream, status.error(), now);
  }
  if (open.again && ++open.rounds < kMaxRounds) {
    // What the answer caused in the decider is for the code to see at once, in the same turn.
    streams_.coroutine_used(stream, open.request_head);
    return request_activation(stream);
  }
  finish_turn(stream);
}

/// Into the open record, or into a new one if that is closed.
base::Status Shard::decide_output(Resident& stream, const core::AnyCommand& output, const Now& now) {
  OpenTurn& open = *stream.open;
  const bool late = open.record == nullptr;
  if (late) open.record = begin_record(stream, now, {.continues = open.first_seq});
  PartFacts facts;
  const auto status = decide_part(stream, *open.record, output, facts);
  if (!status && late) open.record.reset();
  if (status) open.again = open.again || facts.activate;
  return status;
}

/// Every prefix of the output is legal (J2): the record that is full closes, the next one goes on.
base::Status Shard::decide_pieces(Resident& stream, const std::vector<core::CommandPtr>& pieces,
                                  const Now& now) {
  if (pieces.empty()) {
    return base::fail(base::Code::record_too_large,
                      stream.stream.text() + ": the output of one activation is too large");
  }
  OpenTurn& open = *stream.open;
  for (const core::CommandPtr& piece : pieces) {
    auto status = decide_output(stream, *piece, now);
    if (!status && status.error().code == base::Code::record_too_large && open.record != nullptr) {
      ++counters_.cut;
      close_record(stream, *open.record, true);
      open.record.reset();
      open.shown = 0;
      status = decide_output(stream, *piece, now);
    }
    if (!status) return status;
  }
  return {};
}

void Shard::decide_failure(Resident& stream, base::Error error, const Now& now) {
  base::log(
      base::LogLevel::warning, "activation_failed",
      {{"stream", stream.stream.text()}, {"code", base::name_of(error.code)}, {"reason", error.message}});
  const core::CommandPtr failed = stream.fold->kind().command_from(core::ActivationFailed{std::move(error)});
  if (failed == nullptr) return;
  if (const auto status = decide_output(stream, *failed, now); !status) {
    base::log(base::LogLevel::warning, "activation_failure_refused",
              {{"stream", stream.stream.text()}, {"reason", status.error().message}});
  }
}

void Shard::finish_turn(Resident& stream) {
  OpenTurn& open = *stream.open;
  if (open.record != nullptr) {
    close_record(stream, *open.record, false);
    stream.next_batch = true;  // one activated turn of a stream in a batch
    next_batch_.push_back(&stream);
  }
  std::erase(open_turns_, &stream);
  stream.seen_seq = stream.fold->head().seq;
  if (config_.evict_always) {
    ports_.activator.evict(stream.stream);
    streams_.coroutine_gone(stream);
  } else {
    streams_.coroutine_used(stream, open.request_head);
  }
  stream.open.reset();
  forget_turns(stream);
  wake(stream);
}

/// The batch goes without the answers that are missing: those turns go on in records of later batches.
void Shard::close_late() {
  for (Resident* stream : std::exchange(open_turns_, {})) {
    ++counters_.late;
    close_record(*stream, *stream->open->record, true);
    stream->open->record.reset();
    stream->open->shown = 0;
  }
}

}  // namespace sandglass::engine::shard
