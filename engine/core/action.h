// Actions: what a decision asks the world to do once it is durable. All of them are asynchronous activity
// calls with a token; the answer comes back as ActionFinished to the stream that asked. Replay drops them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/codes.h"
#include "engine/core/payload.h"
#include "engine/core/token.h"

namespace sandglass::engine::core {

enum class ActionKind : std::uint8_t {
  start,    // carry out activity `name`
  cancel,   // end what was started under the same path and token; its completion may still come
  effect,   // perform an operation whose intent is in this record (J16)
  reserve,  // an operation waits for a place in sandglass-effect; answered when it may be intended
  settled,  // the answer that came with `receipt` under this path and token is durable: forget it
};

struct Action {
  ActionKind kind = ActionKind::start;
  std::string name;  // registered activity ("exec", "sandbox.create") or tool
  std::string path;  // identity inside the stream: lexical step path, sandbox id, …
  Token token;
  std::string
      key;  // stable over attempts and replays (hex of J17's key for operations; else stream text + path)
  PayloadRef input;
  SlotPtr input_slot;                  // set when the bytes are at hand; else they are read from `input`
  std::int64_t start_to_close_ms = 0;  // 0: no limit
  std::int64_t not_before_ms = 0;      // wall time; 0: at once
  std::int64_t permit_ms = 0;          // effects: may start only this long after the intent was submitted

  // Of starts that a process elsewhere may carry out (engine/dispatch/worker_pool.h).
  std::string queue;   // empty: the activity's name
  std::string tenant;  // whose work it is
  std::int32_t priority = 0;
  std::int64_t scheduled_ms = 0;          // wall time since which this attempt waits
  std::int64_t schedule_to_start_ms = 0;  // 0: no limit
  std::int64_t heartbeat_ms = 0;          // 0: none are asked for
  std::int64_t close_by_ms = 0;           // wall time; 0: no limit
  PayloadRef progress;                    // what an earlier attempt last told of its progress
};

enum class Outcome : std::uint8_t {
  done,
  not_done,  // certainly did not happen; `code` and `message` say why
  unknown,   // may have happened
};

/// How a platform failure is told from a failure of what the user asked for (O7).
enum class FailureSide : std::uint8_t { user, platform };

/// The world's answer to an action, on its way to the stream. Also a command of every decider that acts.
struct ActionFinished {
  ActionKind kind = ActionKind::start;
  std::string path;
  Token token;
  Outcome outcome = Outcome::done;
  Payload result;  // done: the result; else optional details
  base::Code code = base::Code::ok;
  FailureSide side = FailureSide::user;
  bool retryable = false;
  std::string message;
  std::string type;      // of a failure: the activity's own name for it, which a policy may name
  Payload progress;      // of a failure: what the attempt last told of its progress
  bool receipt = false;  // whoever answered keeps the answer until it is told `settled`
};

}  // namespace sandglass::engine::core
