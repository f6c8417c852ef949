#include "replay-tools/audit/audit.h"

#include <optional>
#include <string>
#include <vector>

#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/fold/stream_fold.h"
#include "engine/journal/rows/move.h"
#include "engine/journal/rows/owners.h"
#include "replay-tools/audit/stream_chains.h"

namespace sandglass::replay_tools::audit {

namespace base = engine::base;
namespace codec = engine::codec;
namespace core = engine::core;
namespace fold = engine::fold;

namespace {

constexpr std::size_t kChunk = 256;

bool is_damage(base::Code code) {
  return code == base::Code::record_damaged || code == base::Code::stream_damaged;
}

class Verifier {
 public:
  Verifier(const engine::journal::Reader& reader, Report& report) : reader_(reader), report_(report) {}

  base::Status partition(core::PartitionId partition, const std::string& journal_id, const Head* known) {
    partition_ = partition;
    known_ = known;
    at_ = {.partition = partition, .sequence = 0, .chain = codec::genesis_chain(journal_id, partition)};
    epoch_ = 0;
    chain_known_ = true;
    if (auto known_moves = find_formers(); !known_moves) return known_moves;
    core::Sequence next = 1;
    while (true) {
      const auto records = reader_.read_order(partition, next, kChunk);
      if (!records) {
        if (!is_damage(records.error().code)) return std::unexpected(records.error());
        const auto more = one_by_one(next);
        if (!more) return std::unexpected(more.error());
        if (!*more) break;
        continue;
      }
      if (records->empty()) break;
      for (const core::OrderedRecord& record : *records) check(record);
      next = records->back().link.sequence + 1;
    }
    if (known != nullptr && known->sequence > at_.sequence) {
      find(at_.sequence + 1, {}, 0,
           "the partition ends at " + std::to_string(at_.sequence) + ", but an earlier verification saw " +
               std::to_string(known->sequence) + ": records were cut off at the end");
    }
    for (const Former& former : formers_) check_former(former);
    report_.heads.push_back(at_);
    report_.streams = chains_.streams();
    return {};
  }

 private:
  /// A journal whose records these were once: they must be those, up to where it ended (J22).
  struct Former {
    std::string journal;
    core::Sequence sequence = 0;  // its newest before it moved
    base::Hash256 head;           // its chain there, as the move says
    base::Hash256 chain;          // made from the records here
  };

  base::Status find_formers() {
    formers_.clear();
    const auto partitions = reader_.partitions();
    if (!partitions) return std::unexpected(partitions.error());
    const core::StreamId owners = engine::journal::owners_stream(partition_, *partitions);
    for (std::uint64_t next = 1;;) {
      const auto records = reader_.read_stream(owners, next, kChunk);
      if (!records && is_damage(records.error().code)) return {};  // it is found where it is in the order
      if (!records) return std::unexpected(records.error());
      if (records->empty()) return {};
      next = records->back().seq + 1;
      for (const core::StoredRecord& record : *records) {
        const auto move = engine::journal::move_of(record);
        if (!move && !is_damage(move.error().code)) return std::unexpected(move.error());
        if (!move || (*move && (*move)->heads.size() != *partitions)) {
          find(0, owners, record.seq, "what it tells of a move of the journal cannot be read");
        } else if (*move) {
          const auto& [sequence, head] = (*move)->heads[partition_];
          formers_.push_back({.journal = (*move)->from,
                              .sequence = sequence,
                              .head = head,
                              .chain = codec::genesis_chain((*move)->from, partition_)});
        }
      }
    }
  }

  void check_former(const Former& former) {
    if (former.chain == former.head) return;
    find(former.sequence, {}, 0,
         "up to here the records are not those of journal " + former.journal +
             ", from which they were moved: its chain led to " + former.head.hex());
  }

  /// Goes over a damaged chunk; `next` is then behind it. False: where the partition ends cannot be seen, as
  /// nothing that follows can be read.
  base::Result<bool> one_by_one(core::Sequence& next) {
    bool any = false;
    for (const core::Sequence end = next + kChunk; next < end; ++next) {
      const auto record = reader_.read_order(partition_, next, 1);
      if (record && record->empty()) return true;
      if (record) {
        any = true;
        check(record->front());
        next = record->front().link.sequence;
        continue;
      }
      if (!is_damage(record.error().code)) return std::unexpected(record.error());
      find(next, {}, 0, record.error().message);
      chain_known_ = false;
    }
    return any || readable_after(next);
  }

  bool readable_after(core::Sequence next) const {
    constexpr core::Sequence kFarthest = core::Sequence{1} << 48;
    for (core::Sequence distance = 1; distance < kFarthest; distance *= 2) {
      if (reader_.read_order(partition_, next + distance, 1)) return true;
    }
    return false;
  }

