#include "tests/simulation/run_program.h"

#include <optional>
#include <utility>

#include "engine/core/messages/message.h"

namespace sandglass::tests::simulation {
namespace {

using engine::workflow::Context;
using engine::workflow::Task;
namespace base = engine::base;
namespace core = engine::core;
namespace run = engine::run;

Node random_node(support::SeededRandom& random, int depth, int& count) {
  Node node;
  node.name = "n" + std::to_string(++count);
  const auto draw = random.next() % 100;
  if (depth < 3 && draw < 30) {
    node.kind = draw < 15 ? Node::Kind::sequence : Node::Kind::all;
    for (std::uint64_t i = 0, children = 2 + random.next() % 2; i < children; ++i) {
      node.children.push_back(random_node(random, depth + 1, count));
    }
    return node;
  }
  node.number = static_cast<std::int64_t>(random.next() % 150);
  if (draw < 55) {
    node.kind = Node::Kind::step;
  } else if (draw < 68) {
    node.kind = Node::Kind::sleep;
  } else if (draw < 78) {
    node.kind = node.number % 3 == 0 ? Node::Kind::update : Node::Kind::signal;
  } else if (draw < 92) {
    node.kind = Node::Kind::operation;
    node.recovery = random.next() % 3 == 0 ? run::Recovery::resend : run::Recovery::probe;
  } else {
    node.kind = Node::Kind::lease;
    node.children.push_back({.kind = Node::Kind::step, .name = node.name + "held", .number = node.number});
  }
  return node;
}

Json input_of(const Node& node) {
  return {{"name", node.name}, {"n", node.number}};
}

run::StepOptions step_options() {
  run::StepOptions options;
  options.retry = {.max_attempts = 0, .initial_interval_ms = 20, .max_interval_ms = 200};
  return options;
}

Task<base::Result<Json>> pay(Context& ctx, const Node& node, Waits waits) {
  run::OperationOptions options;
  options.retry = {.max_attempts = 0, .initial_interval_ms = 20, .max_interval_ms = 200};
  options.recovery = node.recovery;
  options.probe = "look";
  options.permit_ms = waits.permit_ms;
  options.attempt_timeout_ms = waits.attempt_timeout_ms;
  options.settle_ms = waits.settle_ms;
  const auto outcome = co_await ctx.operation(
      node.name, node.recovery == run::Recovery::resend ? "pay.once" : "pay", input_of(node), options);
  if (!outcome.done()) co_return base::fail(outcome.code, "not paid: " + outcome.message);
  co_return outcome.result;
}

/// Takes one update of its name, which does the node's work.
Task<base::Result<Json>> take_update(Context& ctx, const Node& node) {
  std::optional<base::Result<Json>> answer;
  const auto handler = ctx.on_update(
      node.name,
      [&](const Json&) -> base::Status {
        return answer ? base::fail(base::Code::already_exists, "taken") : base::Status();
      },
      [&](Context& inner, Json) -> Task<base::Result<Json>> {
        answer = co_await inner.step(node.name, "work", input_of(node), step_options());
        co_return *answer;
      });
  if (auto taken = co_await ctx.until([&] { return answer.has_value(); }); !taken)
    co_return std::unexpected(taken.error());
  co_return *answer;
}

Task<base::Result<Json>> hold_lease(Context& ctx, const Node& node, Waits waits, core::StreamId admission) {
  engine::workflow::ExchangeRequest request{
      .target = admission,
      .body = core::LeaseRequested{
          .template_name = "small", .tenant = "t", .user = "u", .wait_timeout_ms = 3'600'000}};
  auto granted = co_await ctx.exchange(node.name, std::move(request));
  if (!granted) co_return std::unexpected(granted.error());
  if (const auto* refused = std::get_if<core::LeaseRefused>(&granted->body)) {
    co_return base::fail(refused->code, refused->message);
  }
  auto done = co_await walk(ctx, node.children.front(), waits, admission);
  const auto released = co_await ctx.release_lease(granted->path);
  if (!released) co_return std::unexpected(released.error());
  co_return done;
}

Task<base::Result<Json>> walk_children(Context& ctx, const Node& node, Waits waits,
                                       core::StreamId admission) {
  Json results = Json::array();
  if (node.kind == Node::Kind::sequence) {
    for (const Node& child : node.children) {
      auto result = co_await walk(ctx, child, waits, admission);
      if (!result) co_return result;
      results.push_back(std::move(*result));
    }
    co_return results;
  }
  std::vector<engine::workflow::Branch<base::Result<Json>>> branches;
  for (const Node& child : node.children) {
    branches.push_back(
        [&child, waits, admission](Context& inner) { return walk(inner, child, waits, admission); });
  }
  auto all = co_await ctx.all<base::Result<Json>>(std::move(branches));
  for (auto& result : all) {
    if (!result) co_return result;
    results.push_back(std::move(*result));
  }
  co_return results;
}

/// Of the root's number, which names the program.
Task<base::Result<Json>> run_child(Context& ctx, const Node& node) {
  const Node& part = node.children.front();
  co_return co_await ctx.child(node.name, "part", {{"run", node.number}, {"node", part.name}});
}

bool is_spoken_to(const Node& node) {
  return !names_of(node, Node::Kind::signal).empty() || !names_of(node, Node::Kind::update).empty();
}

void spread_part(Node& node, std::int64_t program, support::SeededRandom& random) {
  for (Node& child : node.children) spread_part(child, program, random);
  if (random.next() % 5 != 0 || node.kind == Node::Kind::child || is_spoken_to(node)) return;
  Node wrapped{.kind = Node::Kind::child, .name = node.name + "run", .number = program};
  wrapped.children.push_back(std::move(node));
  node = std::move(wrapped);
}

template <class Visit>
void visit_nodes(const Node& node, Visit visit) {
  visit(node);
  for (const Node& child : node.children) visit_nodes(child, visit);
}

}  // namespace

Node random_run(support::SeededRandom& random) {
  int count = 0;
  Node root{.kind = Node::Kind::sequence, .name = "root"};
  for (std::uint64_t i = 0, children = 2 + random.next() % 3; i < children; ++i) {
    root.children.push_back(random_node(random, 0, count));
  }
  return root;
}

void spread_over_runs(Node& root, support::SeededRandom& random) {
  for (Node& child : root.children) spread_part(child, root.number, random);
  bool updates = false;  // are still to come
  for (auto child = root.children.rbegin(); child != root.children.rend(); ++child) {
    child->rolls = random.next() % 3 == 0 && !updates;
    updates = updates || !names_of(*child, Node::Kind::update).empty();
  }
}

const Node* find_node(const Node& root, const std::string& name) {
  const Node* found = nullptr;
  visit_nodes(root, [&](const Node& node) { found = node.name == name ? &node : found; });
  return found;
}

std::vector<std::string> names_of(const Node& node, Node::Kind kind) {
  std::vector<std::string> names;
  visit_nodes(node, [&](const Node& one) {
    if (one.kind == kind) names.push_back(one.name);
  });
  return names;
}

std::size_t operations_of(const Node& node) {
  std::size_t count = 0;
  visit_nodes(node, [&](const Node& one) { count += one.kind == Node::Kind::operation ? 1 : 0; });
  return count;
}

Json answer_to(const Json& input) {
  return {{"did", input}};
}

Json result_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::sequence:
    case Node::Kind::all: {
      Json results = Json::array();
      for (const Node& child : node.children) results.push_back(result_of(child));
      return results;
    }
    case Node::Kind::step:
    case Node::Kind::update:
    case Node::Kind::operation:
      return answer_to(input_of(node));
    case Node::Kind::sleep:
      return "slept";
    case Node::Kind::signal:
      return {{"signal", node.name}};
    case Node::Kind::lease:
    case Node::Kind::child:
      return result_of(node.children.front());
  }
  return nullptr;
}

