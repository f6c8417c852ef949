// What every call that changes something, or brings JSON, is checked for.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/hash.h"
#include "engine/base/result.h"
#include "engine/codec/json.h"
#include "engine/core/payload.h"

namespace sandglass::engine::api {

inline constexpr std::size_t kLongestRequestId = 128;
inline constexpr std::size_t kLongestName = 256;  // of a signal, query or update

inline base::Status check_request_id(const std::string& request_id) {
  if (!request_id.empty() && request_id.size() <= kLongestRequestId) return {};
  return base::fail(base::Code::invalid_argument,
                    "a call that changes something needs a request id of 1 to 128 bytes");
}

/// Digest of a whole request: the same request id with another one is a conflict. Requests have no maps, so
/// that equal ones give equal bytes.
template <class Request>
base::Hash256 digest_of(const char* call, const Request& request) {
  return base::Sha256()
      .update(call)
      .update(std::string_view("\0", 1))
      .update(request.SerializeAsString())
      .finish();
}

/// Checked JSON under the stream's key; no bytes: no payload.
inline base::Result<core::Payload> json_payload(const core::DigestKey& key, const std::string& bytes) {
  if (bytes.empty()) return core::Payload{};
  if (auto checked = codec::check_json(bytes); !checked) return std::unexpected(checked.error());
  return key.make(core::Encoding::json, bytes);
}

}  // namespace sandglass::engine::api
