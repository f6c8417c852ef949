// Readers from outside: one of what is published and one of everything, from the topic's start on, who judge
// each message by the rule alone. Thread rule: one thread.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/codec/record.h"
#include "engine/journal/kafka/apply_rule.h"
#include "engine/journal/kafka/client/client.h"
#include "tests/engine/journal/journal_fixture.h"

namespace sandglass::engine::journal::kafka {

class TopicReaders {
 public:
  TopicReaders(const std::string& bootstrap, const std::string& topic)
      : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    auto opened = client::KafkaClient::open(
        {.settings = {.bootstrap = bootstrap}, .topic = topic, .journal_id = "reader"});
    EXPECT_TRUE(opened) << opened.error().message;
    client_ = std::move(*opened);
    auto broker = client_->broker(0, event_.get());
    EXPECT_TRUE(broker) << broker.error().message;
    broker_ = std::move(*broker);
    for (const Reading reading : {Reading::everything, Reading::published})
      broker_->read(reading, Broker::kLogStart, 0);
  }

  /// Takes what has come.
  void poll() {
    std::vector<BrokerEvent> events;
    broker_->poll(events);
    for (const BrokerEvent& event : events) {
      ASSERT_EQ(event.what, BrokerEvent::What::message) << event.why;
      take(event);
    }
  }
  /// Until both have seen this sequence.
  void wait_for(core::Sequence sequence) {
    while (everything_.chains.size() < sequence || published_.chains.size() < sequence) {
      poll();
      if (testing::Test::HasFatalFailure()) return;
      pollfd wanted{.fd = event_.get(), .events = POLLIN, .revents = 0};
      ::poll(&wanted, 1, 100);
      std::uint64_t count = 0;
      static_cast<void>(::read(event_.get(), &count, sizeof count));
    }
  }
  /// Chain hashes, of sequence i + 1.
  const std::vector<base::Hash256>& everything() const { return everything_.chains; }
  const std::vector<base::Hash256>& published() const { return published_.chains; }
  int skipped() const { return skipped_; }

 private:
  struct Follower {
    std::vector<base::Hash256> chains;
    ApplyRule rule{kMeta.journal_id,
                   {.sequence = 0, .chain = codec::genesis_chain(kMeta.journal_id, 0), .epoch = 0},
                   [this](core::Sequence sequence) { return std::optional(chains[sequence - 1]); }};
  };

  void take(const BrokerEvent& event) {
    const bool published = event.reading == Reading::published;
    Follower& follower = published ? published_ : everything_;
    const auto& envelope = event.message.envelope;
    ASSERT_TRUE(envelope) << envelope.error().message;
    std::optional<base::Hash256> hash;
    if (envelope->sequenced()) {
      const auto record = decode_record(*envelope, event.message.value, 0);
      ASSERT_TRUE(record) << record.error().message;
      hash = record->link.chain;
    }
    const Judgement judgement = follower.rule.judge(*envelope, hash);
    const bool skipped = judgement.verdict == Verdict::skip;
    ASSERT_TRUE(judgement.verdict == Verdict::apply || judgement.verdict == Verdict::pass ||
                (skipped && !published))
        << (published ? "published: " : "everything: ") << (skipped ? "a sequence twice" : judgement.why)
        << " at offset " << event.message.offset;
    skipped_ += skipped;
    if (judgement.verdict == Verdict::apply) follower.chains.push_back(*hash);
  }

  base::UniqueFd event_;
  std::unique_ptr<client::KafkaClient> client_;
  std::unique_ptr<Broker> broker_;
  Follower everything_;
  Follower published_;
  int skipped_ = 0;
};

}  // namespace sandglass::engine::journal::kafka
