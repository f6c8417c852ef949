// One topic partition and its transaction coordinator in one thread under one seed: a lagging high watermark,
// late delivery reports, commits and produces of unknown outcome, fencing, truncation. SimBroker is the
// Broker port on it.
//
// Ownership: the log outlives its brokers. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/draw.h"
#include "engine/journal/kafka/broker.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::journal::kafka {

struct SimEntry {
  enum class State { open, committed, aborted, marker };
  Message message;
  State state = State::open;
};

class SimLog {
 public:
  explicit SimLog(tests::support::SeededRandom& random) : random_(random) {}

  tests::support::SeededRandom& random() { return random_; }
  bool chance(std::uint32_t per_mille) { return base::draw_chance(random_, per_mille); }

  /// A producer with the transactional id begins: whoever had it is fenced, its transaction aborted.
  std::uint64_t init() {
    end_transaction(SimEntry::State::aborted);
    return ++producer_epoch_;
  }
  bool is_current(std::uint64_t producer_epoch) const { return producer_epoch == producer_epoch_; }
  std::int64_t append(Message message) {
    message.offset = static_cast<std::int64_t>(entries_.size());
    entries_.push_back({.message = std::move(message)});
    return entries_.back().message.offset;
  }
  void end_transaction(SimEntry::State state) {
    bool any = false;
    for (SimEntry& entry : entries_) {
      if (entry.state != SimEntry::State::open) continue;
      entry.state = state;
      any = true;
    }
    if (any)
      entries_.push_back({.message = {.offset = static_cast<std::int64_t>(entries_.size())},
                          .state = SimEntry::State::marker});
  }
  /// Brokers lose the newest messages (an unclean election).
  void truncate(std::size_t left) {
    entries_.resize(std::min(left, entries_.size()));
    watermark_ = std::min(watermark_, entries_.size());
  }

  /// What readers are shown moves on by chance, never back but by truncation.
  void advance() { watermark_ += base::draw_below(random_, entries_.size() - watermark_ + 1); }
  std::size_t watermark() const { return watermark_; }
  std::size_t stable() const {
    std::size_t first_open = 0;
    while (first_open < entries_.size() && entries_[first_open].state != SimEntry::State::open) ++first_open;
    return std::min(watermark_, first_open);
  }
  const std::vector<SimEntry>& entries() const { return entries_; }

 private:
  tests::support::SeededRandom& random_;
  std::vector<SimEntry> entries_;
  std::size_t watermark_ = 0;
  std::uint64_t producer_epoch_ = 0;
};

struct SimFaults {
  std::uint32_t fail_per_mille = 0;  // chance, each poll, that the producer ends with an unknown outcome
  std::uint32_t full_per_mille = 50;
};

class SimBroker final : public Broker {
 public:
  SimBroker(SimLog& log, SimFaults faults) : log_(log), faults_(faults) {}

  void init() override { sent_.push_back({.what = Sent::What::init}); }
  bool begin() override { return !ended_; }
  Taken produce(const Message& message, std::uint64_t token) override {
    if (ended_) return Taken::refused;
    if (log_.chance(faults_.full_per_mille)) return Taken::full;
    produced_.push_back({.what = Sent::What::produce, .token = token, .message = message});
    return Taken::yes;
  }
  void send() override {
    if (!ended_) std::ranges::move(produced_, std::back_inserter(sent_));
    produced_.clear();
  }
  void commit() override { sent_.push_back({.what = Sent::What::commit}); }
  void read(Reading reading, std::int64_t from, std::uint64_t token) override {
    Read& read = reads_[static_cast<std::size_t>(reading)];
    read = {.on = true, .token = token, .at = from == kLogStart ? 0 : static_cast<std::size_t>(from)};
  }
  void stop(Reading reading) override { reads_[static_cast<std::size_t>(reading)].on = false; }

  void poll(std::vector<BrokerEvent>& events) override {
    log_.advance();
    if (!ended_ && log_.chance(faults_.fail_per_mille)) return end(BrokerEvent::What::failed, events);
    while (!sent_.empty() && !ended_ && log_.chance(700)) {
      Sent sent = std::move(sent_.front());
      sent_.pop_front();
      if (!arrive(sent, events)) return;
    }
    while (!answers_.empty() && !ended_ && log_.chance(700)) {
      events.push_back(std::move(answers_.front()));
      answers_.pop_front();
    }
    for (const Reading reading : {Reading::everything, Reading::published}) give(reading, events);
  }

 private:
  struct Sent {
    enum class What { init, produce, commit } what = What::init;
    std::uint64_t token = 0;
    Message message;
  };
  struct Read {
    bool on = false;
    std::uint64_t token = 0;
    std::size_t at = 0;
  };

  /// What the brokers do with a request; the answer is under way. False: this producer is fenced.
  bool arrive(Sent& sent, std::vector<BrokerEvent>& events) {
    if (sent.what == Sent::What::init) {
      epoch_ = log_.init();
      answers_.push_back({.what = BrokerEvent::What::initialised});
      return true;
    }
    if (!log_.is_current(epoch_)) {
      end(BrokerEvent::What::fenced, events);
      return false;
    }
    if (sent.what == Sent::What::commit) {
      log_.end_transaction(SimEntry::State::committed);
      answers_.push_back({.what = BrokerEvent::What::committed});
    } else {
      const std::int64_t offset = log_.append(std::move(sent.message));
      answers_.push_back({.what = BrokerEvent::What::delivered, .token = sent.token, .offset = offset});
    }
    return true;
  }
  /// Of what was sent, some may have arrived all the same.
  void end(BrokerEvent::What what, std::vector<BrokerEvent>& events) {
    std::vector<BrokerEvent> unheard;
    while (what == BrokerEvent::What::failed && !sent_.empty() && log_.is_current(epoch_) &&
           log_.chance(600)) {
      Sent sent = std::move(sent_.front());
      sent_.pop_front();
      if (!arrive(sent, unheard)) break;
    }
    ended_ = true;
    sent_.clear();
    answers_.clear();
    events.push_back({.what = what, .why = "simulated"});
  }
  void give(Reading reading, std::vector<BrokerEvent>& events) {
    Read& read = reads_[static_cast<std::size_t>(reading)];
    if (!read.on) return;
    if (read.at > log_.entries().size()) {
      read.on = false;
      events.push_back({.what = BrokerEvent::What::not_there,
                        .token = read.token,
                        .reading = reading,
                        .why = "out of range"});
      return;
    }
    const std::size_t end = reading == Reading::published ? log_.stable() : log_.watermark();
    for (std::uint64_t left = base::draw_below(log_.random(), 20); left > 0 && read.at < end;
         ++read.at, --left) {
      const SimEntry& entry = log_.entries()[read.at];
      if (entry.state == SimEntry::State::marker) continue;
      if (reading == Reading::published && entry.state != SimEntry::State::committed) continue;
      events.push_back({.what = BrokerEvent::What::message,
                        .token = read.token,
                        .reading = reading,
                        .message = read_message(entry.message)});
    }
  }

  SimLog& log_;
  SimFaults faults_;
  std::uint64_t epoch_ = 0;
  bool ended_ = false;
  std::vector<Sent> produced_;  // and not yet sent
  std::deque<Sent> sent_;
  std::deque<BrokerEvent> answers_;
  Read reads_[2];
};

}  // namespace sandglass::engine::journal::kafka
