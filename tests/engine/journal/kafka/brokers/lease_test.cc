// The lease of a journal on a real broker (J27).
#include "engine/journal/kafka/client/lease.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/engine/journal/kafka/brokers/kafka_store.h"

namespace sandglass::engine::journal::kafka::client {
namespace {

constexpr std::int64_t kSessionMs = 6'000;  // the least that brokers allow

std::unique_ptr<Lease> lease(const std::string& topic, const std::string& folder) {
  auto opened = Lease::open({.settings = {.bootstrap = KafkaStore::bootstrap()},
                             .topic = topic,
                             .group = topic,
                             .self = {.host = "here", .process = "1", .folder = folder},
                             .session_ms = kSessionMs});
  EXPECT_TRUE(opened) << opened.error().message;
  return std::move(*opened);
}

Lease::Standing wait_for(Lease& lease, Lease::State wanted) {
  while (true) {
    const Lease::Standing standing = lease.wait(1'000);
    if (standing.state == wanted) return standing;
    if (standing.error) {
      ADD_FAILURE() << standing.error->message;
      return standing;
    }
  }
}

TEST(KafkaLease, ANameIsReadBackAndOneThatIsNotOursIsEmpty) {
  const LeaseHolder holder{
      .host = "h", .process = "12", .folder = "f", .blobs = "b", .key = "k", .place = "p"};
  const LeaseHolder read = LeaseHolder::decode(holder.encode());
  EXPECT_EQ(read.encode(), holder.encode());
  EXPECT_EQ(read.folder, "f");
  EXPECT_EQ(LeaseHolder::decode("rdkafka").folder, "");
  EXPECT_EQ(LeaseHolder::decode("").host, "");
}

TEST(KafkaLease, OneHasItAndTheOthersSeeWhoAndGetItWhenItsSessionHasEnded) {
  const std::string topic = make_test_topic(KafkaStore::bootstrap());
  auto first = lease(topic, "first");
  wait_for(*first, Lease::State::ours);
  std::array others = {lease(topic, "second"), lease(topic, "third")};
  for (const auto& each : others) EXPECT_EQ(wait_for(*each, Lease::State::others).holder.folder, "first");

  // One that starts again has its place at once: the others are still told that it is the one.
  first.reset();
  first = lease(topic, "first");
  wait_for(*first, Lease::State::ours);
  for (const auto& each : others) EXPECT_EQ(each->wait(0).holder.folder, "first");

  if (std::getenv("SANDGLASS_LONG") == nullptr) return;  // the session takes its time
  // Of two that come at once the second may be assigned what the first has just got: that one starts again.
  first.reset();
  const std::array<std::string, 2> folders = {"second", "third"};
  while (true) {
    const std::array standing = {others[0]->wait(100), others[1]->wait(100)};
    bool settled = false;
    for (std::size_t i = 0; i < others.size(); ++i) {
      ASSERT_FALSE(standing[i].error) << standing[i].error->message;
      settled = settled ||
                (standing[i].state == Lease::State::ours && standing[1 - i].state == Lease::State::others &&
                 standing[1 - i].holder.folder == folders[i]);
      if (standing[i].state == Lease::State::lost) {
        others[i].reset();
        others[i] = lease(topic, folders[i]);
      }
    }
    if (settled) break;
  }
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka::client
