// The stream kinds of this program. Included by mains only: it names every decider, codec and view.
#pragma once

#include <memory>
#include <vector>

#include "activities/approvals/approvals.h"
#include "activities/approvals/codec/codec.h"
#include "engine/fold/stream_kind.h"
#include "engine/identity/codec/codec.h"
#include "engine/refusals/codec/codec.h"
#include "engine/run/codec/codec.h"
#include "engine/run/decider.h"
#include "engine/run/view/run_view.h"
#include "engine/schedule/codec/codec.h"
#include "engine/shard/partition_stream.h"
#include "sandbox-runtime/scheduler/admission.h"
#include "sandbox-runtime/scheduler/codec/codec.h"
#include "sandbox-runtime/scheduler/pool.h"

namespace sandglass::engine::server::compose {

using RunKind =
    fold::Kind<core::StreamKind::run, true, run::RunDecider, run::codec::RunCodec, run::view::RunView>;
using ApprovalsKind = fold::Kind<core::StreamKind::approvals, false, activities::approvals::ApprovalsDecider,
                                 activities::approvals::codec::ApprovalsCodec, fold::NoView>;
using AdmissionKind =
    fold::Kind<core::StreamKind::admission, false, sandbox_runtime::scheduler::AdmissionDecider,
               sandbox_runtime::scheduler::codec::AdmissionCodec, fold::NoView>;
using PoolKind = fold::Kind<core::StreamKind::pool, false, sandbox_runtime::scheduler::PoolDecider,
                            sandbox_runtime::scheduler::codec::PoolCodec, fold::NoView>;

inline std::vector<std::shared_ptr<const fold::AnyKind>> all_kinds() {
  return {std::make_shared<RunKind>(),
          std::make_shared<ApprovalsKind>(),
          std::make_shared<AdmissionKind>(),
          std::make_shared<PoolKind>(),
          schedule::codec::make_schedule_kind(),
          std::make_shared<identity::codec::IdentityKind>(),
          std::make_shared<refusals::codec::RefusalsKind>(),
          std::make_shared<shard::PartitionKind>()};
}

}  // namespace sandglass::engine::server::compose
