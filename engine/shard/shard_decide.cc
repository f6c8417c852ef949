// Pass 1: what waits in the streams' queues is decided, one at a time, in order.
//
//   front of the queue   may need first                  then
//   call                 request row, if it has an id;   refuse | repeat the answer | decide
//                        workflow code's consent
//   question             workflow code                   give what it said (J5)
//   completion           -                               decide | drop as stale
//   message              inbox row of its source         drop as duplicate | decide; consumed either way
//   (J18) timer                -                               drop if ended meanwhile | decide; ended either
//   way read                 -                               give the state at the decided head (J5)

#include <algorithm>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/codec/record.h"
#include "engine/shard/shard.h"
#include "engine/view/keys.h"

namespace sandglass::engine::shard {
namespace {

using base::Code;

base::Error unknown_outcome() {
  return {Code::outcome_unknown, "the engine lost its journal; retry with the same request id"};
}

base::Error conflict(const core::StreamId& stream, const std::string& request_id) {
  return {Code::request_conflict, "request id " + request_id + " of " + stream.text() +
                                      " was used with another request; choose another id"};
}

}  // namespace

// ---- loading

void Shard::load(Resident& stream) {
  if (stream.reads > 0) return;  // under way
  const fold::AnyKind* kind = ports_.kinds.find(stream.stream.kind);
  if (kind == nullptr) {
    stream.damage = base::Error{Code::format_unknown, "streams of the kind of " + stream.stream.text() +
                                                          " are not known to this program"};
    return wake(stream);
  }
  ++counters_.loads;
  ++stream.reads;
  loader_.load(*kind, stream.stream, [this, &stream](base::Result<fold::StreamFold> fold) {
    --stream.reads;
    loaded(stream, std::move(fold));
  });
}

/// Nothing of the stream goes on until the process has read it anew.
void Shard::park(Resident& stream, const base::Error& damage) {
  ++counters_.damaged;
  base::log(base::LogLevel::warning, "stream_damaged",
            {{"stream", stream.stream.text()}, {"reason", damage.message}});
  stream.damage = damage;
  if (ports_.on_damaged) ports_.on_damaged(stream.stream, damage);
  wake(stream);
}

void Shard::loaded(Resident& stream, base::Result<fold::StreamFold> fold) {
  if (!fold) {
    // A newer format stops the shard (J4); damage parks this stream alone (E14); anything else is the
    // machine's.
    if (fold.error().code != Code::stream_damaged) return this->fail(fold.error());
    return park(stream, fold.error());
  }
  stream.fold = std::move(*fold);
  const fold::StreamHead& head = stream.fold->head();
  stream.durable_seq = head.seq;
  const fold::AnyKind& kind = stream.fold->kind();
  if (std::exchange(stream.resume, false) && head.in_flight) {
    // Everything loaded is durable, so these may go out at once.
    std::vector<core::Action> actions;
    kind.pending(*stream.fold->state(), {stream.stream, head.seq, 0, batches_.epoch()}, actions);
    for (core::Action& action : actions) ports_.dispatcher.submit(stream.stream, std::move(action));
  }
  if (head.unanswered && kind.activates()) {
    open_turn(stream, nullptr, head.turn_first);
  }
  wake(stream);
}

// ---- the queue

void Shard::run_queue(Resident& stream, const Now& now) {
  if (!stream.fold && !stream.damage) return load(stream);
  if (stream.damage) return refuse_front(stream);
  while (!stream.queue.empty() && stream.open == nullptr && !stream.next_batch &&
         stream.lookup != Lookup::waiting && stream.asking != Lookup::waiting && !failure_) {
    if (batch_full()) return wake(stream);
    const bool call = std::holds_alternative<CommandEnvelope>(stream.queue.front()) ||
                      std::holds_alternative<ReadEnvelope>(stream.queue.front()) ||
                      std::holds_alternative<QuestionEnvelope>(stream.queue.front());
    const Step made = std::visit([&](auto& front) { return step(stream, front, now); }, stream.queue.front());
    if (made == Step::waits) return;
    stream.queue.pop_front();
    --queued_;
    if (call) --waiting_calls_;
  }
}

/// A damaged stream takes nothing: calls are refused, messages and timers keep their rows for the day of its
/// repair.
void Shard::refuse_front(Resident& stream) {
  while (!stream.queue.empty()) {
    Waiting waiting = std::move(stream.queue.front());
    stream.queue.pop_front();
    --queued_;
    if (auto* call = std::get_if<CommandEnvelope>(&waiting)) {
      --waiting_calls_;
      refuse(stream, std::move(call->on_reply), *stream.damage);
    } else if (auto* read = std::get_if<ReadEnvelope>(&waiting)) {
      --waiting_calls_;
      hold(stream, [on_read = std::move(read->on_read), error = *stream.damage](bool) mutable {
        on_read(std::unexpected(std::move(error)));
      });
    } else if (auto* question = std::get_if<QuestionEnvelope>(&waiting)) {
      --waiting_calls_;
      hold(stream, [on_said = std::move(question->on_said), error = *stream.damage](bool) mutable {
        on_said(std::unexpected(std::move(error)));
      });
    }
  }
}

Shard::Step Shard::step(Resident& stream, CommandEnvelope& envelope, const Now& now) {
  if (!envelope.request_id.empty() && stream.asking == Lookup::none) {
    if (const auto answered = answer_repeated(stream, envelope)) return *answered;
  }
  const std::uint64_t head = stream.fold->head().seq;
  if (envelope.expected_head && *envelope.expected_head != head) {
    refuse(stream, std::move(envelope.on_reply),
           {Code::head_moved, stream.stream.text() + " is at record " + std::to_string(head) +
                                  ", the command was made at " + std::to_string(*envelope.expected_head) +
                                  "; read again and decide again"});
    return Step::done;
  }
  if (envelope.consent) {
    if (!ask_code(stream, *envelope.consent)) return Step::waits;
    const auto said = std::exchange(stream.said, std::nullopt);
    if (!*said) {
      refuse(stream, std::move(envelope.on_reply), said->error());
      return Step::done;
    }
  }
  ++counters_.decided;
  Cause cause{.request_id = std::move(envelope.request_id),
              .request_digest = envelope.request_digest,
              .on_reply = std::move(envelope.on_reply)};
  static_cast<void>(decide_turn(stream, envelope.command.get(), std::move(cause), now));
  return Step::done;
}

Shard::Step Shard::step(Resident& stream, core::ActionFinished& finished, const Now& now) {
  if (finished.code == Code::stream_damaged) {
    // Its input could not be read: the stream is damaged, and no step of it has failed.
    park(stream, {Code::stream_damaged, stream.stream.text() + ": " + finished.message});
    return Step::waits;
  }
  ++counters_.decided;
  const fold::AnyKind& kind = stream.fold->kind();
  core::ActionFinished without_result = finished;
  without_result.result = {};
  const core::CommandPtr command = kind.command_from(std::move(finished));
  base::Status status = command == nullptr ? base::Status() : decide_turn(stream, command.get(), {}, now);
  if (!status && status.error().code == Code::record_too_large) {
    without_result.outcome = core::Outcome::not_done;
    without_result.code = Code::record_too_large;
    without_result.message = "the result is too large for a record; keep it in the blob store";
    const core::CommandPtr smaller = kind.command_from(std::move(without_result));
    status = decide_turn(stream, smaller.get(), {}, now);
  }
  if (!status || command == nullptr) ++counters_.stale;
  return Step::done;
}

Shard::Step Shard::step(Resident& stream, core::Message& message, const Now& now) {
  if (const auto dropped = drop_duplicate(stream, message)) return *dropped;
  SG_CRASH_POINT("shard.message_arrived");
  ++counters_.decided;
  const codec::ConsumedMessage consumed{message.source, message.source_seq, message.index, message.closing};
  const bool keeps_inbox =
      !message.closing || fold::partition_of(message.source, config_.partitions) != partition_;
  const core::CommandPtr command =
      stream.fold->kind().command_from(core::MessageReceived{std::move(message)});
  const auto status = decide_turn(stream, command.get(), {.consumed = consumed}, now);
  if (!status) {
    base::log(base::LogLevel::warning, "message_refused",
              {{"stream", stream.stream.text()},
               {"source", consumed.source.text()},
               {"reason", status.error().message}});
  }
  if (keeps_inbox) {
    stream.inbox[consumed.source] = {consumed.source_seq, consumed.index};
  } else {
    stream.inbox.erase(consumed.source);
  }
  return Step::done;
}

Shard::Step Shard::step(Resident& stream, DueTimer& timer, const Now& now) {
  if (!timers_.is_fired(timer)) return Step::done;
  SG_CRASH_POINT("shard.timer_fired");
  ++counters_.decided;
  ++counters_.timers_fired;
  const core::CommandPtr command =
      stream.fold->kind().command_from(core::TimerFired{timer.key, timer.due_ms});
  const auto status =
      decide_turn(stream, command.get(), {.fired = core::TimerChange{timer.key, timer.due_ms}}, now);
  if (!status) ++counters_.stale;
  return Step::done;
}

Shard::Step Shard::step(Resident& stream, ReadEnvelope& envelope, const Now&) {
  StreamRead read{stream.fold->state(), stream.fold->head().seq};
  hold(stream, [on_read = std::move(envelope.on_read), read = std::move(read)](bool durable) mutable {
    if (durable) {
      on_read(std::move(read));
    } else {
      on_read(std::unexpected(unknown_outcome()));
    }
  });
  return Step::done;
}

// ---- requests and messages that came before

/// True: the row is known now, in stream.looked_up. False: wait for it.
bool Shard::look_up(Resident& stream, std::string key) {
  if (stream.lookup == Lookup::found) {
    stream.lookup = Lookup::none;
    return true;
  }
  stream.lookup = Lookup::waiting;
  ++stream.reads;
  ports_.reads.get(std::move(key), [this, &stream](base::Result<std::optional<std::string>> row) {
    --stream.reads;
    if (!row && row.error().code == Code::record_damaged) {
      stream.lookup = Lookup::none;
      return park(stream, {Code::stream_damaged, stream.stream.text() + ": " + row.error().message});
    }
    if (!row) return fail(row.error());
    stream.lookup = Lookup::found;
    stream.looked_up = std::move(*row);
    wake(stream);
  });
  return false;
}

std::optional<Shard::Step> Shard::answer_repeated(Resident& stream, CommandEnvelope& envelope) {
  std::optional<fold::RequestRow> known;
  const auto recent = stream.requests.find(envelope.request_id);
  if (recent != stream.requests.end()) {
    known = fold::RequestRow{recent->second.seq, recent->second.digest};
  } else if (stream.fold->head().seq > 0) {
    if (!look_up(stream, view::request_key(stream.stream, envelope.request_id))) return Step::waits;
    if (stream.looked_up) {
      const auto row = fold::decode_request_row(*stream.looked_up);
      if (!row) {
        refuse(stream, std::move(envelope.on_reply), row.error());
        return Step::done;
      }
      known = *row;
    }
  }
  if (!known) return std::nullopt;
  if (known->digest != envelope.request_digest) {
    refuse(stream, std::move(envelope.on_reply), conflict(stream.stream, envelope.request_id));
    return Step::done;
  }
  ++counters_.repeated;
  if (!envelope.on_reply) return Step::done;
  if (recent == stream.requests.end()) {
    repeat_from_record(stream, known->seq, std::move(envelope.on_reply));
    return Step::done;
  }
  hold(stream, [on_reply = std::move(envelope.on_reply),
                reply = Reply{stream.stream, known->seq, recent->second.reply, true}](bool durable) mutable {
    if (durable) {
      on_reply(std::move(reply));
    } else {
      on_reply(std::unexpected(unknown_outcome()));
    }
  });
  return Step::done;
}

/// The record is durable, since its request row could be read.
void Shard::repeat_from_record(Resident& stream, std::uint64_t seq, ReplyFn on_reply) {
  ports_.reads.get(
      view::record_key(stream.stream, seq), [id = stream.stream, seq, on_reply = std::move(on_reply)](
                                                base::Result<std::optional<std::string>> row) mutable {
        if (!row) return on_reply(std::unexpected(row.error()));
        if (!*row)
          return on_reply(base::fail(Code::stream_damaged, id.text() + ": the answering record is missing"));
        auto record = codec::decode_record(id, seq, **row);
        if (!record) return on_reply(std::unexpected(record.error()));
        const auto header = codec::decode_header(*record);
        if (!header) return on_reply(std::unexpected(header.error()));
        Reply reply{.stream = id, .head = seq, .repeated = true};
        if (header->reply_slot) reply.payload = {record->slots[*header->reply_slot], header->reply_digest};
        on_reply(std::move(reply));
      });
}

std::optional<Shard::Step> Shard::drop_duplicate(Resident& stream, const core::Message& message) {
  auto newest = stream.inbox.find(message.source);
  if (newest == stream.inbox.end()) {
    if (stream.fold->head().seq == 0) return std::nullopt;
    if (!look_up(stream, view::inbox_key(stream.stream, message.source))) return Step::waits;
    if (!stream.looked_up) return std::nullopt;
    const auto row = fold::decode_inbox_row(*stream.looked_up);
    if (!row) {
      park(stream, {Code::stream_damaged, stream.stream.text() + ": " + row.error().message});
      return Step::waits;
    }
    newest = stream.inbox.emplace(message.source, *row).first;
  }
  if (fold::InboxRow{message.source_seq, message.index} > newest->second) return std::nullopt;
  ++counters_.duplicates;
  if (fold::partition_of(message.source, config_.partitions) != partition_) {
    const codec::ConsumedMessage consumed{message.source, message.source_seq, message.index, message.closing};
    hold(stream, [this, consumed, target = stream.stream](bool durable) {
      if (durable) ports_.neighbours.arrived(consumed, target);
    });
  }
  return Step::done;
}

// ---- deciding

std::unique_ptr<RecordInMaking> Shard::begin_record(Resident& stream, const Now& now,
                                                    codec::TurnHeader header) {
  const fold::StreamHead& head = stream.fold->head();
  header.stream = stream.stream;
  header.seq = head.seq + 1;
  header.previous = head.leaf;
  header.time_ms = now.wall_ms;
  header.epoch = batches_.epoch();
  return std::make_unique<RecordInMaking>(std::move(header));
}

/// Decides a command as a part of `record`, and evolves. A refusal changes nothing.
base::Status Shard::decide_part(Resident& stream, RecordInMaking& record, const core::AnyCommand& command,
                                PartFacts& facts) {
  const codec::TurnHeader& header = record.maker.header();
  const fold::AnyKind& kind = stream.fold->kind();
  const core::DecideInput input{stream.stream, header.seq, header.time_ms, header.epoch, now_.calendar()};
  core::Turn turn{.first_slot = static_cast<std::uint32_t>(record.maker.slots().size()),
                  .first_message = static_cast<std::uint32_t>(header.messages.size())};
  if (auto status = kind.decide(*stream.fold->state(), command, input, turn); !status) return status;
  fold::RecordPart part = fold::encode_part(kind, turn);
  if (!record.maker.fits(part)) {
    return base::fail(Code::record_too_large, stream.stream.text() + ": the record would have about " +
                                                  std::to_string(part.bytes / 1024) +
                                                  " KiB, more than the limit of " +
                                                  std::to_string(core::kMaxRecordBytes / 1024) +
                                                  "; keep large content in the blob store");
  }
  if (record.before == nullptr && kind.projects(*turn.events)) record.before = stream.fold->state();
  stream.fold->evolve(*turn.events, header.info());
  record.maker.add(std::move(part));
  if (kind.activates()) record.views.push_back({header.info(), turn.events, record.maker.slots()});
  for (auto& action : turn.actions) record.after.actions.push_back(std::move(action));
  for (auto& message : turn.messages) record.after.messages.push_back(std::move(message));
  facts.activate = turn.activate;
  if (turn.reply) facts.reply = std::move(*turn.reply);
  return {};
}

/// Decides a command as a new turn. What was consumed or has fired is recorded even if the command is refused
/// or null; the status is the decision's.
base::Status Shard::decide_turn(Resident& stream, const core::AnyCommand* command, Cause cause,
                                const Now& now) {
  auto record = begin_record(stream, now,
                             {.request_id = std::move(cause.request_id),
                              .consumed = cause.consumed,
                              .request_digest = cause.request_digest});
  const codec::TurnHeader& header = record->maker.header();
  PartFacts facts;
  base::Status status;
  if (command != nullptr) status = decide_part(stream, *record, *command, facts);
  if (!status && !cause.consumed && !cause.fired) {
    refuse(stream, std::move(cause.on_reply), status.error());
    return status;
  }
  if (cause.fired) {
    const codec::HeaderTimer fired{cause.fired->key, cause.fired->due_ms};
    if (std::ranges::find(header.timers_ended, fired) == header.timers_ended.end()) {
      fold::RecordPart ended;
      ended.timers_ended.push_back(fired);
      record->maker.add(std::move(ended));
    }
  }
  const Reply reply{.stream = stream.stream, .head = header.seq, .payload = facts.reply};
  Held answer;
  if (cause.on_reply) {
    answer = [on_reply = std::move(cause.on_reply), reply](bool durable) mutable {
      if (durable) {
        on_reply(reply);
      } else {
        on_reply(std::unexpected(unknown_outcome()));
      }
    };
  }
  if (record->maker.empty() && header.request_id.empty() && !header.consumed) {
    // Nothing to record: only what was known is answered, and perhaps something is done again.
    hold(stream, [this, id = stream.stream, actions = std::move(record->after.actions),
                  answer = std::move(answer)](bool durable) mutable {
      for (auto& action : actions) {
        if (durable) ports_.dispatcher.submit(id, std::move(action));
      }
      if (answer) answer(durable);
    });
    return status;
  }
  if (!header.request_id.empty()) {
    stream.requests[header.request_id] = {header.request_digest, header.seq, reply.payload};
  }
  if (answer) record->after.held.push_back(std::move(answer));
  if (facts.activate && stream.fold->kind().activates()) {
    const std::uint64_t first_seq = header.seq;
    open_turn(stream, std::move(record), first_seq);
  } else {
    close_record(stream, *record, false);
  }
  return status;
}

void Shard::close_record(Resident& stream, RecordInMaking& record, bool unanswered) {
  fold::StreamFold& fold = *stream.fold;
  const bool in_flight = unanswered || fold.kind().in_flight(*fold.state());
  auto change = codec::InFlightChange::unchanged;
  if (in_flight != fold.head().in_flight) {
    change = in_flight ? codec::InFlightChange::entered : codec::InFlightChange::left;
  }
  fold::MadeRecord made = record.maker.finish(change, unanswered);
  fold.close(made.header, made.leaf);
  if (fold.snapshot_due()) SG_CRASH_POINT("shard.snapshot_due");
  for (const core::TurnView& part : record.views) {
    fold::project_content(fold, *part.events, part.slots, config_.partitions, batches_.open().changes);
  }
  fold::project_record(fold, record.before.get(), made.header, config_.partitions, batches_.open().changes);
  timers_.decided(stream.stream, made.header);
  stream.newest_batch = batches_.open().number;
  for (core::TurnView& view : record.views) stream.recent.push_back(std::move(view));
  ++counters_.records;
  batches_.add(std::move(made), stream, std::move(record.after));
}

}  // namespace sandglass::engine::shard
