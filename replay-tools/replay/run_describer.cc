#include "replay-tools/replay/run_describer.h"

#include "engine/run/events.h"
#include "engine/run/state.h"
#include "replay-tools/replay/fields.h"

namespace sandglass::replay_tools::replay {

namespace core = engine::core;
namespace run = engine::run;

namespace {

template <class Event>
EventMarks marks_of(const Event& event, const std::string& name) {
  EventMarks marks{.step = name.starts_with("Step") || name.starts_with("Child"),
                   .operation = name.starts_with("Operation")};
  // An event that tells of an end with a code other than ok: what a person looks for.
  if constexpr (requires { event.code; }) {
    marks.error = event.code != engine::base::Code::ok;
  }
  if constexpr (std::is_same_v<Event, run::RunStuck>) marks.error = true;
  if constexpr (std::is_same_v<Event, run::OperationUnknown>) marks.error = true;
  return marks;
}

}  // namespace

std::vector<DescribedEvent> RunDescriber::events(const core::EventBatch& batch) const {
  std::vector<DescribedEvent> made;
  for (const run::Event& event : static_cast<const core::Events<run::Event>&>(batch).items) {
    std::visit(
        [&](const auto& each) {
          Described what = described(each);
          const EventMarks marks = marks_of(each, what.name);
          made.push_back({.what = std::move(what), .marks = marks});
        },
        event);
  }
  return made;
}

Facts RunDescriber::state(const core::StreamState& state) const {
  Facts facts;
  add_fields(facts, "", static_cast<const core::StateOf<run::State>&>(state).value);
  return facts;
}

}  // namespace sandglass::replay_tools::replay
