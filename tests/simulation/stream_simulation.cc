#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "engine/codec/record.h"
#include "engine/shard/shard_set.h"
#include "tests/simulation/checks.h"
#include "tests/simulation/outside.h"
#include "tests/simulation/program.h"
#include "tests/simulation/sim_engine.h"
#include "tests/simulation/sim_ports.h"
#include "tests/simulation/simulation.h"
#include "tests/support/test_kind.h"

namespace sandglass::tests::simulation {
namespace {

namespace codec = engine::codec;

constexpr std::size_t kStreams = 4;
constexpr std::size_t kCalls = 12;
constexpr std::uint64_t kMaxPolls = 20'000;

/// A caller's wish: applied once, however often it is asked for.
struct Call {
  std::size_t stream = 0;
  std::int64_t amount = 0;  // 0: start the stream's program
  std::string id;
  std::uint64_t sent_by = ~std::uint64_t{0};  // process that it was sent to last
  bool acknowledged = false;
};

class Simulation {
 public:
  explicit Simulation(const SimOptions& options)
      : options_(options),
        random_(options.seed),
        outside_(options.seed * 7919),
        engine_(options, random_, kinds_, workload(), result_) {
    kinds_.add(std::make_shared<TestKind>());
    shard::register_partition_kind(kinds_);
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams_.push_back(test_stream("s" + std::to_string(i)));
      programs_.push_back(random_program(random_, kStreams));
      calls_.push_back({.stream = i, .id = "start" + std::to_string(i)});
    }
    for (std::size_t i = 0; i < kCalls; ++i) {
      calls_.push_back({.stream = random_.next() % kStreams,
                        .amount = 1 + static_cast<std::int64_t>(random_.next() % 1000),
                        .id = "call" + std::to_string(i)});
    }
  }

  SimResult run() {
    engine_.start();
    const std::uint64_t calm_after = options_.crashes ? 300 + random_.next() % 1500 : 0;
    while ((result_.polls % 16 != 0 || !done()) && result_.polls < kMaxPolls && result_.violations.empty()) {
      if (result_.polls < calm_after && random_.next() % 150 == 0) engine_.crash();
      talk();
      engine_.step();
    }
    if (!done() && result_.violations.empty()) violation("not everything came to an end: " + open_ends());
    check_end();
    if (!result_.violations.empty()) result_.dump = dump(engine_.disk(), kPartitions);
    return std::move(result_);
  }

 private:
  Workload workload() {
    return {.make_activator =
                [this](bool disorder) {
                  return std::make_unique<SimActivator>(
                      [this](const core::ActivationRequest& request) { return code(request); }, random_,
                      disorder);
                },
            .add_activities =
                [this](core::ActivityRegistry& registry) {
                  activity_ = std::make_shared<SimActivity>(outside_, engine_.clock().ns, options_.disorder);
                  registry.add("echo", std::make_shared<JudgedActivity>(*this, activity_));
                },
            .peek = [this](const journal::Batch& batch) { peek(batch); },
            .next_outside_ns = [this] { return activity_->next_ns(); },
            .poll_outside = [this] { activity_->poll(); }};
  }

  // ---- callers

  void talk() {
    for (Call& call : calls_) {
      if (call.acknowledged || call.sent_by == engine_.process() ||
          (options_.disorder && random_.next() % 20 != 0)) {
        continue;
      }
      call.sent_by = engine_.process();
      engine_.set().submit({.target = streams_[call.stream],
                            .command = call.amount == 0 ? test_command(Wake{"start"})
                                                        : test_command(Add{"called", call.amount}),
                            .request_id = call.id,
                            .request_digest = base::sha256(call.id),
                            .on_reply = [this, &call](base::Result<shard::Reply> reply) {
                              answered(call, std::move(reply));
                            }});
    }
    if (options_.disorder && random_.next() % 50 == 0) read(random_.next() % kStreams);
  }

  void answered(Call& call, base::Result<shard::Reply> reply) {
    if (!reply) {
      if (reply.error().code != base::Code::outcome_unknown)
        violation("a call was refused: " + reply.error().message);
      return;  // sent again to the next process
    }
    call.acknowledged = true;
    see(call.stream, reply->head);
  }

  /// J5: what anybody has seen never goes back.
  void see(std::size_t stream, std::uint64_t head) { seen_[stream] = std::max(seen_[stream], head); }

  void read(std::size_t stream) {
    const std::uint64_t at_least = seen_[stream];
    engine_.set().read(streams_[stream], [this, stream, at_least](base::Result<shard::StreamRead> read) {
      if (!read) return;
      if (read->head < at_least) {
        violation("J5: " + streams_[stream].text() + " was seen at record " + std::to_string(at_least) +
                  " and is at " + std::to_string(read->head));
      }
      see(stream, read->head);
    });
  }

  // ---- workflow code, and the outside

  core::CommandPtr code(const core::ActivationRequest& request) {
    const auto found = std::ranges::find(streams_, request.stream);
    const auto at = static_cast<std::size_t>(found - streams_.begin());
    return next_of(programs_[at], test_state(*request.state), request.turns.back().info.time_ms, streams_);
  }

  /// Judges each start: the record that asks for it must be durable (nothing leaves before it is).
  class JudgedActivity final : public core::Activity {
   public:
    JudgedActivity(Simulation& simulation, std::shared_ptr<core::Activity> inner)
        : simulation_(simulation), inner_(std::move(inner)) {}
    void start(core::ActivityCall call, core::ActivityDone done) override {
      simulation_.judge(call.stream, call.path);
      inner_->start(std::move(call), std::move(done));
    }
    void cancel(const core::StreamId& stream, const std::string& path, const core::Token& token) override {
      inner_->cancel(stream, path, token);
    }

