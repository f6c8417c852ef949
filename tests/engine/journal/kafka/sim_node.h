// An engine's node in the simulation of the Kafka journal: a view that survives it, and what it does while it
// lives. Thread rule: one thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/journal/kafka/owner.h"
#include "engine/journal/kafka/takeover.h"
#include "tests/engine/journal/kafka/history.h"
#include "tests/engine/journal/kafka/sim_kafka.h"
#include "tests/engine/journal/kafka/sim_view.h"

namespace sandglass::engine::journal::kafka {

/// What was told to be durable, by any node: sequence i + 1.
struct Acknowledged {
  core::Sequence sequence = 0;
  base::Hash256 chain;
};

class SimNode {
 public:
  static constexpr std::int64_t kNsPerMs = 1'000'000;

  SimNode(SimLog& log, std::vector<Acknowledged>& acknowledged, std::string name)
      : log_(log), acknowledged_(acknowledged), name_(std::move(name)) {
    const auto rows = meta_rows(meta());
    view_.store().write({&rows, 1}).value();
    view_.flush();
  }

  static JournalMeta meta() { return {.journal_id = kJournal, .partitions = kPartitions}; }
  SimView& view() { return view_; }
  bool lives() const { return life_ != nullptr; }
  bool serves() const { return lives() && life_->owner; }
  const std::optional<base::Error>& error() const { return error_; }
  const Takeover* takeover() const { return lives() && life_->takeover ? &*life_->takeover : nullptr; }
  std::string stand() const {
    if (error_) return error_->message;
    return serves() ? "serves" : "waits " + takeover()->stage();
  }
  AppliedHead head() const { return life_->catch_up->rule().head(); }

  void start_takeover(SimFaults faults, const Takeover::Now& now, bool republish = false) {
    open(faults);
    life_->takeover.emplace(*life_->broker, life_->view, *life_->catch_up,
                            TakeoverOptions{.nonce = name_ + std::to_string(++starts_),
                                            .published_deadline_ms = 1'000'000'000,
                                            .republish_from_view = republish,
                                            .self = self});
    life_->takeover->start(now);
  }
  /// The process ends; its view loses what was not flushed.
  void crash() {
    life_.reset();
    view_.crash(log_.random());
  }
  /// A record of a client, if this node serves.
  void write(std::size_t padding = 0) {
    Batch batch{.partition = kPartition};
    for (std::uint64_t left = 1 + base::draw_below(log_.random(), 3); left > 0; --left)
      batch.records.push_back(
          life_->writer.record("record " + std::to_string(log_.random().next()) + std::string(padding, '.'))
              .record);
    const core::OrderLink& last = batch.records.back().link;
    batch.view_changes.push_back({"state", std::to_string(last.sequence)});
    life_->submitted.push_back({last.sequence, last.chain});
    life_->owner->submit(++ticket_, std::move(batch));
  }
  void step(const Takeover::Now& now) {
    if (!lives()) return;
    std::vector<BrokerEvent> events;
    life_->broker->poll(events);
    for (BrokerEvent& event : events) {
      if (life_->owner) {
        life_->owner->take(event, now.monotonic_ns);
      } else {
        life_->takeover->take(event, now);
        if (life_->takeover->owned() && !life_->owner) serve();
      }
    }
    if (log_.chance(50)) view_.flush();
    if (!life_->owner) {
      life_->takeover->step(now);
      if (life_->takeover->error()) die(*life_->takeover->error());
      return;
    }
    std::vector<Completed> completed;
    life_->owner->step(now.monotonic_ns, completed);
    for (const Completed& each : completed) {
      if (each.completion == Completion::durable) {
        acknowledged_.push_back(life_->submitted[life_->told]);
        ++life_->told;
      } else {
        last_completion = each.completion;
      }
    }
    if (life_->owner->over()) die({base::Code::outcome_unknown, "over"});
  }

  OwnerOptions owner_options{.publish_interval_ms = 100, .idle_ms = 500, .max_tail_bytes = 2000};
  std::vector<SkippedMessage> skips;
  OwnerMark self;                             // empty: it does not say
  std::optional<Completion> last_completion;  // of a batch that did not become durable

 private:
  struct Life {
    explicit Life(AppliedView opened) : view(std::move(opened)) {}
    AppliedView view;
    Projection projection;
    std::optional<CatchUp> catch_up;
    std::unique_ptr<SimBroker> broker;
    std::optional<Takeover> takeover;
    std::optional<Owner> owner;
    HistoryWriter writer;
    std::vector<Acknowledged> submitted;  // last record of each batch
    std::size_t told = 0;
  };
  void open(SimFaults faults) {
    error_.reset();
    auto view = AppliedView::open(view_.store(), meta(), kPartition);
    ASSERT_TRUE(view) << view.error().message;
    life_ = std::make_unique<Life>(std::move(*view));
    life_->catch_up.emplace(life_->view, life_->projection, skips);
    life_->broker = std::make_unique<SimBroker>(log_, faults);
  }
  void serve() {
    life_->owner.emplace(*life_->broker, life_->view, life_->catch_up->rule(), owner_options);
    life_->writer = HistoryWriter(head());
  }
  void die(base::Error error) {
    error_ = std::move(error);
    life_.reset();
  }

  SimLog& log_;
  std::vector<Acknowledged>& acknowledged_;
  std::string name_;
  SimView view_;
  std::unique_ptr<Life> life_;
  std::optional<base::Error> error_;
  int starts_ = 0;
  Ticket ticket_ = 0;
};

}  // namespace sandglass::engine::journal::kafka
