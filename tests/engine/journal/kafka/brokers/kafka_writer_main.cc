// A node that owns partition 0 and writes until it is ended or loses it. Usage: kafka_writer BOOTSTRAP TOPIC
// FOLDER
//
// Says on standard output, a line each: "owned EPOCH SEQUENCE", "ack SEQUENCE HASH" for each acknowledged
// record, and at its end "fenced" or "unknown" with the reason.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/engine/journal/kafka/brokers/kafka_node.h"

namespace sandglass::engine::journal::kafka {
namespace {

constexpr std::size_t kInFlight = 8;

int write_until_lost(const std::string& bootstrap, const std::string& topic, const std::string& folder) {
  Node node(bootstrap, topic, folder);
  const auto journal = node.journal();
  const auto owned = journal->own(0);
  if (!owned) {
    std::printf("refused %s\n", owned.error().message.c_str());
    return 2;
  }
  std::printf("owned %llu %llu\n", static_cast<unsigned long long>(owned->epoch),
              static_cast<unsigned long long>(owned->last_sequence));
  std::fflush(stdout);
  Writer writer(0, *owned);
  std::map<Ticket, std::pair<core::Sequence, base::Hash256>> under_way;
  std::vector<Completed> completed;
  while (true) {
    while (under_way.size() < kInFlight) {
      Batch batch = writer.batch(2, 100);
      const core::OrderLink last = batch.records.back().link;
      under_way.emplace(journal->submit(std::move(batch)), std::pair(last.sequence, last.chain));
    }
    completed.clear();
    journal->poll(completed);
    for (const Completed& each : completed) {
      if (each.completion != Completion::durable) {
        std::printf("%s %s\n", each.completion == Completion::fenced ? "fenced" : "unknown",
                    each.message.c_str());
        return 0;
      }
      const auto& [sequence, chain] = under_way.at(each.ticket);
      std::printf("ack %llu %s\n", static_cast<unsigned long long>(sequence), chain.hex().c_str());
      under_way.erase(each.ticket);
    }
    std::fflush(stdout);
    if (completed.empty()) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka

int main(int argc, char** argv) {
  if (argc != 4) return 1;
  return sandglass::engine::journal::kafka::write_until_lost(argv[1], argv[2], argv[3]);
}
