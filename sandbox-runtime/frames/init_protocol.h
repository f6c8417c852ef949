// What sandglass-host and sandglass-init say to each other, one message a packet on a SOCK_SEQPACKET pair: a
// type byte, then the fields in the order of visit(). Packets keep their boundaries when the host dies, so
// its successor sends Reset, throws away what comes before the matching ResetDone, and goes on with what init
// still knows. Init never sends descriptors and drops received ones (ADV-B22). The host trusts nothing that
// init says about limits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox-runtime/frames/wire.h"

namespace sandglass::sandbox_runtime::frames {

constexpr std::uint16_t kInitProtocolVersion = 3;
constexpr std::size_t kMaxPacket = std::size_t{128} << 10;
constexpr std::size_t kChunk = std::size_t{32} << 10;    // data bytes in one packet
constexpr std::size_t kMaxStdin = std::size_t{2} << 20;  // of one exec
constexpr std::size_t kMaxKey = 256;                     // bytes of an exec key
constexpr std::uint64_t kOutputWindow = 512u << 10;      // unacknowledged bytes of one output stream
constexpr std::uint64_t kTransferWindow = 1u << 20;      // unacknowledged bytes of a tree
using Digest = std::array<std::uint8_t, 32>;

enum class PacketType : std::uint8_t {
  // host → init
  reset = 1,
  exec_start = 2,
  exec_go = 3,
  stdin_data = 4,
  window = 5,
  signal = 6,
  forget = 7,
  ping = 8,
  put_open = 9,
  get_open = 10,
  transfer_cancel = 11,
  attach = 12,
  exec_ready = 13,
  // both ways
  chunk = 32,
  ack = 33,
  // init → host
  hello = 64,
  reset_done = 65,
  exec_state = 66,
  output = 67,
  exec_end = 68,
  pong = 69,
  transfer_done = 70,
  refused = 71,
};

struct Reset {
  static constexpr auto kType = PacketType::reset;
  std::uint64_t nonce = 0;
  static void visit(auto& with, auto& m) { with(m.nonce); }
};

/// Makes the child of the exec to come ahead: it sets itself up, passes the barrier (launcher.h) and waits
/// for the ExecStart of this number, whatever becomes of that. One waits at a time; another takes its place.
struct ExecReady {
  static constexpr auto kType = PacketType::exec_ready;
  std::uint64_t number = 0;
  static void visit(auto& with, auto& m) { with(m.number); }
};

/// What lets an exec's child become its command.
enum class Leave : std::uint8_t {
  none = 0,   // it is not asked for: no control groups, no host
  go = 1,     // ExecGo
  given = 2,  // the child that waits for this number has it already; for any other child as `go`
};

/// Starts the command of `key`, or names the exec that it already has. `number` is the host's, never used
/// twice.
struct ExecStart {
  static constexpr auto kType = PacketType::exec_start;
  std::uint64_t number = 0;
  std::string key;
  Digest digest{};
  std::vector<std::string> argv;
  std::vector<std::string> env;    // "NAME=value", all of it
  std::string cwd;                 // relative to /workspace, or absolute
  std::uint64_t stdin_bytes = 0;   // so many follow in StdinData
  std::uint64_t ring_bytes = 0;    // kept of each output stream
  std::uint64_t stream_bytes = 0;  // after so many the command is not slowed for a slow reader any more
  std::uint32_t drain_ms = 0;      // how long output is awaited once the command itself has ended
  std::uint32_t open_files = 0;    // RLIMIT_NOFILE; 0: as inherited
  std::uint32_t processes = 0;     // RLIMIT_NPROC; 0: as inherited
  std::uint32_t cpu_seconds = 0;   // of each process: SIGXCPU, a second later SIGKILL; 0: as inherited
  Leave leave = Leave::none;
  std::string note;  // the host's own; comes back in ExecState
  static void visit(auto& with, auto& m) {
    with(m.number, m.key, m.digest, m.argv, m.env, m.cwd, m.stdin_bytes, m.ring_bytes, m.stream_bytes,
         m.drain_ms, m.open_files, m.processes, m.cpu_seconds, m.leave, m.note);
  }
};

/// The child is in its exec group: let it go on. `ok` false: it must end without having run anything, also
/// one that still waits for its ExecStart.
struct ExecGo {
  static constexpr auto kType = PacketType::exec_go;
  std::uint64_t number = 0;
  bool ok = true;
  static void visit(auto& with, auto& m) { with(m.number, m.ok); }
};

struct StdinData {
  static constexpr auto kType = PacketType::stdin_data;
  std::uint64_t number = 0;
  std::string_view bytes;
  static void visit(auto& with, auto& m) { with(m.number, m.bytes); }
};

/// The reader of `stream` has dealt with everything before offset `taken`; at most kOutputWindow bytes are
/// sent beyond that, not counting bytes that were dropped.
struct Window {
  static constexpr auto kType = PacketType::window;
  std::uint64_t number = 0;
  std::uint8_t stream = 1;
  std::uint64_t taken = 0;
  static void visit(auto& with, auto& m) { with(m.number, m.stream, m.taken); }
};

/// To the exec's own process group; `all`: SIGKILL for everything that can be found without control groups.
struct Signal {
  static constexpr auto kType = PacketType::signal;
  std::uint64_t number = 0;
  std::int32_t signal = 9;
  bool all = false;
  static void visit(auto& with, auto& m) { with(m.number, m.signal, m.all); }
};

struct Forget {
  static constexpr auto kType = PacketType::forget;
  std::uint64_t number = 0;
  static void visit(auto& with, auto& m) { with(m.number); }
};

struct Ping {
  static constexpr auto kType = PacketType::ping;
  std::uint64_t nonce = 0;
  static void visit(auto& with, auto& m) { with(m.nonce); }
};

/// A tree (tree_stream.h) follows in Chunks and becomes visible whole, in the folder `path`, or not at all.
struct PutOpen {
  static constexpr auto kType = PacketType::put_open;
  std::uint64_t id = 0;
  std::string path;
  std::uint64_t max_bytes = 0;
  std::uint64_t max_entries = 0;
  bool while_running = false;  // also while an exec runs
  static void visit(auto& with, auto& m) { with(m.id, m.path, m.max_bytes, m.max_entries, m.while_running); }
};

/// Asks for the tree (or the one file) at `path`. `content` false: digests only.
struct GetOpen {
  static constexpr auto kType = PacketType::get_open;
  std::uint64_t id = 0;
  std::string path;
  bool content = true;
  std::uint64_t max_bytes = 0;
  std::uint64_t max_entries = 0;
  static void visit(auto& with, auto& m) { with(m.id, m.path, m.content, m.max_bytes, m.max_entries); }
};

struct TransferCancel {
  static constexpr auto kType = PacketType::transfer_cancel;
  std::uint64_t id = 0;
  static void visit(auto& with, auto& m) { with(m.id); }
};

/// Sends the exec's output again from these offsets (or from the oldest byte still kept).
struct Attach {
  static constexpr auto kType = PacketType::attach;
  std::uint64_t number = 0;
  std::uint64_t out_offset = 0;
  std::uint64_t err_offset = 0;
  static void visit(auto& with, auto& m) { with(m.number, m.out_offset, m.err_offset); }
};

struct Chunk {
  static constexpr auto kType = PacketType::chunk;
  std::uint64_t id = 0;
  std::string_view bytes;
  static void visit(auto& with, auto& m) { with(m.id, m.bytes); }
};

/// The receiver of a transfer has dealt with so many bytes from its beginning.
struct Ack {
  static constexpr auto kType = PacketType::ack;
  std::uint64_t id = 0;
  std::uint64_t offset = 0;
  static void visit(auto& with, auto& m) { with(m.id, m.offset); }
};

struct Hello {
  static constexpr auto kType = PacketType::hello;
  std::uint16_t version = kInitProtocolVersion;
  static void visit(auto& with, auto& m) { with(m.version); }
};

/// Comes after one ExecState for each exec that is still known; those that wait at the barrier are ended and
/// forgotten.
struct ResetDone {
  static constexpr auto kType = PacketType::reset_done;
  std::uint64_t nonce = 0;
  static void visit(auto& with, auto& m) { with(m.nonce); }
};

enum class ExecPhase : std::uint8_t { waiting = 1, running = 2, ended = 3 };

/// Answers ExecStart and Attach (`asked` = their number) and Reset (`asked` = 0). `number` differs from
/// `asked` when the key has an exec already; the host then attaches to it. Output before the answer to an
/// Attach was meant for an earlier reader.
struct ExecState {
  static constexpr auto kType = PacketType::exec_state;
  std::uint64_t asked = 0;
  std::uint64_t number = 0;
  std::string key;
  Digest digest{};
  ExecPhase phase = ExecPhase::waiting;
  std::uint64_t elapsed_ms = 0;  // since the command was let go
  std::string note;
  static void visit(auto& with, auto& m) {
    with(m.asked, m.number, m.key, m.digest, m.phase, m.elapsed_ms, m.note);
  }
};

/// An empty one after the command's end: nothing follows before this offset or after it.
struct Output {
  static constexpr auto kType = PacketType::output;
  std::uint64_t number = 0;
  std::uint8_t stream = 1;
  std::uint64_t offset = 0;
  std::string_view bytes;
  static void visit(auto& with, auto& m) { with(m.number, m.stream, m.offset, m.bytes); }
};

/// The command has ended and its output is drained or drain_ms have passed. Output that the window held back
/// still follows, up to the totals. Sent again after each Attach to an ended exec.
struct ExecEnd {
  static constexpr auto kType = PacketType::exec_end;
  std::uint64_t number = 0;
  std::int32_t exit_code = -1;  // -1: ended by a signal, or never started
  std::int32_t signal = 0;
  std::int32_t start_errno = 0;  // not 0: execve or what comes before it failed
  std::string start_stage;       // "cwd", "execve" …
  std::uint64_t out_total = 0;
  std::uint64_t err_total = 0;
  std::uint64_t out_dropped = 0;  // bytes that are kept nowhere any more
  std::uint64_t err_dropped = 0;
  std::uint64_t duration_ms = 0;
  bool pipes_open = false;   // something still holds the output open
  std::uint64_t cpu_ns = 0;  // processor time of what had ended by then; 0: control groups count it
  std::uint64_t left = 0;    // processes that the command has left behind; 0: control groups count them
  static void visit(auto& with, auto& m) {
    with(m.number, m.exit_code, m.signal, m.start_errno, m.start_stage, m.out_total, m.err_total,
         m.out_dropped, m.err_dropped, m.duration_ms, m.pipes_open, m.cpu_ns, m.left);
  }
};

struct Pong {
  static constexpr auto kType = PacketType::pong;
  std::uint64_t nonce = 0;
  std::uint32_t live_execs = 0;
  static void visit(auto& with, auto& m) { with(m.nonce, m.live_execs); }
};

struct TransferDone {
  static constexpr auto kType = PacketType::transfer_done;
  std::uint64_t id = 0;
  std::uint16_t code = 0;  // engine/base/codes.def
  std::string message;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  static void visit(auto& with, auto& m) { with(m.id, m.code, m.message, m.entries, m.bytes); }
};

/// Answers an ExecStart that cannot be carried out: nothing was started.
struct Refused {
  static constexpr auto kType = PacketType::refused;
  std::uint64_t number = 0;
  std::uint16_t code = 0;
  std::string message;
  static void visit(auto& with, auto& m) { with(m.number, m.code, m.message); }
};

/// The packet of a message.
template <class Message>
std::string encode(const Message& message) {
  std::string packet;
  Encoder encoder(packet);
  encoder(Message::kType);
  Message::visit(encoder, message);
  return packet;
}

/// The message of a packet, if it is exactly one of this type. Views in it point into `packet`.
template <class Message>
std::optional<Message> decode(std::string_view packet) {
  Message message;
  Decoder decoder(packet);
  auto type = PacketType{};
  decoder(type);
  Message::visit(decoder, message);
  if (type != Message::kType || !decoder.done()) return std::nullopt;
  return message;
}

}  // namespace sandglass::sandbox_runtime::frames
