#include "engine/journal/kafka/apply_rule.h"

#include <algorithm>
#include <utility>

namespace sandglass::engine::journal::kafka {
namespace {

std::string named(const Envelope& envelope) {
  return "sequence " + std::to_string(envelope.sequence) + " of epoch " + std::to_string(envelope.epoch);
}

}  // namespace

Judgement ApplyRule::judge(const Envelope& envelope, const std::optional<base::Hash256>& hash) {
  if (envelope.journal != journal_) return ignore("it belongs to journal " + envelope.journal);
  if (!envelope.sequenced()) return {};
  const Judgement judgement = place(envelope, hash);
  // What is not of this history says nothing of its epochs.
  if (judgement.verdict != Verdict::diverged && judgement.verdict != Verdict::missing)
    highest_epoch_ = std::max(highest_epoch_, envelope.epoch);
  return judgement;
}

Judgement ApplyRule::place(const Envelope& envelope, const std::optional<base::Hash256>& hash) {
  const bool old = envelope.sequence <= head_.sequence;
  if (old && hash) {
    const auto applied =
        envelope.sequence == head_.sequence ? std::optional(head_.chain) : hash_of_(envelope.sequence);
    if (applied && *applied == *hash) return {.verdict = Verdict::skip};
  }
  if (envelope.epoch < head_.epoch) {
    return ignore(named(envelope) + " comes from an owner before epoch " + std::to_string(head_.epoch));
  }
  if (old) {
    return {.verdict = Verdict::diverged,
            .why = named(envelope) + " differs from the record that was applied with this sequence"};
  }
  if (envelope.sequence > head_.sequence + 1) {
    return {.verdict = Verdict::missing,
            .why = "sequence " + std::to_string(head_.sequence + 1) + " is missing: the next is " +
                   named(envelope)};
  }
  if (envelope.previous != head_.chain || !hash || !continues_epoch(envelope)) {
    return {.verdict = Verdict::diverged,
            .why = named(envelope) +
                   (!hash ? " cannot be read" : " follows another history than the one that was applied")};
  }
  head_ = {.sequence = envelope.sequence, .chain = *hash, .epoch = envelope.epoch};
  return {.verdict = Verdict::apply};
}

/// A record is of the epoch that was begun before it; a beginning is above all before it.
bool ApplyRule::continues_epoch(const Envelope& envelope) const {
  if (envelope.kind == Kind::epoch) return envelope.epoch > head_.epoch;
  return epochs_ == Epochs::announced ? envelope.epoch == head_.epoch : envelope.epoch >= head_.epoch;
}

Judgement ApplyRule::judge_malformed(std::string why) {
  return ignore(std::move(why));
}

Judgement ApplyRule::ignore(std::string why) {
  ++ignored_;
  return {.verdict = Verdict::ignore, .why = std::move(why)};
}

void ApplyRule::wrote(const core::OrderLink& link) {
  head_ = {.sequence = link.sequence, .chain = link.chain, .epoch = link.epoch};
  highest_epoch_ = std::max(highest_epoch_, link.epoch);
}

}  // namespace sandglass::engine::journal::kafka
