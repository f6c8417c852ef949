// What a sandbox is asked to be: identity, limits, environment, network. Plain values; no I/O.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::sandbox_runtime::provider {

/// Every limit that a template can set (SPEC S3). The number is part of stored and sent data: never reuse
/// one.
enum class LimitKind : std::uint8_t {
  memory = 1,      // bytes
  pids = 2,        // tasks, threads included
  cpu = 3,         // thousandths of one processor
  disk = 4,        // bytes of the writable workspace
  inodes = 5,      // files of the writable workspace
  open_files = 6,  // per process
  output = 7,      // bytes kept per output stream of an exec
  exec_wall = 8,   // milliseconds of one exec
  exec_cpu = 9,    // milliseconds of processor time of one exec
  life = 10,       // milliseconds from create to the end of the sandbox
};
inline constexpr std::array kAllLimits = {
    LimitKind::memory,     LimitKind::pids,   LimitKind::cpu,       LimitKind::disk,     LimitKind::inodes,
    LimitKind::open_files, LimitKind::output, LimitKind::exec_wall, LimitKind::exec_cpu, LimitKind::life};

/// "memory", "pids" … as in template files and messages.
std::string_view name_of(LimitKind kind);
std::optional<LimitKind> limit_of_name(std::string_view name);

/// V10: a required limit that cannot be enforced fails the create; a best-effort one is recorded.
enum class Need : std::uint8_t { required, best_effort };

/// V9: what happens to an exec that reaches a limit. Memory, wall and processor time always end it; pids,
/// disk, inodes and output may. `automatic`: pids end it when it is refused more than kPidsRefusedPerSecond
/// times a second, which no program does that means well; the others are reported. The number is sent: never
/// reuse one.
enum class OnLimit : std::uint8_t { automatic = 0, report = 1, kill = 2 };
inline constexpr std::uint64_t kPidsRefusedPerSecond = 200;

/// Whether a template may choose for this limit.
bool has_on_limit(LimitKind kind);

struct Limit {
  std::uint64_t value = 0;  // in the unit of its kind; never 0
  Need need = Need::required;
  OnLimit on_limit = OnLimit::automatic;

  friend bool operator==(const Limit&, const Limit&) = default;
};

/// Defaults are those of SPEC S3 and Q10.
struct Limits {
  Limit memory{2ULL << 30};
  Limit pids{256};
  Limit cpu{2000};
  Limit disk{2ULL << 30};
  Limit inodes{200'000};
  Limit open_files{1024};
  Limit output{8ULL << 20};
  Limit exec_wall{300'000};
  Limit exec_cpu{600'000};
  Limit life{600'000};

  const Limit& of(LimitKind kind) const;
  Limit& of(LimitKind kind);
  friend bool operator==(const Limits&, const Limits&) = default;
};

/// What one exec may use; part of the sandbox's limits (V9). 0: as much as the template gives one exec.
struct ExecLimits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t pids = 0;
  std::uint64_t wall_ms = 0;
  std::uint64_t cpu_ms = 0;
  std::uint64_t output_bytes = 0;

  friend bool operator==(const ExecLimits&, const ExecLimits&) = default;
};

struct Template {
  std::string name = "default";
  Limits limits;
  /// Names of environment variables that an exec may set beside those of the runtime (PATH, HOME, LANG, proxy
  /// …).
  std::vector<std::string> env_allow;
  /// false: no listener, no proxy variables, nothing but loopback. true: the way out is the proxy listener.
  bool network = false;

  friend bool operator==(const Template&, const Template&) = default;
};

struct SandboxSpec {
  std::string id;  // 1..40 characters of [a-z0-9-]; unguessable; unique for ever within a data folder
  Template tmpl;
};

/// invalid_argument with the field's name unless the spec can be carried out at all.
engine::base::Status check_spec(const SandboxSpec& spec);

/// How well a limit or a protection is provided on this machine (V10, V18).
enum class Strength : std::uint8_t { works, weaker, missing };
std::string_view name_of(Strength strength);

/// One line of `doctor`: the feature, how well it works, what is lost, and the command that repairs it.
struct Feature {
  std::string name;  // "memory", "seccomp", "loop disk" …
  Strength strength = Strength::missing;
  std::string detail;  // by which mechanism, or what is lost
  std::string remedy;  // a command or one sentence; empty when it works
};

struct LimitSupport {
  LimitKind kind = LimitKind::memory;
  Strength strength = Strength::missing;
  std::string detail;
  std::string remedy;
};

/// limit_unenforceable, naming each limit and its remedy, if a required limit is missing.
engine::base::Status check_support(const Limits& limits, const std::vector<LimitSupport>& support);

/// A limit that was reached, read from the kernel's counters or counted by init (output, wall). Never guessed
/// from an exit status (V9).
struct LimitHit {
  LimitKind kind = LimitKind::memory;
  std::uint64_t count = 0;  // how often the kernel says so (1 if it does not count)
  std::string detail;       // "oom_kill", "pids.events max", "statfs: 0 blocks free" …

  friend bool operator==(const LimitHit&, const LimitHit&) = default;
};

}  // namespace sandglass::sandbox_runtime::provider
