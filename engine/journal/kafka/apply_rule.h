// The apply rule (J26): what becomes of each message that comes from a topic partition, in the order of the
// log. One object for owner, standby and auditor, whether they read what is published or everything.
//
//   1  another journal's, or not of this format    ignore, counted: an alarm
//   2  sequence ≤ applied, equal hash              skip: published again by a later owner
//   3  epoch below the highest one applied         ignore, counted: an owner that was fenced
//   4  sequence ≤ applied with another hash        diverged
//      sequence = next, previous ≠ my head         diverged
//      (or of an epoch that nobody began)
//   5  sequence > next                             missing: the log is shorter than what it must be
//   6  else                                        apply
//
// Fences and fillers pass: they say nothing about the order. Checks are made in this order: a re-published
// record of an old epoch is skipped by (2) before (3) could count it.
//
// Thread rule: belongs to one thread. Errors: none; format_unknown is the decoder's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/base/hash.h"
#include "engine/core/stored_record.h"
#include "engine/journal/kafka/wire.h"

namespace sandglass::engine::journal::kafka {

enum class Verdict : std::uint8_t {
  pass,    // fence, filler
  apply,   // the caller applies it; the rule has moved on
  skip,    // applied before
  ignore,  // not of this history; an alarm
  diverged,
  missing,
};
struct Judgement {
  Verdict verdict = Verdict::pass;
  std::string why;  // of ignore, diverged and missing, for people
};

/// Whether a new owner says so in the order, with an epoch record. Those of an embedded journal, whose
/// records are published or moved afterwards, do not: their epochs grow from one record to the next.
enum class Epochs : std::uint8_t { announced, unannounced };

/// Up to where messages are applied.
struct AppliedHead {
  core::Sequence sequence = 0;  // 0: nothing yet
  base::Hash256 chain;          // of `sequence`, or the genesis chain
  core::OwnerEpoch epoch = 0;   // the highest one applied
};

class ApplyRule {
 public:
  /// Chain hash of an applied sequence; nullopt: it is not kept that far back.
  using HashOf = std::function<std::optional<base::Hash256>(core::Sequence)>;

  ApplyRule(std::string journal, AppliedHead head, HashOf hash_of, Epochs epochs = Epochs::announced)
      : journal_(std::move(journal)), head_(head), hash_of_(std::move(hash_of)), epochs_(epochs) {}

  /// `hash`: the chain hash that its bytes give; nullopt: its value cannot be read, which is never equal.
  Judgement judge(const Envelope& envelope, const std::optional<base::Hash256>& hash);
  /// A message that is not of this format.
  Judgement judge_malformed(std::string why);

  /// The owner applies what it wrote itself.
  void wrote(const core::OrderLink& link);

  const AppliedHead& head() const { return head_; }
  /// The highest epoch that any record of this journal bore, applied or not.
  core::OwnerEpoch highest_epoch() const { return std::max(highest_epoch_, head_.epoch); }
  std::uint64_t ignored() const { return ignored_; }

 private:
  Judgement place(const Envelope& envelope, const std::optional<base::Hash256>& hash);
  Judgement ignore(std::string why);
  bool continues_epoch(const Envelope& envelope) const;

  std::string journal_;
  AppliedHead head_;
  HashOf hash_of_;
  Epochs epochs_;
  core::OwnerEpoch highest_epoch_ = 0;
  std::uint64_t ignored_ = 0;
};

}  // namespace sandglass::engine::journal::kafka
