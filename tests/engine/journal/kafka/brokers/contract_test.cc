// The contract of all journals, on a real broker.
#include "tests/engine/journal/contract.h"

#include <gtest/gtest.h>

#include "tests/engine/journal/kafka/brokers/kafka_store.h"

namespace sandglass::engine::journal {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Kafka, JournalContract, kafka::KafkaStore);

}  // namespace
}  // namespace sandglass::engine::journal
