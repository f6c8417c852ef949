#include "engine/codec/common.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

namespace sandglass::engine::codec {

bool has_unknown_fields(const google::protobuf::Message& message) {
  return !message.GetReflection()->GetUnknownFields(message).empty();
}

std::string hash_bytes(const base::Hash256& hash) {
  return hash.is_zero() ? std::string() : std::string(hash.view());
}

base::Result<base::Hash256> hash_from(std::string_view raw) {
  if (raw.empty()) return base::Hash256{};
  const auto hash = base::Hash256::from_bytes(raw);
  if (!hash) return base::fail(base::Code::record_damaged, "a stored digest has the wrong length");
  return *hash;
}

std::string stream_bytes(const core::StreamId& stream) {
  return stream == core::StreamId{} ? std::string() : stream.bytes();
}

base::Result<core::StreamId> stream_from(std::string_view raw) {
  if (raw.empty()) return core::StreamId{};
  const auto stream = core::StreamId::from_bytes(raw);
  if (!stream) return base::fail(base::Code::record_damaged, "a stored stream id has the wrong length");
  return *stream;
}

void to_proto(const core::PayloadRef& ref, proto::PayloadRef& out) {
  out.set_seq(ref.seq);
  out.set_slot(ref.slot);
  out.set_size(ref.size);
  out.set_digest(hash_bytes(ref.digest.hash));
}

base::Result<core::PayloadRef> from_proto(const proto::PayloadRef& ref) {
  const auto digest = hash_from(ref.digest());
  if (!digest) return std::unexpected(digest.error());
  return core::PayloadRef{.seq = ref.seq(), .slot = ref.slot(), .size = ref.size(), .digest = {*digest}};
}

void to_proto(const core::Token& token, proto::Token& out) {
  out.set_epoch(token.epoch);
  out.set_attempt(token.attempt);
  out.set_counter(token.counter);
}

core::Token from_proto(const proto::Token& token) {
  return {.epoch = token.epoch(), .attempt = token.attempt(), .counter = token.counter()};
}

void to_proto(const core::RetryPolicy& policy, proto::RetryPolicy& out) {
  out.set_max_attempts(policy.max_attempts);
  out.set_initial_interval_ms(policy.initial_interval_ms);
  out.set_max_interval_ms(policy.max_interval_ms);
  out.set_backoff(policy.backoff);
  out.set_jitter(policy.jitter);
}

core::RetryPolicy from_proto(const proto::RetryPolicy& policy) {
  return {.max_attempts = policy.max_attempts(),
          .initial_interval_ms = policy.initial_interval_ms(),
          .max_interval_ms = policy.max_interval_ms(),
          .backoff = policy.backoff(),
          .jitter = policy.jitter()};
}

}  // namespace sandglass::engine::codec
