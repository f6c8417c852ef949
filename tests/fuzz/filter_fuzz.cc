// The language in which runs are chosen. Oracle: what is accepted gives each run one answer, "not" the other
// one, and chooses only runs that were started within the time that it says.
#include <algorithm>
#include <array>
#include <string>

#include "engine/base/check.h"
#include "engine/run/view/attributes.h"
#include "engine/run/view/filter.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

namespace run = sandglass::engine::run;
namespace core = sandglass::engine::core;

const core::StreamId kRun = core::StreamId::named(core::StreamKind::run, "fuzz");

const run::Attributes kSaid = {{"order", "A-17"},
                               {"n", std::int64_t{12}},
                               {"f", 0.5},
                               {"w", 3.0},
                               {"due", run::AttributeTime{1'793'491'200'000}},
                               {"paid", true}};

bool is_matched(const std::vector<std::uint32_t>& matches) {
  return std::ranges::any_of(kSaid, [&](const auto& one) {
    return std::ranges::binary_search(matches, run::view::match_of(one.first, one.second));
  });
}

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
  const auto matches = filter->matches();
  const auto said = [&]() -> const run::Attributes& { return kSaid; };
  for (const auto& row : runs()) {
    const bool chosen = filter->chooses(kRun, row, said);
    SG_CHECK(chosen == filter->chooses(kRun, row, said), "the same run gets two answers");
    SG_CHECK(!chosen || !matches || is_matched(*matches), "a run is chosen that would not be looked at");
    SG_CHECK(!chosen || (row.started_ms >= within.first_ms && row.started_ms < within.last_ms),
             "a run is chosen that was not started within the filter's time");
    if (other) SG_CHECK(other->chooses(kRun, row, said) != chosen, "not chooses the same");
  }
}
