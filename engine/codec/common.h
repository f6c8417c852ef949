// Core values that stand in many stored messages, to and from protobuf. For the codecs of stream kinds.
// Thread rule: pure functions. Errors: record_damaged.
#pragma once

#include <string_view>

#include "engine/base/result.h"
#include "engine/core/payload.h"
#include "engine/core/stream_id.h"
#include "engine/core/token.h"
#include "schemas/sandglass/record/v1/record.pb.h"

namespace sandglass::engine::codec {

namespace proto = ::sandglass::record::v1;

/// True if the message itself (not what is inside it) has fields that this program does not know (J4).
bool has_unknown_fields(const google::protobuf::Message& message);

/// A zero hash is stored as no bytes.
std::string hash_bytes(const base::Hash256& hash);
base::Result<base::Hash256> hash_from(std::string_view raw);
/// `none` (kind 0, all zero) is stored as no bytes.
std::string stream_bytes(const core::StreamId& stream);
base::Result<core::StreamId> stream_from(std::string_view raw);

void to_proto(const core::PayloadRef& ref, proto::PayloadRef& out);
base::Result<core::PayloadRef> from_proto(const proto::PayloadRef& ref);
void to_proto(const core::Token& token, proto::Token& out);
core::Token from_proto(const proto::Token& token);
void to_proto(const core::RetryPolicy& policy, proto::RetryPolicy& out);
core::RetryPolicy from_proto(const proto::RetryPolicy& policy);

}  // namespace sandglass::engine::codec
