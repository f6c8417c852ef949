#include "engine/api/standby_api.h"

namespace sandglass::engine::api {

StandbyApi::StandbyApi(EnginePort& engine, const base::Clock& clock)
    : gate_({}), refusals_(engine, clock, {}) {}
StandbyApi::~StandbyApi() = default;

base::Result<std::unique_ptr<StandbyApi>> StandbyApi::start(const RpcOptions& options, EnginePort& engine,
                                                            const base::Clock& clock) {
  std::unique_ptr<StandbyApi> api(new StandbyApi(engine, clock));
  auto started = RpcServer::start(options, api->gate_, nullptr, api->refusals_);
  if (!started) return std::unexpected(started.error());
  api->server_ = std::move(*started);
  return api;
}

}  // namespace sandglass::engine::api
