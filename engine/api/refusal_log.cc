#include "engine/api/refusal_log.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/refusals/refusals.h"

namespace sandglass::engine::api {

namespace {

using base::Code;

constexpr std::size_t kMostBuckets = 1024;
constexpr std::size_t kMostText = 1024;  // of one text in a record
constexpr double kNsPerMinute = 60e9;

enum class Sort : std::uint8_t { refusal, malformed, trouble };

Sort sort_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
    case Code::payload_invalid:
    case Code::record_too_large:
    case Code::path_refused:
      return Sort::malformed;
    case Code::ok:
    case Code::unauthenticated:  // both are the gate's to count
    case Code::overloaded:
    case Code::internal:
    case Code::unavailable:
    case Code::timed_out:
    case Code::cancelled:
    case Code::io_error:
    case Code::disk_full:
    case Code::outcome_unknown:
    case Code::record_damaged:
    case Code::stream_damaged:
    case Code::blob_missing:
      return Sort::trouble;
    default:
      return Sort::refusal;
  }
}

}  // namespace

RefusalLog::RefusalLog(EnginePort& engine, const base::Clock& clock, std::string tenant_key,
                       RefusalLimits limits)
    : engine_(engine),
      clock_(clock),
      key_(tenant_key, refusals::refusals_stream().text()),
      limits_(limits),
      all_{.tokens = static_cast<double>(limits.burst), .at = clock.monotonic_ns()} {}

bool RefusalLog::take(Bucket& bucket, base::MonotonicNs now, std::uint32_t burst, std::uint32_t per_minute) {
  const double gained = static_cast<double>(now - bucket.at) / kNsPerMinute * per_minute;
  bucket.tokens = std::min(bucket.tokens + gained, static_cast<double>(burst));
  bucket.at = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

bool RefusalLog::may_record(const std::string& token) {
  const base::MonotonicNs now = clock_.monotonic_ns();
  if (of_token_.size() >= kMostBuckets && !of_token_.contains(token)) of_token_.clear();
  const auto own =
      of_token_.try_emplace(token, Bucket{.tokens = static_cast<double>(limits_.token_burst), .at = now});
  return take(own.first->second, now, limits_.token_burst, limits_.token_per_minute) &&
         take(all_, now, limits_.burst, limits_.per_minute);
}

void RefusalLog::refused(const identity::Caller& caller, const RefusedCall& call, const base::Error& error) {
  const Sort sort = sort_of(error.code);
  if (sort == Sort::malformed) ++malformed_;
  if (sort != Sort::refusal) return;
  ++refused_;
  std::uint64_t untold = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!may_record(caller.token_name)) {
      ++dropped_;
      ++untold_;
      return;
    }
    untold = std::exchange(untold_, 0);
  }
  const nlohmann::ordered_json details = {{"target", call.target.substr(0, kMostText)},
                                          {"request_id", call.request_id.substr(0, kMostText)},
                                          {"message", error.message.substr(0, kMostText)}};
  const std::string text = details.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  refusals::NoteRefusal note{.refusal = {.token = caller.token_name,
                                         .tenant = caller.tenant,
                                         .user = caller.user,
                                         .call = std::string(identity::name_of(call.call)),
                                         .code = error.code,
                                         .dropped = untold},
                             .details = key_.make(core::Encoding::json, text)};
  ++recorded_;
  engine_.submit({.target = refusals::refusals_stream(),
                  .command = core::make_command<refusals::RefusalsDecider::Command>(std::move(note))});
}

RefusalCounters RefusalLog::counters() const {
  return {.malformed = malformed_, .refused = refused_, .recorded = recorded_, .dropped = dropped_};
}

}  // namespace sandglass::engine::api
