// Streams that are in memory: state, queue of what waits for a decision, and the turn that is open.
//
//   absent ──first command──▶ loading ──▶ ready ◀──────────────┐
//                               │           │ pass 1: activates │ pass 2: answer taken (or none)
//                               ▼           ▼                   │
//                            damaged       open ────────────────┘      open, batch closed without the answer:
//                            late
//
// While a turn is open nothing else of the stream is decided (J12). A stream without queue, open turn, read
// under way and undurable record may be evicted.
//
// Thread rule: one thread. Ownership: residents have stable addresses until they are evicted.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/core/ports/activator.h"
#include "engine/fold/project.h"
#include "engine/fold/record_maker.h"
#include "engine/fold/stream_fold.h"
#include "engine/shard/due_timers.h"
#include "engine/shard/envelope.h"

namespace sandglass::engine::shard {

struct ReadEnvelope {
  ReadFn on_read;
};
struct QuestionEnvelope {
  core::Question question;
  SaidFn on_said;
};
using Waiting = std::variant<CommandEnvelope, core::ActionFinished, core::Message, DueTimer, ReadEnvelope,
                             QuestionEnvelope>;

/// What becomes of a record once it is durable.
struct AfterDurable {
  std::vector<core::Action> actions;
  std::vector<core::Message> messages;
  std::vector<std::move_only_function<void(bool durable)>> held;
};

/// One record in the making.
struct RecordInMaking {
  explicit RecordInMaking(codec::TurnHeader header) : maker(std::move(header)) {}

  fold::RecordMaker maker;
  std::shared_ptr<core::StreamState> before;  // state before it, once an event changes the kind's own tables
  std::vector<core::TurnView> views;          // its parts as workflow code sees them
  AfterDurable after;
};

/// A turn whose activation has not answered.
struct OpenTurn {
  std::unique_ptr<RecordInMaking> record;  // null: late, its record is closed
  std::uint64_t first_seq = 0;             // of the turn
  std::uint64_t request_head = 0;          // of the request that is out; 0: turns are being read for it
  std::size_t shown = 0;                   // parts of the record that were shown
  bool again = false;                      // the answer itself asked for another activation
  std::uint32_t rounds = 0;
};

/// Looking up a row, or asking workflow code, for the front of the queue.
enum class Lookup : std::uint8_t { none, waiting, found };

/// A request id that was answered by a record which is not durable yet; later the request row has it.
struct RecentRequest {
  base::Hash256 digest;
  std::uint64_t seq = 0;
  core::Payload reply;
};

struct Resident {
  explicit Resident(const core::StreamId& id) : stream(id) {}

  core::StreamId stream;
  std::optional<fold::StreamFold> fold;  // absent while loading
  std::optional<base::Error> damage;
  std::deque<Waiting> queue;
  bool runnable = false;    // stands in the shard's list of streams that may go on
  bool next_batch = false;  // goes on when the open batch is closed
  bool resume = false;      // once loaded, hand out again what was under way when the last owner ended
  std::uint32_t reads = 0;  // reads of the view under way for it

  Lookup lookup = Lookup::none;
  std::optional<std::string> looked_up;  // the row, if there is one
  Lookup asking = Lookup::none;
  std::optional<base::Result<std::string>> said;  // what workflow code answered

  std::unique_ptr<OpenTurn> open;
  std::uint64_t newest_batch = 0;  // with a record of this stream
  std::uint64_t durable_seq = 0;
  /// Turns that are not durable yet, or that a live coroutine has not seen; in order.
  std::deque<core::TurnView> recent;
  std::unordered_map<std::string, RecentRequest> requests;
  /// High-water by source, of sources that were met; absent in it means "look it up".
  std::map<core::StreamId, fold::InboxRow> inbox;

  std::uint64_t coroutine_head = 0;  // of the last request that was answered; 0: there is no coroutine
  std::uint64_t seen_seq = 0;        // what the coroutine has seen or caused

  std::list<Resident*>::iterator age;   // in the table's list, least recently used first
  std::list<Resident*>::iterator live;  // valid while coroutine_head != 0

  /// Something is at work with its turns or its coroutine.
  bool in_use() const { return open != nullptr || asking == Lookup::waiting; }
  bool idle(std::uint64_t durable_batch) const {
    return queue.empty() && open == nullptr && reads == 0 && !runnable && !next_batch &&
           newest_batch <= durable_batch;
  }
};

/// Finds residents, and chooses whom to evict: the least recently used that is idle.
class StreamTable {
 public:
  Resident* find(const core::StreamId& stream);
  /// Made if absent; either way it is now the most recently used.
  Resident& touch(const core::StreamId& stream);
  void erase(Resident& resident);
  void clear();
  template <class Visit>
  void for_each(Visit visit) {
    for (Resident* resident : ages_) visit(*resident);
  }
  std::size_t size() const { return residents_.size(); }

  /// Up to `limit` residents beyond `keep`, oldest first, that are idle.
  std::vector<Resident*> evictable(std::size_t keep, std::uint64_t durable_batch, std::size_t limit);

  void coroutine_used(Resident& resident, std::uint64_t head);
  void coroutine_gone(Resident& resident);
  /// The same for coroutines: those whose streams have no open turn.
  std::vector<Resident*> coroutines_beyond(std::size_t keep, std::size_t limit);

 private:
  std::unordered_map<core::StreamId, std::unique_ptr<Resident>, core::StreamIdHash> residents_;
  std::list<Resident*> ages_;
  std::list<Resident*> lives_;
};

}  // namespace sandglass::engine::shard
