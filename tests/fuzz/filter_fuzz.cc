// The language in which runs are chosen. Oracle: what is accepted gives each run one answer, "not" the other
// one, and chooses only runs that were started within the time that it says.
#include <array>
#include <string>

#include "engine/base/check.h"
#include "engine/run/view/filter.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

namespace run = sandglass::engine::run;
namespace core = sandglass::engine::core;

const core::StreamId kRun = core::StreamId::named(core::StreamKind::run, "fuzz");

std::array<run::view::RunRow, 3> runs() {
  return {{{.status = run::RunStatus::running,
            .workflow = "agent",
            .tenant = "t",
            .user = "ann",
            .started_ms = 1},
           {.status = run::RunStatus::failed,
            .phase = run::Phase::done,
            .workflow = "hello",
            .version = "2",
            .tenant = "default",
            .user = "\"",
            .session = "a\\b",
            .started_ms = 1'793'491'200'000,
            .closed_ms = 1'793'491'200'001,
            .code = sandglass::engine::base::Code::step_failed,
            .questions = 1},
           {.status = run::RunStatus::stuck, .started_ms = 4'102'444'800'000, .cancel_requested = true}}};
}

}  // namespace

FUZZ_TARGET(filter) {
  const auto filter = run::view::Filter::parse(input);
  if (!filter) {
    SG_CHECK(filter.error().message.starts_with("filter"), "refused without saying where");
    return;
  }
  const auto within = filter->started_within();
  const auto other = run::view::Filter::parse("not (" + std::string(input) + ")");
  for (const auto& row : runs()) {
    const bool chosen = filter->chooses(kRun, row);
    SG_CHECK(chosen == filter->chooses(kRun, row), "the same run gets two answers");
    SG_CHECK(!chosen || (row.started_ms >= within.first_ms && row.started_ms < within.last_ms),
             "a run is chosen that was not started within the filter's time");
    if (other) SG_CHECK(other->chooses(kRun, row) != chosen, "not chooses the same");
  }
}
