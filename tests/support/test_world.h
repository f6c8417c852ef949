// A whole engine core on memory parts for tests of shards: journal, view, activator and dispatcher that a
// test can hold back, a clock that it moves, and crashes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/codec/header.h"
#include "engine/codec/record.h"
#include "engine/journal/memory/journal.h"
#include "engine/shard/shard_set.h"
#include "engine/view/keys.h"
#include "engine/view/memory/view.h"
#include "tests/support/seeded_random.h"
#include "tests/support/test_kind.h"

namespace sandglass::tests {

namespace shard = engine::shard;
namespace journal = engine::journal;
namespace view = engine::view;
namespace codec = engine::codec;

/// Forwards to a journal; completions are kept back while `closed`.
class GatedJournal final : public journal::Journal {
 public:
  explicit GatedJournal(journal::Journal& inner) : inner_(inner) {}
  base::Result<journal::Ownership> own(core::PartitionId partition) override { return inner_.own(partition); }
  journal::Ticket submit(journal::Batch batch) override {
    ++batches;
    return inner_.submit(std::move(batch));
  }
  void poll(std::vector<journal::Completed>& completed) override {
    if (!closed) inner_.poll(completed);
  }
  journal::JournalCounters counters() const override { return inner_.counters(); }

  bool closed = false;
  std::uint64_t batches = 0;

 private:
  journal::Journal& inner_;
};

/// Workflow code is a function of the request. Answers are kept back while `closed`.
class TestActivator final : public core::Activator {
 public:
  using Code = std::function<base::Result<core::CommandPtr>(const core::ActivationRequest&)>;

  bool is_live_at(const core::StreamId& stream, std::uint64_t head) const override {
    const auto found = live_.find(stream);
    return found != live_.end() && found->second == head;
  }
  std::uint64_t restart_point(const core::StreamState&) const override { return 1; }
  void submit(core::ActivationRequest request) override { requests_.push_back(std::move(request)); }
  void poll(std::vector<core::ActivationAnswer>& answers) override {
    if (closed) return;
    for (core::ActivationRequest& request : std::exchange(requests_, {})) {
      if (request.rebuild) ++rebuilds;
      core::ActivationAnswer answer{request.stream, request.head, core::CommandPtr{}};
      if (request.question) {
        ++questions;
        answer.said = say ? say(request) : base::Result<std::string>("null");
      } else {
        ++activations;
        if (code) answer.command = code(request);
      }
      live_[request.stream] = request.head;
      seen.push_back(std::move(request));
      seen.back().state = nullptr;
      answers.push_back(std::move(answer));
    }
  }
  void evict(const core::StreamId& stream) override { live_.erase(stream); }
  void evict_all() override {
    live_.clear();
    requests_.clear();
  }

  Code code;
  std::function<base::Result<std::string>(const core::ActivationRequest&)> say;  // to questions
  bool closed = false;
  int activations = 0;
  int questions = 0;
  int rebuilds = 0;
  std::vector<core::ActivationRequest> seen;

 private:
  std::map<core::StreamId, std::uint64_t> live_;
  std::vector<core::ActivationRequest> requests_;
};

/// Keeps what was handed out; the test finishes it.
class TestDispatcher final : public core::Dispatcher {
 public:
  void submit(const core::StreamId& stream, core::Action action) override {
    submitted.emplace_back(stream, std::move(action));
  }
  void poll(std::vector<core::FinishedAction>& out) override {
    for (auto& one : std::exchange(finished, {})) out.push_back(std::move(one));
  }
  void abandon_all() override { finished.clear(); }

  void finish(const core::StreamId& stream, const core::Action& action, std::string result = "\"ok\"") {
    finished.push_back({stream,
                        {.kind = action.kind,
                         .path = action.path,
                         .token = action.token,
                         .result = test_payload(std::move(result))}});
  }

  std::vector<std::pair<core::StreamId, core::Action>> submitted;
  std::vector<core::FinishedAction> finished;
};

class World {
 public:
  explicit World(std::uint64_t seed = 1, shard::ShardConfig made_config = {.partitions = 4})
      : config(made_config), random(seed), disk(random) {
    kinds.add(std::make_shared<TestKind>());
    shard::register_partition_kind(kinds);
    open();
  }

