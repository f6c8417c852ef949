// What the bytes of one step in the middle of a run cost: header, row, leaf, chain; and reading them back.
#include <benchmark/benchmark.h>

#include "engine/base/check.h"
#include "engine/codec/header.h"
#include "engine/codec/record.h"

namespace sandglass::engine::codec {
namespace {

TurnHeader step_header() {
  TurnHeader header{.stream = core::StreamId::named(core::StreamKind::run, "bench"),
                    .seq = 4711,
                    .time_ms = 1'900'000'000'000,
                    .epoch = 12};
  header.previous = base::sha256("previous");
  header.events = {{.type = 21, .body = std::string(70, 'c')}, {.type = 20, .body = std::string(110, 's')}};
  return header;
}

core::StoredRecord step_record() {
  const TurnHeader header = step_header();
  core::StoredRecord record{.stream = header.stream, .seq = header.seq, .header = encode_header(header)};
  for (int i = 0; i < 2; ++i) {
    record.slots.push_back(
        std::make_shared<const core::Slot>(core::Slot{core::Encoding::json, std::string(100, '1')}));
  }
  return record;
}

void encode_a_header(benchmark::State& state) {
  const TurnHeader header = step_header();
  for (auto _ : state) benchmark::DoNotOptimize(encode_header(header));
}
BENCHMARK(encode_a_header);

void decode_a_header(benchmark::State& state) {
  const std::string bytes = encode_header(step_header());
  for (auto _ : state) benchmark::DoNotOptimize(decode_header(core::kRecordFormat, bytes));
}
BENCHMARK(decode_a_header);

void hash_a_leaf(benchmark::State& state) {
  const core::StoredRecord record = step_record();
  for (auto _ : state) benchmark::DoNotOptimize(leaf_hash(record));
}
BENCHMARK(hash_a_leaf);

void hash_a_chain_link(benchmark::State& state) {
  const base::Hash256 leaf = base::sha256("leaf");
  base::Hash256 chain = genesis_chain("bench", 1);
  for (auto _ : state) benchmark::DoNotOptimize(chain = chain_hash(chain, 1, 7, 12, leaf));
}
BENCHMARK(hash_a_chain_link);

void encode_a_record(benchmark::State& state) {
  const core::StoredRecord record = step_record();
  for (auto _ : state) benchmark::DoNotOptimize(encode_record(record));
}
BENCHMARK(encode_a_record);

void decode_a_record(benchmark::State& state) {
  const core::StoredRecord record = step_record();
  const std::string row = encode_record(record);
  for (auto _ : state) benchmark::DoNotOptimize(decode_record(record.stream, record.seq, row));
}
BENCHMARK(decode_a_record);

}  // namespace
}  // namespace sandglass::engine::codec

BENCHMARK_MAIN();
