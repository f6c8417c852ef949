// Who may own a journal: one engine at a time has its lease, which is a place in a consumer group (J27).
//
//   asking ──another has it──▶ others ──its session has ended──▶ joining ──assigned──▶ ours ──▶ lost
//      │                         ▲                                  │
//      └──────nobody has it──────┼──────────────────────────────────┘ another was faster
//
// An engine joins the group only when nobody else is in it, so that none loses its place because another
// comes; of several that join at once, the one that is assigned partition 0 has the lease. One that is told
// to take over joins all the same, and with that ends the lease of the one that has it. Membership is static:
// an engine that starts again has its place at once, and one that has ended keeps it until its session has
// ended. Nothing is read through the group. The name of a member says what others must know of it.
//
// The lease decides who tries. What keeps a former owner out is the fence (J25), not this.
//
// Thread rule: any thread; `on_lost` comes from a thread of the lease, once. Errors: those of trouble.h.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/base/result.h"
#include "engine/journal/kafka/cluster/settings.h"

namespace sandglass::engine::journal::kafka::client {

/// An engine, as the others see it. None of the fields has a slash.
struct LeaseHolder {
  std::string host;
  std::string process;
  std::string folder;  // the id of its data folder
  std::string blobs;   // which store its blobs are in (J29)
  std::string key;     // tells its tenant key from others
  std::string place;   // where that folder is: a copy of it is another member

  std::string encode() const;
  static LeaseHolder decode(std::string_view name);
  /// Of the member: its own, for as long as its folder stays where it is.
  std::string name() const { return folder + "-" + place; }
  /// For people.
  std::string text() const;
};

struct LeaseOptions {
  cluster::Settings settings;
  std::string topic;
  std::string group;
  LeaseHolder self;
  std::int64_t session_ms = 10'000;
  std::function<void(const base::Error&)> on_lost;
};

class Lease {
 public:
  static base::Result<std::unique_ptr<Lease>> open(LeaseOptions options);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  enum class State : std::uint8_t { asking, others, joining, ours, lost };
  struct Standing {
    State state = State::asking;
    LeaseHolder holder;                // others
    std::optional<base::Error> error;  // waiting changes nothing
  };
  /// Waits for a change of it, at most so long.
  Standing wait(std::int64_t ms);
  /// Joins whoever has it: an operator wants this engine to take over.
  void take();

 private:
  explicit Lease(LeaseOptions options) : options_(std::move(options)) {}
  void work();
  base::Status make_asker();
  void ask();
  void take_answer(const rd_kafka_event_t* event);
  void join();
  void leave();
  void listen();
  bool has_it();
  bool is_taking();
  void rebalance(rd_kafka_event_t* event);
  void assigned(bool ours);
  void lose(const std::string& why);
  void set(State state, LeaseHolder holder = {});
  void fail(base::Error error);
  bool stopping(std::int64_t wait_ms);

  const LeaseOptions options_;
  // Of the thread.
  cluster::Client asker_;
  cluster::Queue answers_;
  cluster::Client member_;
  cluster::Queue events_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable wanted_;
  Standing standing_;
  bool change_ = false;
  bool taking_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace sandglass::engine::journal::kafka::client
