// Reads streams from the view: state (snapshot, then the records after it) and turns (for rebuilding a
// coroutine).
//
//   load ─┬─▶ snapshot row ──────────┐
//         └─▶ newest records (page) ─┴─▶ they reach the snapshot? ── yes ─▶ fold them ─▶ done
//                                                  └── no ─▶ pages forward from the snapshot, folding each ─▶
//                                                  done
//
// Almost always one round trip. Memory is one page, however long the history. At most `max_loads` at once;
// the others wait in line. Thread rule: one thread. Errors: stream_damaged, event_unknown, format_unknown
// (stream_fold.h); io_error.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/ports/activator.h"
#include "engine/fold/stream_fold.h"
#include "engine/shard/view_reads.h"

namespace sandglass::engine::shard {

class Loader {
 public:
  using LoadDone = std::move_only_function<void(base::Result<fold::StreamFold>)>;
  using TurnsDone = std::move_only_function<void(base::Result<std::vector<core::TurnView>>)>;

  Loader(ViewReads& reads, std::size_t max_loads) : reads_(reads), max_loads_(max_loads) {}

  /// The stream as the view has it; seq 0 if it has nothing.
  void load(const fold::AnyKind& kind, const core::StreamId& stream, LoadDone done);
  /// Turns first_seq … last_seq; all of them must be in the view.
  void read_turns(const fold::AnyKind& kind, const core::StreamId& stream, std::uint64_t first_seq,
                  std::uint64_t last_seq, TurnsDone done);
  /// Forgets everything without calling anybody.
  void abandon_all();
  std::size_t loading() const { return running_ + waiting_.size(); }

 private:
  struct Load;
  struct Turns;

  void start(std::shared_ptr<Load> load);
  void first_answers(const std::shared_ptr<Load>& load);
  void read_forward(const std::shared_ptr<Load>& load);
  void finish(const std::shared_ptr<Load>& load, base::Status status);
  void next_page(const std::shared_ptr<Turns>& turns);

  ViewReads& reads_;
  std::size_t max_loads_;
  std::size_t running_ = 0;
  std::deque<std::shared_ptr<Load>> waiting_;
};

}  // namespace sandglass::engine::shard