   private:
    Simulation& simulation_;
    std::shared_ptr<core::Activity> inner_;
  };

  void judge(const core::StreamId& stream, const std::string& path) {
    const auto log = durable_log(stream);
    if (std::ranges::find(log, "3:" + path) == log.end()) {
      violation("an effect before its record is durable: " + stream.text() + " " + path);
    }
  }

  void peek(const journal::Batch& batch) {
    for (const auto& ordered : batch.records) {
      const auto turn = engine::fold::read_turn(*kinds_.find(ordered.record.stream.kind), ordered.record);
      if (ordered.record.stream.kind != core::StreamKind::test) continue;
      for (const TestEvent& event : static_cast<const core::Events<TestEvent>&>(*turn->events).items) {
        if (event.type == TestEventType::scheduled) judge(ordered.record.stream, event.text);
      }
    }
  }

  // ---- the end

  bool done() {
    if (!std::ranges::all_of(calls_, [](const Call& call) { return call.acknowledged; })) return false;
    if (!engine_.set().quiet() || engine_.actions_under_way() > 0) return false;
    return std::ranges::all_of(streams_,
                               [this](const auto& stream) {
                                 const auto log = durable_log(stream);
                                 return std::ranges::find(log, "1:end") != log.end();
                               }) &&
           undelivered() == 0;
  }

  std::string open_ends() {
    std::string text;
    for (const Call& call : calls_) text += call.acknowledged ? "" : call.id + " ";
    for (const auto& stream : streams_) {
      const auto log = durable_log(stream);
      if (std::ranges::find(log, "1:end") == log.end()) text += stream.text() + " ";
    }
    return text + std::to_string(undelivered()) + " undelivered, quiet " +
           (engine_.set().quiet() ? "yes" : "no");
  }

  std::size_t undelivered() const {
    std::size_t count = 0;
    for (std::uint16_t p = 0; p < kPartitions; ++p) {
      const view::KeyRange range = view::index_range(p, view::Index::undelivered);
      count += engine_.disk().scan({.first = range.first, .last = range.last}).rows.size();
    }
    return count;
  }

  std::vector<std::string> durable_log(const core::StreamId& stream) const {
    engine::fold::StreamFold fold(*kinds_.find(stream.kind), stream);
    const view::KeyRange range = view::record_range(stream, 1);
    for (const auto& row :
         engine_.disk().scan({.first = range.first, .last = range.last, .limit = 100'000}).rows) {
      const auto record =
          codec::decode_record(stream, view::get_u64(view::parse_stream_key(row.key)->rest), row.value);
      const auto turn = engine::fold::read_turn(fold.kind(), *record);
      if (!turn || !fold.apply(*turn)) break;
    }
    return test_state(*fold.state()).log;
  }

  void check_end() {
    if (!result_.violations.empty()) return;
    check_chains(engine_.disk(), kPartitions, "simulation", result_.violations);
    check_view(engine_.disk(), kinds_, result_.violations);
    for (std::size_t at = 0; at < kStreams; ++at) check_stream(at);
    for (const auto& [key, times] : outside_.all()) {
      if (!options_.crashes && times != 1) violation("performed " + std::to_string(times) + " times: " + key);
    }
  }

  void check_stream(std::size_t at) {
    const auto log = durable_log(streams_[at]);
    std::multiset<std::string> own;
    std::map<std::string, std::vector<std::string>> received;
    std::size_t called = 0;
    for (const std::string& entry : log) {
      if (entry.starts_with("8:")) {
        const std::string source = entry.substr(2, entry.rfind('/') - 2);
        received[source].push_back(entry.substr(entry.rfind('/') + 1));
      } else if (entry == "1:called") {
        ++called;
      } else {
        own.insert(entry);
      }
    }
    const std::string name = streams_[at].text();
    if (own != expected_log(programs_[at])) violation(name + " did not do what its program says");
    const auto wanted = std::ranges::count_if(
        calls_, [&](const Call& call) { return call.stream == at && call.amount != 0; });
    if (static_cast<std::ptrdiff_t>(called) != wanted) {
      violation("J19: " + name + " applied " + std::to_string(called) + " calls of " +
                std::to_string(wanted));
    }
    for (std::size_t from = 0; from < kStreams; ++from) {
      std::vector<std::string> sent;
      for (std::size_t op = 0; op < programs_[from].size(); ++op) {
        const Op& one = programs_[from][op];
        if (one.kind == Op::Kind::send && static_cast<std::size_t>(one.number) == at)
          sent.push_back("op" + std::to_string(op));
      }
      if (received[streams_[from].text()] != sent)
        violation("J18: messages to " + name + " from " + streams_[from].text());
    }
    // Where a message comes between a stream's own events is a matter of timing; all else is not.
    std::ranges::copy_if(log, std::back_inserter(result_.histories[name]),
                         [](const std::string& entry) { return !entry.starts_with("8:"); });
    for (auto& [source, messages] : received)
      result_.histories[name + " from " + source] = std::move(messages);
  }

  void violation(std::string what) { result_.violations.push_back(std::move(what)); }

  SimOptions options_;
  SimResult result_;
  support::SeededRandom random_;
  Outside outside_;
  engine::fold::Registry kinds_;
  std::vector<core::StreamId> streams_;
  std::vector<Program> programs_;
  std::vector<Call> calls_;
  std::map<std::size_t, std::uint64_t> seen_;
  std::shared_ptr<SimActivity> activity_;
  SimEngine engine_;
};

}  // namespace

SimResult simulate_streams(const SimOptions& options) {
  return Simulation(options).run();
}

}  // namespace sandglass::tests::simulation
