// Messages of one reading applied to the view: what a standby does all the time and a new owner until its
// fence.
//
// Thread rule: belongs to one thread. Errors: journal_diverged, journal_incomplete (J26: nothing is applied
// any more), format_unknown (J4), those of projection and view.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/kafka/skip.h"

namespace sandglass::engine::journal::kafka {

class CatchUp {
 public:
  /// Both must outlive this.
  CatchUp(AppliedView& view, const Projection& projection, std::vector<SkippedMessage> skips = {});
  CatchUp(const CatchUp&) = delete;
  CatchUp& operator=(const CatchUp&) = delete;

  /// Whether this is the message of the newest applied record. A reading that goes on begins with it, and so
  /// sees whether the log is still the one that it was applied from.
  bool is_newest(const ReadMessage& message) const;
  /// A reading begins: at the newest applied record, or at the log's start.
  void begin(bool at_start);

  base::Status take(ReadMessage message);
  base::Status flush() { return view_.flush(); }

  ApplyRule& rule() { return rule_; }
  const ApplyRule& rule() const { return rule_; }
  /// The newest sequence that was met in the log without a gap, applied now or before.
  core::Sequence met() const { return met_; }
  /// Messages that it was to pass over and has met.
  const std::vector<SkippedMessage>& skipped() const { return skipped_; }
  /// The nonce of the fence that was met last.
  const std::string& fence() const { return fence_; }
  /// Offsets of records that were applied here lately, a MiB of them between two: where a reading of what is
  /// published may begin, the newest last. The unpublished tail is shorter than all of them (J24).
  const std::deque<std::int64_t>& starts() const { return starts_; }

 private:
  void meet(core::Sequence sequence);
  base::Status apply(ReadMessage message, core::OrderedRecord record);
  base::Status refuse(const ReadMessage& message, const Judgement& judgement);

  AppliedView& view_;
  const Projection& projection_;
  const std::vector<SkippedMessage> skips_;
  std::vector<SkippedMessage> skipped_;
  ApplyRule rule_;
  bool from_start_ = false;
  core::Sequence met_ = 0;
  std::string fence_;
  std::deque<std::int64_t> starts_;
  std::size_t bytes_since_start_ = 0;
};

}  // namespace sandglass::engine::journal::kafka
