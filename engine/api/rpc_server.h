// The gRPC face of the methods. No method blocks a thread: calls are answered by whoever has the answer,
// streams are pulled message by message.
#pragma once

#include <memory>
#include <string>

#include "engine/api/gate.h"
#include "engine/api/methods.h"
#include "engine/api/refusal_log.h"
#include "engine/base/result.h"
#include "engine/dispatch/worker_pool.h"

namespace sandglass::engine::api {

struct RpcOptions {
  std::string socket;  // path of a Unix socket; made with the process's umask
  std::string tcp;     // "127.0.0.1:7233"; empty: none
  std::size_t max_message_bytes = 1 << 20;
};

/// Thread rule: start and stop from one thread. Ownership: gate, methods and refusals outlive it.
class RpcServer {
 public:
  /// Without `workers` there is no service for them. Without `methods` the gate must admit nobody. Errors:
  /// address_in_use, io_error.
  static base::Result<std::unique_ptr<RpcServer>> start(const RpcOptions& options, Gate& gate,
                                                        Methods* methods, RefusalLog& refusals,
                                                        dispatch::WorkerPool* workers = nullptr);
  ~RpcServer();

  /// No new calls; waits for those under way at most so long, then breaks them off.
  void stop(std::int64_t grace_ms);

 private:
  struct Impl;
  explicit RpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandglass::engine::api
