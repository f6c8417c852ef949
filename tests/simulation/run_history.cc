#include "tests/simulation/run_history.h"

#include <algorithm>

#include "engine/base/hash.h"
#include "engine/run/codec/codec.h"

namespace sandglass::tests::simulation {

namespace codec = engine::codec;
namespace core = engine::core;
namespace fold = engine::fold;
namespace run = engine::run;
namespace view = engine::view;

core::StoredRecord RunHistory::record_of(const core::StreamId& stream, const std::string& key) const {
  return *codec::decode_record(stream, view::get_u64(view::parse_stream_key(key)->rest), *disk_.get(key));
}

run::State RunHistory::state_of(const core::StreamId& stream) const {
  fold::StreamFold fold(*kinds_.find(stream.kind), stream);
  const view::KeyRange range = view::record_range(stream, 1);
  const auto& rows = disk_.rows();
  for (auto row = rows.lower_bound(range.first); row != rows.end() && row->first < range.last; ++row) {
    const auto turn = fold::read_turn(fold.kind(), record_of(stream, row->first));
    if (!turn || !fold.apply(*turn)) break;
  }
  return static_cast<const core::StateOf<run::State>&>(*fold.state()).value;
}

RunHistory::Json RunHistory::result_of(const core::StreamId& stream) const {
  const core::PayloadRef result = state_of(stream).result;
  if (result.seq == 0) return nullptr;
  const auto record = record_of(stream, view::record_key(stream, result.seq));
  return Json::parse(record.slots[result.slot]->bytes, nullptr, false);
}

bool RunHistory::all_closed(const std::vector<core::StreamId>& streams) const {
  return std::ranges::all_of(streams,
                             [&](const auto& stream) { return run::is_closed(state_of(stream).status); });
}

std::string RunHistory::standings(const std::vector<core::StreamId>& streams) const {
  std::string text;
  for (const auto& stream : streams) {
    const run::State state = state_of(stream);
    text +=
        stream.text() + " is " + std::string(run::name_of(state.status)) + " " + state.stuck.message + "; ";
  }
  return text;
}

std::vector<std::string> RunHistory::lines(const core::StreamId& stream, bool with_time) const {
  std::vector<std::string> lines;
  for_each_event<run::Event>(stream, [&](const run::Event& event, const fold::ReadTurn& turn) {
    lines.push_back((with_time ? std::to_string(turn.header.time_ms) + " " : "") +
                    std::to_string(turn.header.seq) + " " + std::string(run::codec::event_name(event)) + " " +
                    engine::base::to_hex(run::codec::RunCodec::encode(event).body));
  });
  return lines;
}

}  // namespace sandglass::tests::simulation
