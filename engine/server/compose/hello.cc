#include "engine/server/compose/hello.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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
constexpr std::int64_t kMostRounds = 1000;
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

std::string text_of(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string()
             ? object[key].get<std::string>()
             : std::string();
}

/// What `policy` says of the steps; what it does not say stays as it is.
run::StepOptions policy_of(const Json& policy) {
  run::StepOptions options;
  const auto number = [&policy](const char* key, auto& out) {
    if (policy.is_object() && policy.contains(key) && policy[key].is_number_unsigned())
      out = policy[key].get<std::remove_reference_t<decltype(out)>>();
  };
  number("max_attempts", options.retry.max_attempts);
  number("initial_interval_ms", options.retry.initial_interval_ms);
  number("start_to_close_ms", options.start_to_close_ms);
  number("schedule_to_start_ms", options.schedule_to_start_ms);
  number("schedule_to_close_ms", options.schedule_to_close_ms);
  number("heartbeat_ms", options.heartbeat_ms);
  number("priority", options.priority);
  options.queue = text_of(policy, "queue");
  if (policy.is_object() && policy.contains("non_retryable") && policy["non_retryable"].is_array()) {
    for (const Json& type : policy["non_retryable"])
      if (type.is_string()) options.non_retryable.push_back(type.get<std::string>());
  }
  return options;
}

/// What is neither text nor number nor true nor false is left out.
run::Attributes attributes_of(const Json& json) {
  run::Attributes attributes;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) attributes[name] = value.get<std::string>();
    if (value.is_number_integer()) attributes[name] = value.get<std::int64_t>();
    if (value.is_number_float()) attributes[name] = value.get<double>();
    if (value.is_boolean()) attributes[name] = value.get<bool>();
  }
  return attributes;
}

struct Wish {
  std::string name = "world";
  std::int64_t count = 1;
  std::int64_t pause_ms = 0;
  std::int64_t rounds = 1;
  std::vector<std::string> each;
  Json greetings = Json::array();  // of the rounds before
};

std::int64_t number_in(const Json& input, const char* key, std::int64_t usual) {
  return input.contains(key) && input[key].is_number_integer() ? input[key].get<std::int64_t>() : usual;
}

Result<Wish> read_wish(const Json& input) {
  Wish wish;
  if (!input.is_object()) return wish;
  if (input.contains("name") && input["name"].is_string()) wish.name = input["name"].get<std::string>();
  wish.count = number_in(input, "count", 1);
  wish.pause_ms = number_in(input, "pause_ms", 0);
  wish.rounds = number_in(input, "rounds", 1);
  if (input.contains("greetings") && input["greetings"].is_array()) wish.greetings = input["greetings"];
  if (wish.count < 1 || wish.count > kMostGreetings || wish.pause_ms < 0 || wish.rounds < 1 ||
      wish.rounds > kMostRounds) {
    return base::fail(
        Code::invalid_argument,
        "hello takes a count from 1 to 10,000, rounds from 1 to 1,000 and a pause_ms of 0 or more");
  }
  if (!input.contains("each")) return wish;
  const bool texts = input["each"].is_array() && input["each"].size() <= kMostShown &&
                     std::ranges::all_of(input["each"], [](const Json& one) { return one.is_string(); });
  if (!texts) return base::fail(Code::invalid_argument, "each must be a list of up to 100 names");
  wish.each = input["each"].get<std::vector<std::string>>();
  return wish;
}

void add_greeting(Wish& wish, Json greeting) {
  wish.greetings.push_back(std::move(greeting));
  if (wish.greetings.size() > kMostShown) wish.greetings.erase(wish.greetings.begin());
}

/// A child run each, with the same wish otherwise.
Task<Result<Json>> greet_each(Context& ctx, Wish wish, Json input) {
  input.erase("each");
  std::vector<workflow::Branch<Result<Json>>> branches;
  for (const std::string& name : wish.each) {
    input["name"] = name;
    branches.push_back([input](Context& branch) { return branch.child("each", "hello", input); });
  }
  for (auto& greeted : co_await ctx.all<Result<Json>>(std::move(branches))) {
    if (!greeted) co_return std::unexpected(greeted.error());
    for (Json& greeting : (*greeted)["greetings"]) add_greeting(wish, std::move(greeting));
  }
  co_return Json{{"greetings", std::move(wish.greetings)}};
}

Task<Result<Json>> hello(Context& ctx, Json input) {
  const bool is_object = input.is_object();
  Result<Wish> read = read_wish(input);
  if (!read) co_return std::unexpected(read.error());
  Wish wish = std::move(*read);
  if (!wish.each.empty()) co_return co_await greet_each(ctx, std::move(wish), std::move(input));
  const std::string workers = text_of(input, "activity");
  const std::string activity = workers.empty() ? "hello.greet" : workers;
  const run::StepOptions options =
      policy_of(is_object && input.contains("policy") ? input["policy"] : Json(nullptr));
  if (is_object && input.contains("attributes")) {
    if (auto set = ctx.set_attributes(attributes_of(input["attributes"])); !set)
      co_return std::unexpected(set.error());
  }
  std::int64_t greeted = 0;
  const auto progress = ctx.on_query("progress", [&](const Json&) -> Result<Json> {
    return Json{{"greeted", greeted}, {"count", wish.count}};
  });
  const auto also = ctx.on_update(
      "greet",
      [](const Json& who) -> base::Status {
        if (who.is_string() && !who.get_ref<const std::string&>().empty()) return {};
        return base::fail(Code::invalid_argument, "greet takes a name, a text");
      },
      [&](Context& inner, Json who) -> Task<Result<Json>> {
        auto greeting = co_await inner.step("greet", "hello.greet", Json{{"name", std::move(who)}});
        if (greeting) add_greeting(wish, *greeting);
        co_return greeting;
      });
  const auto step_input = [&](std::int64_t i) {
    Json value{{"name", wish.name}, {"number", i}};
    if (is_object && input.contains("ms")) value["ms"] = input["ms"];
    return value;
  };
  for (std::int64_t i = 1; i <= wish.count; ++i) {
    auto greeting = co_await ctx.step("greet", activity, step_input(i), options);
    if (!greeting) co_return std::unexpected(greeting.error());
    add_greeting(wish, std::move(*greeting));
    greeted = i;
    if (wish.pause_ms == 0 || i == wish.count) continue;
    if (auto slept = co_await ctx.sleep(wish.pause_ms); !slept) co_return std::unexpected(slept.error());
  }
  if (auto done = co_await ctx.updates_done(); !done) co_return std::unexpected(done.error());
  if (wish.rounds == 1) co_return Json{{"greetings", std::move(wish.greetings)}};
  input["rounds"] = wish.rounds - 1;
  input["greetings"] = std::move(wish.greetings);
  const auto refused = co_await ctx.continue_as_new(std::move(input));
  co_return std::unexpected(refused.error());
}

}  // namespace

void register_hello(workflow::Registry& workflows, core::ActivityRegistry& activities,
                    base::TaskRunner& runner) {
  workflows.add("hello", "1", hello);
  activities.add("hello.greet", std::make_shared<dispatch::FunctionActivity>(runner, greet));
}

}  // namespace sandglass::engine::server::compose
