#include "engine/server/compose/hello.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/dispatch/function_activity.h"
#include "engine/workflow/context.h"

namespace sandglass::engine::server::compose {

namespace {

using base::Code;
using base::Result;
using workflow::Context;
using workflow::Json;
using workflow::Task;

constexpr std::int64_t kMostGreetings = 10'000;
constexpr std::size_t kMostShown = 100;

core::ActivityResult greet(const core::ActivityCall& call) {
  const Json input = Json::parse(call.input ? call.input->bytes : "", nullptr, false);
  if (!input.is_object() || !input.contains("name") || !input["name"].is_string()) {
    return {.outcome = core::Outcome::not_done,
            .code = Code::invalid_argument,
            .message = "hello.greet needs a name"};
  }
  const Json greeting =
      "Hello, " + input["name"].get<std::string>() + "! (" + input.value("number", Json(1)).dump() + ")";
  return {.bytes = greeting.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

Task<Result<Json>> hello(Context& ctx, Json input) {
  const bool is_object = input.is_object();
  const std::string name = is_object && input.contains("name") && input["name"].is_string()
                               ? input["name"].get<std::string>()
                               : "world";
  const auto number = [&](const char* key, std::int64_t usual) {
    return is_object && input.contains(key) && input[key].is_number_integer() ? input[key].get<std::int64_t>()
                                                                              : usual;
  };
  const std::int64_t count = number("count", 1);
  const std::int64_t pause_ms = number("pause_ms", 0);
  if (count < 1 || count > kMostGreetings || pause_ms < 0) {
    co_return base::fail(Code::invalid_argument,
                         "hello takes a count from 1 to 10,000 and a pause_ms of 0 or more");
  }
  Json greetings = Json::array();
  std::int64_t greeted = 0;
  const auto progress = ctx.on_query(
      "progress", [&](const Json&) -> Result<Json> { return Json{{"greeted", greeted}, {"count", count}}; });
  const auto also = ctx.on_update(
      "greet",
      [](const Json& who) -> base::Status {
        if (who.is_string() && !who.get_ref<const std::string&>().empty()) return {};
        return base::fail(Code::invalid_argument, "greet takes a name, a text");
      },
      [&](Context& inner, Json who) -> Task<Result<Json>> {
        auto greeting = co_await inner.step("greet", "hello.greet", Json{{"name", std::move(who)}});
        if (greeting) greetings.push_back(*greeting);
        co_return greeting;
      });
  for (std::int64_t i = 1; i <= count; ++i) {
    auto greeting = co_await ctx.step("greet", "hello.greet", Json{{"name", name}, {"number", i}});
    if (!greeting) co_return std::unexpected(greeting.error());
    greetings.push_back(std::move(*greeting));
    greeted = i;
    if (greetings.size() > kMostShown) greetings.erase(greetings.begin());
    if (pause_ms == 0 || i == count) continue;
    if (auto slept = co_await ctx.sleep(pause_ms); !slept) co_return std::unexpected(slept.error());
  }
  if (auto done = co_await ctx.updates_done(); !done) co_return std::unexpected(done.error());
  co_return Json{{"greetings", std::move(greetings)}};
}

}  // namespace

void register_hello(workflow::Registry& workflows, core::ActivityRegistry& activities,
                    base::TaskRunner& runner) {
  workflows.add("hello", "1", hello);
  activities.add("hello.greet", std::make_shared<dispatch::FunctionActivity>(runner, greet));
}

}  // namespace sandglass::engine::server::compose
