#include "engine/schedule/zones/answers.h"

#include "engine/schedule/plan.h"
#include "engine/schedule/zones/zones.h"

namespace sandglass::engine::schedule::zones {
namespace {

constexpr std::string_view kWorkflow = "workflow ";

core::ActivityResult failed(base::Error error) {
  core::ActivityResult result;
  result.outcome = core::Outcome::not_done;
  result.encoding = core::Encoding::none;
  result.code = error.code;
  result.side = core::FailureSide::platform;
  result.retryable = true;
  result.message = std::move(error.message);
  return result;
}

core::ActivityResult done(core::Encoding encoding, std::string bytes) {
  core::ActivityResult result;
  result.encoding = encoding;
  result.bytes = std::move(bytes);
  return result;
}

}  // namespace

core::ActivityResult answer_plan(const core::ActivityCall& call,
                                 const std::map<std::string, std::string>& versions) {
  const std::string_view text = call.input ? std::string_view(call.input->bytes) : std::string_view();
  const std::size_t line = text.find('\n');
  if (!text.starts_with(kWorkflow) || line == std::string_view::npos)
    return failed({base::Code::invalid_argument, "this is no question of a schedule"});
  const std::string workflow(text.substr(kWorkflow.size(), line - kWorkflow.size()));
  const auto version = versions.find(workflow);
  if (version == versions.end())
    return failed(
        {base::Code::workflow_unknown,
         "no workflow named " + workflow + " is registered in this engine; the schedule waits for one"});
  const auto question = decode_question(text.substr(line + 1));
  if (!question) return failed(question.error());
  const auto calendar = Calendar::make(question->timing);
  if (!calendar) return failed(calendar.error());
  const auto zone = find_zone(question->timing.zone);
  if (!zone) return failed(zone.error());
  const Plan plan = make_plan(*question, *calendar, **zone, zone_data_version());
  return done(core::Encoding::bytes, version->second + "\n" + encode(plan));
}

}  // namespace sandglass::engine::schedule::zones
