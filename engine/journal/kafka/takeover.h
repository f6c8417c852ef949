// Taking a partition over (J25): from whatever the former owner left, to a state in which nobody else can
// write and everything acknowledged is published.
//
//   initialising        fences the former owner, ends its transaction (brokers)
//   fencing             a fence with our nonce, in a committed transaction of its own
//   reading everything  from the newest applied record to that fence: gives the unpublished tail
//   reading published   from the newest published one known to that fence: gives where the tail begins
//   publishing          the tail again, byte for byte, then the first record of our epoch; commit
//   owned
//
// Neither an end-of-partition event nor a watermark is believed: only the fence, seen. A death anywhere is
// answered by the same procedure again. Nothing is published before both readings have ended, so the log
// under a view that does not fit it is left as it is.
//
// Thread rule: stepped by one thread. Errors: journal_fenced (another took over meanwhile), outcome_unknown
// (the brokers failed us: again), journal_diverged, journal_incomplete (an operator must choose), timed_out
// (a transaction hangs in the log), format_unknown; folder_version,
// topic_foreign (rows/move.h: it has no owner any more, or none yet; or its owners are not like this one).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/journal/kafka/applied_view.h"
#include "engine/journal/kafka/broker.h"
#include "engine/journal/kafka/catch_up.h"

namespace sandglass::engine::journal::kafka {

struct TakeoverOptions {
  std::string nonce;  // random
  /// The published reading takes at most so long; then a transaction hangs.
  std::int64_t published_deadline_ms = 60'000;
  /// An operator's choice: records that the log has lost are published from this view (J26).
  bool republish_from_view = false;
  /// The journal's move to another place is given up: it has an owner again (rows/move.h).
  bool reopen = false;
  /// Who takes over; where the topic's owners say who they are, it must be like them.
  OwnerMark self;
};

class Takeover {
 public:
  /// All must outlive this.
  Takeover(Broker& broker, AppliedView& view, CatchUp& catch_up, TakeoverOptions options)
      : broker_(broker), view_(view), catch_up_(catch_up), options_(std::move(options)) {}

  struct Now {
    base::MonotonicNs monotonic_ns = 0;
    base::WallMs wall_ms = 0;
  };
  void start(const Now& now);
  void take(BrokerEvent& event, const Now& now);
  /// Time has passed, or the broker has room again.
  void step(const Now& now);

  bool owned() const { return stage_ == Stage::owned; }
  const std::optional<base::Error>& error() const { return error_; }
  /// What it is waiting for, for people.
  std::string stage() const;

  /// How long each stage took, once owned.
  struct Times {
    base::MonotonicNs began = 0, initialised = 0, fenced = 0, read = 0, found = 0, owned = 0;
  };
  const Times& times() const { return times_; }
  std::uint64_t published_again() const { return published_again_; }

 private:
  enum class Stage : std::uint8_t {
    initialising,
    fencing,
    fence_committing,
    reading_everything,
    reading_published,
    publishing,
    committing,
    owned
  };
  void fail(base::Error error);
  void begin_transaction();
  void write_fence();
  void read_everything(std::int64_t from);
  void take_everything(ReadMessage message, const Now& now);
  void everything_read(const Now& now);
  base::Status check_owners();
  void read_published(const Now& now);
  void take_published(const ReadMessage& message, const Now& now);
  void published_found(const Now& now);
  void publish(const Now& now);
  bool publish_tail();
  void publish_epoch(const Now& now);
  void delivered(const BrokerEvent& event, const Now& now);
  void committed(const Now& now);

  Broker& broker_;
  AppliedView& view_;
  CatchUp& catch_up_;
  TakeoverOptions options_;
  Stage stage_ = Stage::initialising;
  std::optional<base::Error> error_;
  Times times_;

  bool fence_sent_ = false;
  std::int64_t fence_offset_ = -1;
  std::uint64_t reading_ = 0;  // token of the present one
  core::Sequence had_ = 0;     // applied before the reading
  bool goes_on_ = false;       // the reading of everything has yet to meet the newest applied record
  bool from_start_ = false;

  // Offsets for the published reading to begin at, the best one last; what is published is always a prefix of
  // the order, so the first record that it shows tells of all before it.
  std::vector<std::int64_t> starts_;
  std::size_t reach_ = 1;  // the next reading begins so many of them back
  bool any_published_ = false;
  core::Sequence published_ = 0;
  std::int64_t published_offset_ = -1;
  base::MonotonicNs deadline_ns_ = 0;

  // Publishing: sequences up to `next_` - 1 are with the broker.
  core::Sequence next_ = 0;
  std::deque<std::pair<core::Sequence, Message>> chunk_;
  std::size_t undelivered_ = 0;
  std::size_t transaction_bytes_ = 0;
  struct Epoch {
    core::OrderedRecord record;
    std::string row;
    std::int64_t offset = -1;
  };
  std::optional<Epoch> epoch_;  // made; with the broker
  std::optional<Move> closed_;  // no epoch is begun any more
  std::uint64_t published_again_ = 0;
};

}  // namespace sandglass::engine::journal::kafka