  void open() {
    const auto opened = try_open();
    ASSERT_TRUE(opened) << opened.error().message;
  }
  base::Status try_open() {
    journal_options.meta.partitions = config.partitions;
    inner = std::make_unique<journal::MemoryJournal>(disk, random, journal_options);
    gate = std::make_unique<GatedJournal>(*inner);
    rows = std::make_unique<view::MemoryView>(disk, random);
    reads = std::make_unique<shard::ViewReads>(*rows);
    activator = std::make_unique<TestActivator>();
    activator->code = code;
    dispatcher = std::make_unique<TestDispatcher>();
    auto opened = shard::ShardSet::open(config, {kinds, *rows, *reads, *gate, *activator, *dispatcher});
    if (!opened) return std::unexpected(opened.error());
    set = std::move(*opened);
    return {};
  }
  /// Power is lost: what was not synced may be gone.
  void crash() {
    const auto opened = open_again();
    ASSERT_TRUE(opened) << opened.error().message;
  }
  /// The same, and the opening may be refused.
  base::Status open_again() {
    set.reset();
    reads.reset();
    rows.reset();
    gate.reset();
    inner.reset();
    disk.crash();
    return try_open();
  }
  void tick(int polls = 1) {
    for (int i = 0; i < polls; ++i) {
      now.monotonic_ns += 100'000;
      set->poll(now);
    }
  }
  void sleep(std::int64_t ms) {
    now.wall_ms += ms;
    now.monotonic_ns += ms * 1'000'000;
    tick();
  }
  /// Polls until the condition holds; fails the test if it does not come true.
  testing::AssertionResult until(const std::function<bool()>& condition, int polls = 2000) {
    for (int i = 0; i < polls; ++i) {
      if (condition()) return testing::AssertionSuccess();
      tick();
    }
    return testing::AssertionFailure() << "did not come true within " << polls << " polls";
  }
  void settle() {
    ASSERT_TRUE(until([&] { return set->quiet(); }));
    tick(20);
  }

  /// Answers of calls, in the order in which they came.
  struct Answer {
    std::string name;
    base::Result<shard::Reply> reply;
  };
  void call(std::string name, const core::StreamId& target, core::CommandPtr command,
            std::string request_id = {}, std::string request = {},
            std::optional<std::uint64_t> expected_head = {}) {
    set->submit({.target = target,
                 .command = std::move(command),
                 .request_id = std::move(request_id),
                 .request_digest = base::sha256(request),
                 .expected_head = expected_head,
                 .on_reply = [this, name](base::Result<shard::Reply> reply) {
                   answers.push_back({name, std::move(reply)});
                 }});
  }
  base::Result<shard::Reply> call_now(const core::StreamId& target, core::CommandPtr command,
                                      std::string request_id = {}, std::string request = {},
                                      std::optional<std::uint64_t> expected_head = {}) {
    const std::size_t before = answers.size();
    call("call", target, std::move(command), std::move(request_id), std::move(request), expected_head);
    EXPECT_TRUE(until([&] { return answers.size() > before; }));
    return answers.back().reply;
  }
  TestState state_of(const core::StreamId& stream, std::uint64_t* head = nullptr) {
    std::optional<TestState> state;
    set->read(stream, [&](base::Result<shard::StreamRead> read) {
      EXPECT_TRUE(read) << read.error().message;
      state = read ? test_state(*read->state) : TestState{};
      if (head != nullptr && read) *head = read->head;
    });
    EXPECT_TRUE(until([&] { return state.has_value(); }));
    return *state;
  }
  /// Headers of the stream's durable records.
  std::vector<codec::TurnHeader> headers(const core::StreamId& stream) {
    std::vector<codec::TurnHeader> all;
    const view::KeyRange range = view::record_range(stream, 1);
    for (const auto& row : disk.scan({.first = range.first, .last = range.last, .limit = 100'000}).rows) {
      const auto record =
          codec::decode_record(stream, view::get_u64(view::parse_stream_key(row.key)->rest), row.value);
      all.push_back(*codec::decode_header(*record));
    }
    return all;
  }
  std::size_t rows_of(view::Index index) {
    std::size_t count = 0;
    for (std::uint16_t p = 0; p < config.partitions; ++p) {
      const view::KeyRange range = view::index_range(p, index);
      count += disk.scan({.first = range.first, .last = range.last, .limit = 1'000'000}).rows.size();
    }
    return count;
  }

  shard::ShardConfig config;
  support::SeededRandom random;
  view::MemoryDisk disk;
  engine::fold::Registry kinds;
  journal::MemoryJournalOptions journal_options;
  TestActivator::Code code;
  std::unique_ptr<journal::MemoryJournal> inner;
  std::unique_ptr<GatedJournal> gate;
  std::unique_ptr<view::MemoryView> rows;
  std::unique_ptr<shard::ViewReads> reads;
  std::unique_ptr<TestActivator> activator;
  std::unique_ptr<TestDispatcher> dispatcher;
  std::unique_ptr<shard::ShardSet> set;
  shard::Now now{.wall_ms = 1'000'000, .monotonic_ns = 1};
  std::vector<Answer> answers;
};

}  // namespace sandglass::tests