Task<base::Result<Json>> walk(Context& ctx, const Node& node, Waits waits, core::StreamId admission) {
  switch (node.kind) {
    case Node::Kind::sequence:
    case Node::Kind::all:
      co_return co_await walk_children(ctx, node, waits, admission);
    case Node::Kind::step:
      co_return co_await ctx.step(node.name, "work", input_of(node), step_options());
    case Node::Kind::sleep: {
      if (auto slept = co_await ctx.sleep(node.number); !slept) co_return std::unexpected(slept.error());
      co_return "slept";
    }
    case Node::Kind::signal:
      co_return co_await ctx.wait_signal(node.name);
    case Node::Kind::update:
      co_return co_await take_update(ctx, node);
    case Node::Kind::operation:
      co_return co_await pay(ctx, node, waits);
    case Node::Kind::lease:
      co_return co_await hold_lease(ctx, node, waits, admission);
    case Node::Kind::child:
      co_return co_await run_child(ctx, node);
  }
  co_return nullptr;
}

Task<base::Result<Json>> walk_root(Context& ctx, const Node& root, Json input, Waits waits,
                                   core::StreamId admission) {
  Json results = input.value("results", Json::array());
  for (std::size_t at = input.value("from", std::size_t{0}); at < root.children.size(); ++at) {
    auto result = co_await walk(ctx, root.children[at], waits, admission);
    if (!result) co_return result;
    results.push_back(std::move(*result));
    if (!root.children[at].rolls) continue;
    input["from"] = at + 1;
    input["results"] = results;
    const auto refused = co_await ctx.continue_as_new(input);
    co_return std::unexpected(refused.error());
  }
  co_return results;
}

}  // namespace sandglass::tests::simulation
