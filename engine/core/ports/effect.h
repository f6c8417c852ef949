// Port: performs effects outside (J16). One executor process per engine incarnation stands behind it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/codes.h"
#include "engine/core/action.h"

namespace sandglass::engine::core {

/// One intent, complete: the executor needs nothing else and keeps nothing.
struct EffectIntent {
  std::uint64_t id = 0;  // unique within this executor; chosen by the caller
  std::string method;    // "POST"
  std::string url;       // absolute http or https; userinfo is refused
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::int64_t permit_ms = 0;           // start only while less than this has passed since submit()
  std::int64_t attempt_timeout_ms = 0;  // cut the attempt at this age
  std::uint32_t max_response_bytes = 1 << 20;
};

struct EffectResult {
  std::uint64_t id = 0;
  Outcome outcome = Outcome::unknown;
  std::uint32_t http_status = 0;  // 0: no answer was received
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool truncated = false;
  base::Code code = base::Code::ok;
  std::string message;
  std::string verdict;  // the network's verdict as JSON: name, address, rule
};

/// Thread rule: one thread calls; implementations may use others behind it.
class EffectExecutor {
 public:
  virtual ~EffectExecutor() = default;
  virtual void submit(EffectIntent intent) = 0;
  virtual void poll(std::vector<EffectResult>& results) = 0;
  /// Milliseconds (monotonic, of the caller's clock) since which this executor is the only one that can be at
  /// work; changes when the process behind it is replaced. "Not done" is believed only counted from here.
  virtual std::int64_t alone_since_ms() const = 0;
};

}  // namespace sandglass::engine::core