  void check(const core::OrderedRecord& each) {
    const core::OrderLink& link = each.link;
    const auto fault = [&](const std::string& what) {
      find(link.sequence, link.stream, link.stream_seq, what);
    };
    ++report_.records;
    const base::Hash256 leaf = codec::leaf_hash(each.record);
    if (chain_known_ && link.sequence != at_.sequence + 1) {
      fault("the partition's sequence jumps from " + std::to_string(at_.sequence) + ": a record was dropped");
      chain_known_ = false;
    }
    if (leaf != link.leaf) fault("the stored bytes do not match the record's hash: it was changed");
    if (link.epoch < epoch_)
      fault("its owner epoch is lower than that of the record before it: records were reordered");
    if (chain_known_ &&
        codec::chain_hash(at_.chain, partition_, link.sequence, link.epoch, link.leaf) != link.chain) {
      fault("the partition's chain does not reach this record: it was changed, inserted or moved");
    }
    if (std::string what = chains_.check(each.record, leaf); !what.empty()) fault(what);
    for (Former& former : formers_) {
      if (link.sequence > former.sequence) continue;
      former.chain = codec::chain_hash(former.chain, partition_, link.sequence, link.epoch, link.leaf);
    }
    epoch_ = link.epoch;
    at_.sequence = link.sequence;
    at_.chain = link.chain;
    chain_known_ = true;
    if (known_ != nullptr && known_->sequence == link.sequence && known_->chain != link.chain) {
      fault("the chain here is not the one that an earlier verification saw: history was written anew");
    }
  }

  void find(core::Sequence sequence, const core::StreamId& stream, std::uint64_t seq, std::string what) {
    if (report_.findings.size() >= kMostFindings) return;
    report_.findings.push_back({.partition = partition_,
                                .sequence = sequence,
                                .stream = stream,
                                .seq = seq,
                                .what = std::move(what)});
  }

  const engine::journal::Reader& reader_;
  Report& report_;
  StreamChains chains_;
  core::PartitionId partition_ = 0;
  const Head* known_ = nullptr;
  Head at_;
  std::vector<Former> formers_;
  core::OwnerEpoch epoch_ = 0;
  bool chain_known_ = true;  // at_.chain is that of the record before
};

}  // namespace

base::Result<Report> verify(const engine::journal::Reader& reader, const std::vector<Head>& known) {
  const auto partitions = reader.partitions();
  const auto journal_id = reader.journal_id();
  if (!partitions) return std::unexpected(partitions.error());
  if (!journal_id) return std::unexpected(journal_id.error());
  Report report;
  Verifier verifier(reader, report);
  for (core::PartitionId partition = 0; partition < *partitions; ++partition) {
    const Head* head = nullptr;
    for (const Head& each : known) {
      if (each.partition == partition) head = &each;
    }
    if (const auto done = verifier.partition(partition, *journal_id, head); !done)
      return std::unexpected(done.error());
  }
  return report;
}

base::Result<Report> verify_stream(const engine::journal::Reader& reader, const core::StreamId& stream) {
  Report report{.streams = 1};
  StreamChains chains;
  std::uint64_t next = 1;
  while (true) {
    const auto records = reader.read_stream(stream, next, kChunk);
    if (!records) {
      if (!is_damage(records.error().code)) return std::unexpected(records.error());
      report.findings.push_back({.stream = stream, .seq = next, .what = records.error().message});
      return report;
    }
    if (records->empty()) break;
    for (const core::StoredRecord& record : *records) {
      ++report.records;
      std::string what = chains.check(record, codec::leaf_hash(record));
      if (!what.empty() && report.findings.size() < kMostFindings) {
        report.findings.push_back({.stream = stream, .seq = record.seq, .what = std::move(what)});
      }
    }
    next = records->back().seq + 1;
  }
  if (report.records == 0) return base::fail(base::Code::not_found, "there is no " + stream.text());
  return report;
}

base::Status read_log(const engine::journal::Reader& reader, const replay::Kinds& kinds,
                      core::PartitionId partition, core::Sequence from,
                      const std::function<bool(const LogLine&)>& line) {
  while (true) {
    const auto records = reader.read_order(partition, from, kChunk);
    if (!records) return std::unexpected(records.error());
    if (records->empty()) return {};
    for (const core::OrderedRecord& each : *records) {
      const core::StoredRecord& record = each.record;
      const auto header = codec::decode_header(record);
      if (!header) return std::unexpected(header.error());
      LogLine made{.time_ms = header->time_ms,
                   .partition = partition,
                   .sequence = each.link.sequence,
                   .stream = record.stream,
                   .seq = record.seq,
                   .request_id = header->request_id};
      made.leaf = each.link.leaf.hex();
      const fold::AnyKind* kind = kinds.kind(record.stream.kind);
      if (kind == nullptr) {
        for (const auto& event : header->events)
          made.events.push_back({.name = "event " + std::to_string(event.type)});
      } else {
        const auto events = kind->decode(header->events);
        if (!events) return std::unexpected(events.error());
        for (auto& event : kinds.describer(record.stream.kind)->events(**events)) {
          made.events.push_back(std::move(event.what));
        }
      }
      if (!line(made)) return {};
    }
    from = records->back().link.sequence + 1;
  }
}

}  // namespace sandglass::replay_tools::audit
