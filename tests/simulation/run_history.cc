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

engine::base::Result<core::StoredRecord> RunHistory::record_of(const core::StreamId& stream,
                                                               const std::string& key) const {
  return codec::decode_record(stream, view::get_u64(view::parse_stream_key(key)->rest), *disk_.get(key));
}

engine::base::Result<fold::ReadTurn> RunHistory::turn_of(const core::StreamId& stream,
                                                         const std::string& key) const {
  const auto record = record_of(stream, key);
  const fold::AnyKind* kind = kinds_.find(stream.kind);
  if (!record) return std::unexpected(record.error());
  if (kind == nullptr)
    return engine::base::fail(engine::base::Code::format_unknown, "no such kind of stream");
  return fold::read_turn(*kind, *record);
}

run::State RunHistory::state_of(const core::StreamId& stream) const {
  fold::StreamFold fold(*kinds_.find(stream.kind), stream);
  const view::KeyRange range = view::record_range(stream, 1);
  const auto& rows = disk_.rows();
  for (auto row = rows.lower_bound(range.first); row != rows.end() && row->first < range.last; ++row) {
    const auto turn = turn_of(stream, row->first);
    if (!turn || !fold.apply(*turn)) break;
  }
  return static_cast<const core::StateOf<run::State>&>(*fold.state()).value;
}

RunHistory::Json RunHistory::result_of(const core::StreamId& stream) const {
  const core::PayloadRef result = state_of(stream).result;
  if (result.seq == 0) return nullptr;
  const auto record = record_of(stream, view::record_key(stream, result.seq));
  if (!record || result.slot >= record->slots.size()) return nullptr;
  return Json::parse(record->slots[result.slot]->bytes, nullptr, false);
}

std::vector<core::StreamId> RunHistory::families(const std::vector<core::StreamId>& streams) const {
  std::vector<core::StreamId> all = streams;
  const auto add = [&all](const core::StreamId& stream) {
    const bool is_run = stream.kind == core::StreamKind::run;  // a damaged event may name anything
    if (is_run && std::ranges::find(all, stream) == all.end()) all.push_back(stream);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const core::StreamId stream = all[i];  // the list grows meanwhile
    for_each_event<run::Event>(stream, [&](const run::Event& event, const fold::ReadTurn&) {
      if (const auto* child = std::get_if<run::ChildScheduled>(&event)) add(child->run);
      if (const auto* next = std::get_if<run::RunContinued>(&event)) add(next->run);
    });
  }
  return all;
}

core::StreamId RunHistory::last_of(core::StreamId stream) const {
  for (;;) {
    const run::State state = state_of(stream);
    if (state.status != run::RunStatus::continued) return stream;
    stream = state.successor;
  }
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
