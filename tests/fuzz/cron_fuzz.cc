// Cron expressions, and the texts in which schedules ask for moments: what is accepted fires, only at minutes
// that fit, and never goes back.
#include <string>

#include "engine/base/check.h"
#include "engine/schedule/plan.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass::engine::schedule;

constexpr std::int64_t kMinuteMs = 60'000;

void check_calendar(const Calendar& calendar, const Cron& cron) {
  std::int64_t at = 1'700'000'000'000;
  for (int i = 0; i < 5; ++i) {
    const auto next = calendar.next(UtcZone(), at);
    SG_CHECK(next && *next > at, "an accepted expression does not fire, or goes back");
    SG_CHECK(*next % kMinuteMs == 0 && first_fit(cron, *next / 1000, *next / 1000 + 1),
             "it fires where it does not fit");
    at = *next;
  }
}

}  // namespace

FUZZ_TARGET(cron) {
  const std::string text(input);
  if (const auto cron = parse_cron(text)) {
    const auto calendar = Calendar::make({.crons = {text}});
    SG_CHECK(calendar.has_value(), "a good expression makes no calendar");
    check_calendar(*calendar, *cron);
  }
  if (const auto question = decode_question(text)) {
    SG_CHECK(decode_question(encode(*question)) == *question,
             "a question reads differently when written again");
  }
  if (const auto plan = decode_plan(text)) {
    SG_CHECK(decode_plan(encode(*plan)) == *plan, "a plan reads differently when written again");
  }
}
