// Ports of a simulated engine process, honest or with a planted bug.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/ports/activator.h"
#include "engine/journal/journal.h"
#include "engine/view/view.h"
#include "tests/support/seeded_random.h"

namespace sandglass::tests::simulation {

namespace journal = engine::journal;
namespace view = engine::view;
namespace core = engine::core;
namespace base = engine::base;

/// A machine's clocks; `off_ms` is by how much somebody has set the wall clock.
class SimClock final : public base::Clock {
 public:
  base::WallMs wall_ms() const override { return kFirstMs + ns / 1'000'000 + off_ms; }
  base::MonotonicNs monotonic_ns() const override { return ns; }
  static constexpr base::WallMs kFirstMs = 100'000'000;  // so that it can be set back
  base::MonotonicNs ns = 0;
  base::WallMs off_ms = 0;

  /// Plant: the machine's wall clock as the engine's time.
  class Raw final : public base::Clock {
   public:
    explicit Raw(const SimClock& clock) : clock_(clock) {}
    base::WallMs wall_ms() const override { return clock_.wall_ms(); }
    base::MonotonicNs monotonic_ns() const override { return clock_.monotonic_ns(); }

   private:
    const SimClock& clock_;
  };
};

/// Plant: tells that a batch is durable as soon as it is submitted.
class LyingJournal final : public journal::Journal {
 public:
  explicit LyingJournal(journal::Journal& inner) : inner_(inner) {}
  base::Result<journal::Ownership> own(core::PartitionId partition) override { return inner_.own(partition); }
  journal::Ticket submit(journal::Batch batch) override {
    const core::PartitionId partition = batch.partition;
    const journal::Ticket ticket = inner_.submit(std::move(batch));
    told_.push_back({ticket, partition, journal::Completion::durable, {}});
    return ticket;
  }
  void poll(std::vector<journal::Completed>& completed) override {
    std::vector<journal::Completed> truth;
    inner_.poll(truth);
    for (auto& one : std::exchange(told_, {})) completed.push_back(std::move(one));
  }
  journal::JournalCounters counters() const override { return inner_.counters(); }

 private:
  journal::Journal& inner_;
  std::vector<journal::Completed> told_;
};

/// Plant: `change` sees every batch before it is durable, and may alter it.
class MeddlingJournal final : public journal::Journal {
 public:
  MeddlingJournal(journal::Journal& inner, std::function<void(journal::Batch&)> change)
      : inner_(inner), change_(std::move(change)) {}
  base::Result<journal::Ownership> own(core::PartitionId partition) override { return inner_.own(partition); }
  journal::Ticket submit(journal::Batch batch) override {
    change_(batch);
    return inner_.submit(std::move(batch));
  }
  void poll(std::vector<journal::Completed>& completed) override { inner_.poll(completed); }
  journal::JournalCounters counters() const override { return inner_.counters(); }

 private:
  journal::Journal& inner_;
  std::function<void(journal::Batch&)> change_;
};

/// Plant: `change` sees every row that is read, and may alter it; false: the row is missing.
class MeddlingView final : public view::View {
 public:
  MeddlingView(view::View& inner, std::function<bool(view::Row&)> change)
      : inner_(inner), change_(std::move(change)) {}
  view::ReadTicket submit(view::ScanRequest request) override { return inner_.submit(std::move(request)); }
  void poll(std::vector<view::ReadAnswer>& answers) override {
    inner_.poll(answers);
    for (auto& answer : answers) {
      if (answer.result) meddle(*answer.result);
    }
  }
  base::Result<view::ScanResult> scan_now(const view::ScanRequest& request) const override {
    auto result = inner_.scan_now(request);
    if (result) meddle(*result);
    return result;
  }

 private:
  void meddle(view::ScanResult& result) const {
    std::erase_if(result.rows, [this](view::Row& row) { return !change_(row); });
  }

  view::View& inner_;
  std::function<bool(view::Row&)> change_;
};

/// Workflow code that is a function of history; answers inside poll(), or with disorder some polls later.
class SimActivator final : public core::Activator {
 public:
  using Code = std::function<core::CommandPtr(const core::ActivationRequest&)>;

  SimActivator(Code code, support::SeededRandom& random, bool disorder)
      : code_(std::move(code)), random_(random), disorder_(disorder) {}

  bool is_live_at(const core::StreamId& stream, std::uint64_t head) const override {
    const auto found = live_.find(stream);
    return found != live_.end() && found->second == head;
  }
  std::uint64_t restart_point(const core::StreamState&) const override { return 1; }
  void submit(core::ActivationRequest request) override {
    const std::uint64_t delay = disorder_ && random_.next() % 4 == 0 ? random_.next() % 30 : 0;
    waiting_.push_back({std::move(request), delay});
  }
  void poll(std::vector<core::ActivationAnswer>& answers) override {
    for (auto& [request, delay] : std::exchange(waiting_, {})) {
      if (delay > 0) {
        waiting_.push_back({std::move(request), delay - 1});
        continue;
      }
      core::ActivationAnswer answer{request.stream, request.head, code_(request)};
      live_[request.stream] = request.head;
      request.state = nullptr;
      answers.push_back(std::move(answer));
    }
  }
  void evict(const core::StreamId& stream) override { live_.erase(stream); }
  void evict_all() override {
    live_.clear();
    waiting_.clear();
  }
  bool busy() const { return !waiting_.empty(); }

 private:
  Code code_;
  support::SeededRandom& random_;
  bool disorder_;
  std::map<core::StreamId, std::uint64_t> live_;
  std::vector<std::pair<core::ActivationRequest, std::uint64_t>> waiting_;
};

/// Answers of another activator, some polls later.
class SlowActivator final : public core::Activator {
 public:
  SlowActivator(std::unique_ptr<core::Activator> inner, support::SeededRandom& random, bool disorder)
      : inner_(std::move(inner)), random_(random), disorder_(disorder) {}

  bool is_live_at(const core::StreamId& stream, std::uint64_t head) const override {
    return inner_->is_live_at(stream, head);
  }
  std::uint64_t restart_point(const core::StreamState& state) const override {
    return inner_->restart_point(state);
  }
  void submit(core::ActivationRequest request) override {
    waiting_.push_back({std::move(request), disorder_ && random_.next() % 4 == 0 ? random_.next() % 30 : 0});
  }
  void poll(std::vector<core::ActivationAnswer>& answers) override {
    for (auto& [request, delay] : std::exchange(waiting_, {})) {
      if (delay > 0) {
        waiting_.push_back({std::move(request), delay - 1});
      } else {
        inner_->submit(std::move(request));
      }
    }
    inner_->poll(answers);
  }
  void evict(const core::StreamId& stream) override { inner_->evict(stream); }
  void evict_all() override {
    waiting_.clear();
    inner_->evict_all();
  }

 private:
  std::unique_ptr<core::Activator> inner_;
  support::SeededRandom& random_;
  bool disorder_;
  std::vector<std::pair<core::ActivationRequest, std::uint64_t>> waiting_;
};

}  // namespace sandglass::tests::simulation
