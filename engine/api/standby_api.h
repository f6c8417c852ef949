// The API of an engine that stands by: whoever calls is told who serves, and to try again.
//
// Thread rule: made and destroyed by one thread; set_reason from any. Ownership: engine and clock outlive it.
#pragma once

#include <memory>
#include <string>

#include "engine/api/backend.h"
#include "engine/api/gate.h"
#include "engine/api/refusal_log.h"
#include "engine/api/rpc_server.h"
#include "engine/base/result.h"

namespace sandglass::engine::api {

class StandbyApi {
 public:
  /// Errors: address_in_use, io_error.
  static base::Result<std::unique_ptr<StandbyApi>> start(const RpcOptions& options, EnginePort& engine,
                                                         const base::Clock& clock);
  ~StandbyApi();

  void set_reason(std::string why) { gate_.set_reason(std::move(why)); }

 private:
  StandbyApi(EnginePort& engine, const base::Clock& clock);

  Gate gate_;
  RefusalLog refusals_;
  std::unique_ptr<RpcServer> server_;  // last: calls all of the above
};

}  // namespace sandglass::engine::api
