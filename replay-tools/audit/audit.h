// Verifies the record chains and reads the audit log off them (J22).
//
// Every record links twice: its header names the leaf of its stream's previous record, and its order row
// extends the partition's chain. verify() recomputes both from the stored bytes. A changed, dropped, inserted
// or reordered record is named. Records cut off at the end leave no trace inside the journal: compare the
// heads with those of an earlier verification, kept elsewhere (`known`).
//
// Thread rule: one thread. Errors: those of the reader, but for damage, which is a finding.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/journal/reader.h"
#include "replay-tools/replay/describer.h"

namespace sandglass::replay_tools::audit {

struct Finding {
  engine::core::PartitionId partition = 0;
  engine::core::Sequence sequence = 0;  // 0: of a stream alone
  engine::core::StreamId stream;        // none: not known
  std::uint64_t seq = 0;
  std::string what;
};

/// A partition's newest link.
struct Head {
  engine::core::PartitionId partition = 0;
  engine::core::Sequence sequence = 0;
  engine::base::Hash256 chain;
};

struct Report {
  std::uint64_t records = 0;
  std::uint64_t streams = 0;
  std::vector<Head> heads;
  std::vector<Finding> findings;  // at most kMostFindings
  bool good() const { return findings.empty(); }
};
inline constexpr std::size_t kMostFindings = 100;

/// All partitions, both chains, and of a journal that was moved those of the former ones. Memory: a hash a
/// stream.
engine::base::Result<Report> verify(const engine::journal::Reader& reader,
                                    const std::vector<Head>& known = {});

/// One stream alone: its own chain from the first record. `heads` stays empty.
engine::base::Result<Report> verify_stream(const engine::journal::Reader& reader,
                                           const engine::core::StreamId& stream);

/// One line of the audit log: a record, as events and cause. Clear fields only, never payloads.
struct LogLine {
  std::int64_t time_ms = 0;
  engine::core::PartitionId partition = 0;
  engine::core::Sequence sequence = 0;
  engine::core::StreamId stream;
  std::uint64_t seq = 0;
  std::string request_id;  // of the API call that caused it; empty: none
  std::vector<replay::Described> events;
  std::string leaf;  // hex; `verify` has checked it
};

/// Calls `line` for every record of the partition from `from` on, in order, until it returns false. A record
/// that cannot be read is an error that names it.
engine::base::Status read_log(const engine::journal::Reader& reader, const replay::Kinds& kinds,
                              engine::core::PartitionId partition, engine::core::Sequence from,
                              const std::function<bool(const LogLine&)>& line);

}  // namespace sandglass::replay_tools::audit
