#include "sandbox-runtime/egress/verdict_log.h"

#include <algorithm>
#include <utility>

namespace sandglass::sandbox_runtime::egress {

bool VerdictLog::admit(engine::net::Verdict& verdict, engine::base::MonotonicNs now) {
  constexpr double ns_per_second = 1e9;
  if (at_ != 0)
    tokens_ = std::min(burst, tokens_ + static_cast<double>(now - at_) / ns_per_second * per_second);
  at_ = now;
  if (tokens_ < 1) {
    ++untold_;
    return false;
  }
  tokens_ -= 1;
  verdict.untold = take_untold();
  return true;
}

std::uint64_t VerdictLog::take_untold() {
  return std::exchange(untold_, 0);
}

}  // namespace sandglass::sandbox_runtime::egress
