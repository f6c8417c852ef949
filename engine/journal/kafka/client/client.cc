#include "engine/journal/kafka/client/client.h"

#include <array>
#include <utility>

#include "engine/journal/kafka/client/producer.h"
#include "engine/journal/kafka/client/readings.h"

namespace sandglass::engine::journal::kafka::client {
namespace {

constexpr std::size_t kReadings = 2;

class PartitionBroker final : public Broker {
 public:
  PartitionBroker(const ClientOptions& options, std::array<std::unique_ptr<Consumer>, kReadings>& consumers,
                  core::PartitionId partition, int wake_fd)
      : options_(options), consumers_(consumers), partition_(partition), wake_fd_(wake_fd) {}

  void init() override {
    auto opened = Producer::open(options_, partition_, wake_fd_);
    if (!opened) {
      refused_ = opened.error().message;
      return;
    }
    producer_ = std::move(*opened);
    producer_->init();
  }
  bool begin() override { return producer_ && producer_->begin(); }
  Taken produce(const Message& message, std::uint64_t token) override {
    return producer_ ? producer_->produce(message, token) : Taken::refused;
  }
  void send() override {
    if (producer_) producer_->send();
  }
  void commit() override {
    if (producer_) producer_->commit();
  }
  void read(Reading reading, std::int64_t from, std::uint64_t token) override {
    const auto which = static_cast<std::size_t>(reading);
    readings_[which].reset();
    readings_[which] =
        std::make_unique<PartitionReading>(*consumers_[which], partition_, from, token, wake_fd_);
  }
  void stop(Reading reading) override { readings_[static_cast<std::size_t>(reading)].reset(); }
  void poll(std::vector<BrokerEvent>& events) override {
    if (!refused_.empty())
      events.push_back({.what = BrokerEvent::What::failed, .why = std::exchange(refused_, {})});
    if (producer_) producer_->poll(events);
    for (auto& reading : readings_) {
      if (reading) reading->poll(events);
    }
  }

 private:
  const ClientOptions& options_;
  std::array<std::unique_ptr<Consumer>, kReadings>& consumers_;
  const core::PartitionId partition_;
  const int wake_fd_;
  std::string refused_;
  std::unique_ptr<Producer> producer_;
  std::array<std::unique_ptr<PartitionReading>, kReadings> readings_;
};

}  // namespace

struct KafkaClient::Consumers {
  std::array<std::unique_ptr<Consumer>, kReadings> of;
};

KafkaClient::KafkaClient(ClientOptions options, std::unique_ptr<Consumers> consumers)
    : options_(std::move(options)), consumers_(std::move(consumers)) {}
KafkaClient::~KafkaClient() = default;

base::Result<std::unique_ptr<KafkaClient>> KafkaClient::open(ClientOptions options) {
  auto consumers = std::make_unique<Consumers>();
  for (const Reading reading : {Reading::everything, Reading::published}) {
    auto opened = Consumer::open(options, reading);
    if (!opened) return std::unexpected(opened.error());
    consumers->of[static_cast<std::size_t>(reading)] = std::move(*opened);
  }
  return std::unique_ptr<KafkaClient>(new KafkaClient(std::move(options), std::move(consumers)));
}

base::Result<std::unique_ptr<Broker>> KafkaClient::broker(core::PartitionId partition, int wake_fd) {
  return std::make_unique<PartitionBroker>(options_, consumers_->of, partition, wake_fd);
}

}  // namespace sandglass::engine::journal::kafka::client
