// What the API works on: the loop behind a port, and the readers of what is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/api/answer.h"
#include "engine/base/ports.h"
#include "engine/blob/blob.h"
#include "engine/fold/stream_kind.h"
#include "engine/journal/reader.h"
#include "engine/schedule/occurrences.h"
#include "engine/shard/envelope.h"
#include "engine/view/view.h"
#include "schemas/sandglass/v1/admin.pb.h"

namespace sandglass::engine::api {

/// The engine's loop, from other threads. Thread rule: any thread; callbacks come on the loop's thread and
/// must not block it. When the ownership ends they are called with outcome_unknown (J6).
class EnginePort {
 public:
  virtual ~EnginePort() = default;
  virtual void submit(shard::CommandEnvelope envelope) = 0;
  virtual void read(const core::StreamId& stream, shard::ReadFn on_read) = 0;
  virtual void ask(const core::StreamId& stream, core::Question question, shard::SaidFn on_said) = 0;
  /// One answer: durable records from `from_seq` on, at least one, as soon as there are any. The number is
  /// for cancel_follow, after which no answer comes; unknown numbers are ignored.
  virtual std::uint64_t follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                               shard::RecordsFn on_records) = 0;
  virtual void cancel_follow(std::uint64_t number) = 0;
};

struct UploadLimits {
  std::uint64_t bytes = 1ULL << 30;
  std::uint64_t files = 100'000;
};

/// Everything outlives the methods.
struct Backend {
  EnginePort& engine;
  base::TaskRunner& pool;  // for reads that block
  const view::View& view;  // scan_now only
  const journal::Reader& reader;
  const fold::Registry& kinds;
  blob::BlobStore& blobs;
  std::string tenant_key;
  std::uint16_t partitions = 8;
  std::map<std::string, std::string> workflows;  // name → version that new runs get
  UploadLimits upload;
  /// By IANA name; empty: UTC. May read files.
  std::function<base::Result<std::shared_ptr<const schedule::Zone>>(const std::string&)> find_zone;
  /// Why a stream is known to be damaged, if it is (E14): its rows still say what it was before.
  std::function<std::optional<base::Error>(const core::StreamId&)> damage_of;
  /// A read has found it: from now on damage_of says so too. May be null.
  std::function<void(const core::StreamId&, const base::Error&)> found_damaged;
  /// The journal's files as they are now: their folder below the data folder, removed with the object. May
  /// block for seconds.
  std::function<base::Result<std::shared_ptr<const std::string>>()> checkpoint;
  /// Where a step is that workers carry out; nothing for others. On the loop's thread.
  std::function<std::optional<std::string>(const core::StreamId&, const std::string& path)> step_place;
  /// May block for seconds if `checks` is asked for.
  std::function<void(::sandglass::v1::StatusReply&, bool checks)> fill_status;
  /// Lets the gate see a changed identity stream, then calls its argument.
  std::function<void(std::move_only_function<void(base::Status)>)> identities_changed;
};

}  // namespace sandglass::engine::api
