// Port to sandboxes for business code (pool, gateway, agent). Asynchronous: every call returns at once and
// answers exactly once, on a thread of the provider; answers must not block. Implemented by
// sandbox-runtime/client over the host's socket. Below it, inside sandglass-host, is launcher.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "sandbox-runtime/provider/sandbox_spec.h"
#include "sandbox-runtime/provider/tree.h"

namespace sandglass::sandbox_runtime::provider {

/// Which sandbox, and the caller's right to it: the host refuses a fencing token older than the newest that
/// it has seen for the sandbox (lease_fenced) and an id that it does not know (sandbox_lost).
struct SandboxRef {
  std::string id;
  std::uint64_t fence = 0;
};

template <class T>
using Answer = std::move_only_function<void(engine::base::Result<T>)>;

/// Where a sandbox with a network may go (SPEC N2). Nothing listed: nowhere.
struct AllowedDestination {
  std::string id;                    // shown in verdicts; empty: the host
  std::string host;                  // "api.example.com", "*.example.com" or an address literal
  std::vector<std::uint32_t> ports;  // empty: 80 and 443
  std::vector<std::string> methods;  // empty: all; a tunnel is CONNECT
};

struct CreateRequest {
  SandboxSpec spec;
  std::string run;  // named in the network's verdicts
  std::vector<AllowedDestination> allow;
  std::uint64_t fence = 0;
  /// On the machine's monotonic clock, which nobody can set (ADV-E9). The host destroys the sandbox then
  /// unless renewed; the template's life limit bounds it in any case.
  std::int64_t expires_at_ms = 0;
};

struct Created {
  std::string id;
  std::string provider;  // "namespace"
  bool rootless = false;
  std::vector<LimitSupport> support;  // recorded in the lease event
};

struct ExecRequest {
  /// The same key with the same request attaches to the exec that runs or has run; with another request:
  /// exec_conflict.
  std::string key;
  std::vector<std::string> argv;           // argv[0] is looked up in PATH inside
  std::map<std::string, std::string> env;  // only names of the template's allow-list and the runtime's own
  std::string cwd;                         // relative to /workspace, or absolute inside; empty: /workspace
  std::string stdin_bytes;                 // given whole, then closed
  ExecLimits limits;
};

enum class OutputStream : std::uint8_t { out = 1, err = 2 };

struct OutputChunk {
  OutputStream stream = OutputStream::out;
  std::uint64_t offset = 0;  // in the stream; a gap means that the ring has dropped bytes
  std::string bytes;
};
/// Called on a thread of the provider, in order, before the exec's answer. May be empty.
using OutputCallback = std::move_only_function<void(const OutputChunk&)>;

struct ExecResult {
  int exit_code = -1;  // 0..255, or -1 if ended by a signal
  int signal = 0;
  bool timed_out = false;
  bool cancelled = false;
  std::string
      out;  // all of each stream, or its last bytes; together with the first ones below, `output` of them
  std::string err;
  std::uint64_t out_total = 0;
  std::uint64_t err_total = 0;
  std::uint64_t duration_ms = 0;
  std::uint64_t cpu_ns = 0;
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t background = 0;  // processes that outlived the command and were ended with it (FR-138)
  std::vector<LimitHit> limits_hit;
  std::string out_head;  // the first bytes of a stream that was cut; empty otherwise
  std::string err_head;

  bool truncated() const { return out_dropped() + err_dropped() > 0; }
  /// Bytes between head and tail that are kept nowhere in this result.
  std::uint64_t out_dropped() const { return dropped(out_total, out_head.size() + out.size()); }
  std::uint64_t err_dropped() const { return dropped(err_total, err_head.size() + err.size()); }

 private:
  static std::uint64_t dropped(std::uint64_t total, std::uint64_t kept) {
    return total > kept ? total - kept : 0;
  }
};

struct TreeResult {
  Manifest manifest;
  std::uint64_t bytes = 0;
};

struct InventoryItem {
  std::string id;
  std::uint64_t fence = 0;
  bool alive = false;
  std::int64_t expires_at_ms = 0;
};

/// Thread rule: callable from any thread.
class Provider {
 public:
  virtual ~Provider() = default;

  /// Idempotent by spec.id: a second call with the same spec gives the same sandbox.
  virtual void create(CreateRequest request, Answer<Created> answer) = 0;
  virtual void renew(SandboxRef sandbox, std::int64_t expires_at_ms, Answer<void> answer) = 0;
  /// Answers after the end was verified; also for a sandbox that is gone.
  virtual void destroy(SandboxRef sandbox, Answer<void> answer) = 0;
  /// Replaces where a sandbox with a network may go; what that closes is closed when this answers.
  virtual void allow(SandboxRef sandbox, std::vector<AllowedDestination> destinations,
                     Answer<void> answer) = 0;
  virtual void inventory(Answer<std::vector<InventoryItem>> answer) = 0;
  /// What the machine can enforce, for templates, `doctor` and messages.
  virtual void features(Answer<std::vector<Feature>> answer) = 0;

  virtual void exec(SandboxRef sandbox, ExecRequest request, OutputCallback on_output,
                    Answer<ExecResult> answer) = 0;
  /// Ends a running exec; its own answer comes with cancelled = true.
  virtual void kill_exec(SandboxRef sandbox, std::string key, Answer<void> answer) = 0;

  /// Below /workspace unless absolute. Becomes visible whole or not at all; refused while an exec runs.
  virtual void put_tree(SandboxRef sandbox, std::string path, std::shared_ptr<TreeSource> source,
                        Answer<TreeResult> answer) = 0;
  virtual void get_tree(SandboxRef sandbox, std::string path, std::shared_ptr<TreeSink> sink,
                        Answer<TreeResult> answer) = 0;
  /// The manifest alone, without content: for listing and for the difference to what was put.
  virtual void list_tree(SandboxRef sandbox, std::string path, Answer<Manifest> answer) = 0;
};

}  // namespace sandglass::sandbox_runtime::provider
