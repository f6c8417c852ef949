// Events and states of the scheduler's streams as stored bytes, and the two stream kinds.
// Thread rule: pure functions. Errors: event_unknown for what is newer than this program, record_damaged.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/fold/stream_kind.h"
#include "sandbox-runtime/scheduler/admission.h"
#include "sandbox-runtime/scheduler/pool.h"

namespace sandglass::sandbox_runtime::scheduler::codec {

namespace fold = engine::fold;

struct AdmissionCodec {
  static fold::EncodedEvent encode(const AdmissionDecider::Event& event);
  static base::Result<AdmissionDecider::Event> decode(const fold::EncodedEvent& encoded);
  static std::string encode_state(const AdmissionState& state);
  static base::Result<AdmissionState> decode_state(std::string_view bytes);
};

struct PoolCodec {
  static fold::EncodedEvent encode(const PoolDecider::Event& event);
  static base::Result<PoolDecider::Event> decode(const fold::EncodedEvent& encoded);
  static std::string encode_state(const PoolState& state);
  static base::Result<PoolState> decode_state(std::string_view bytes);
};

/// For the composition root's registry.
std::shared_ptr<const fold::AnyKind> make_admission_kind();
std::shared_ptr<const fold::AnyKind> make_pool_kind();

}  // namespace sandglass::sandbox_runtime::scheduler::codec
