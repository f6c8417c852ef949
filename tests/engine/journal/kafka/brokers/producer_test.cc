// Producers that are left in the midst of their work. The client's library may not end the program for it: an
// engine steps down by leaving its producers (J27).
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/draw.h"
#include "tests/engine/journal/kafka/brokers/kafka_store.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::journal::kafka {
namespace {

constexpr int kWriters = 8;
constexpr int kRounds = 15;
constexpr std::uint64_t kMostSpins = 400'000;  // beyond the moment in which a transaction gets its partition

/// Until the broker says this; false: it said that it has failed.
bool wait_for_event(Broker& broker, BrokerEvent::What wanted) {
  std::vector<BrokerEvent> events;
  while (true) {
    broker.poll(events);
    for (const BrokerEvent& event : events) {
      if (event.what == wanted) return true;
      if (event.what == BrokerEvent::What::failed || event.what == BrokerEvent::What::fenced) return false;
    }
    events.clear();
    std::this_thread::yield();
  }
}

/// Begins transactions and leaves each a drawn moment after its first message.
void leave_again_and_again(const std::string& bootstrap, const std::string& topic, int number) {
  const std::string id = topic + "-" + std::to_string(number);
  tests::support::SeededRandom random(static_cast<std::uint64_t>(number));
  const base::UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  auto client =
      client::KafkaClient::open({.settings = {.bootstrap = bootstrap}, .topic = topic, .journal_id = id});
  ASSERT_TRUE(client) << client.error().message;
  for (int round = 0; round < kRounds; ++round) {
    auto broker = (*client)->broker(0, event.get());
    ASSERT_TRUE(broker) << broker.error().message;
    (*broker)->init();
    ASSERT_TRUE(wait_for_event(**broker, BrokerEvent::What::initialised));
    ASSERT_TRUE((*broker)->begin());
    ASSERT_EQ((*broker)->produce(encode_filler(id), 0), Taken::yes);
    (*broker)->send();
    volatile std::uint64_t spin = 0;
    for (std::uint64_t spins = base::draw_below(random, kMostSpins); spin < spins;) spin = spin + 1;
  }
}

// FR-97: purged in the middle of a transaction, and a new one of the same id each time.
TEST(KafkaProducers, OnesThatAreLeftAsTheirTransactionsBeginDoNotEndTheProgram) {
  const std::string topic = make_test_topic(KafkaStore::bootstrap());
  std::vector<std::thread> writers;
  for (int number = 0; number < kWriters; ++number)
    writers.emplace_back([&topic, number] { leave_again_and_again(KafkaStore::bootstrap(), topic, number); });
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka
