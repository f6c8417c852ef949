// Port: one partition on the brokers, as a transactional producer and two readings of the log see it. Every
// call returns at once; what becomes of it comes as an event. The real adapter is client/; a simulation may
// bring its own.
//
// What implementations guarantee:
//   - initialised: whoever had the same transactional id is fenced, its open transaction ended.
//   - delivered: every in-sync replica has the message (acks=all), behind all that were delivered before it.
//   - read: messages come in the order of the log. `published` shows only those of committed transactions.
//   - failed: nothing more is heard of what was produced or committed; the object is of no more use (J27).
//
// Thread rule: one thread. Ownership: destroying it gives up whatever is under way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/journal/kafka/wire.h"

namespace sandglass::engine::journal::kafka {

enum class Reading : std::uint8_t { everything, published };

struct BrokerEvent {
  enum class What : std::uint8_t {
    initialised,
    delivered,
    committed,
    message,
    not_there,  // the log has no such offset to read from
    fenced,     // another has the transactional id
    failed,     // anything else: what is under way is unknown
  };
  What what = What::failed;
  std::uint64_t token = 0;                // delivered: the message's; message, not_there: the reading's
  std::int64_t offset = -1;               // delivered
  Reading reading = Reading::everything;  // message, not_there
  ReadMessage message;                    // message
  std::string why;                        // fenced, failed, not_there
};

enum class Taken : std::uint8_t { yes, full, refused };  // full: again after the next event

class Broker {
 public:
  static constexpr std::int64_t kLogStart = -2;

  virtual ~Broker() = default;

  virtual void init() = 0;
  /// A transaction begins. Refused: an event says why.
  virtual bool begin() = 0;
  /// Lies until send() lets all that was produced go together.
  virtual Taken produce(const Message& message, std::uint64_t token) = 0;
  virtual void send() = 0;
  /// Nothing may be undelivered.
  virtual void commit() = 0;

  /// Reads from an offset on, or from the log's start; ends the former reading of that kind. What comes bears
  /// the token: events of the former reading may still be on their way to whoever takes them.
  virtual void read(Reading reading, std::int64_t from, std::uint64_t token) = 0;
  virtual void stop(Reading reading) = 0;

  virtual void poll(std::vector<BrokerEvent>& events) = 0;
};

}  // namespace sandglass::engine::journal::kafka
