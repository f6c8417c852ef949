// Runs for people and clients: summaries, and one line per event. Names, paths and times; text of failures
// where the record at hand has it. Thread rule: pure functions.
#pragma once

#include <string>

#include "engine/fold/stream_fold.h"
#include "engine/run/events.h"
#include "engine/run/state.h"
#include "engine/run/view/run_view.h"
#include "schemas/sandglass/v1/run.pb.h"

namespace sandglass::engine::api {

void fill_summary(const core::StreamId& stream, const run::view::RunRow& row, std::uint64_t head,
                  ::sandglass::v1::RunSummary& out);

/// `turn` is the record that the event stands in: payloads that it holds itself are shown.
void fill_event(const run::Event& event, const fold::ReadTurn& turn, ::sandglass::v1::EventView& out);

/// The text behind a reference into this very record: JSON {"message": …} gives the message; empty if it is
/// elsewhere.
std::string text_in(const fold::ReadTurn& turn, const core::PayloadRef& ref);

}  // namespace sandglass::engine::api
