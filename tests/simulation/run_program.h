// Random workflows: a tree, the coroutine that walks it, and the result that it must have.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/workflow/context.h"
#include "tests/support/seeded_random.h"

namespace sandglass::tests::simulation {

using Json = engine::workflow::Json;

struct Node {
  enum class Kind : std::uint8_t { sequence, all, step, sleep, signal, update, operation, lease };
  Kind kind = Kind::step;
  std::string name;
  std::int64_t number = 0;  // step, operation: argument; sleep: ms
  engine::run::Recovery recovery = engine::run::Recovery::probe;
  std::vector<Node> children;  // of sequence and all; what is done while a lease is held
};

/// How operations wait before they believe "not done" (J16). The outside keeps to `honest`.
struct Waits {
  std::int64_t permit_ms = 100;
  std::int64_t attempt_timeout_ms = 200;
  std::int64_t settle_ms = 300;
};

Node random_run(support::SeededRandom& random);
/// Names of the signals, or updates, that it waits for.
std::vector<std::string> names_of(const Node& node, Node::Kind kind);
/// What the run's result must be.
Json result_of(const Node& node);
/// Operations in it.
std::size_t operations_of(const Node& node);

/// What the outside answers to work and payments with this input.
Json answer_to(const Json& input);

/// The workflow. `admission` is asked for leases.
engine::workflow::Task<engine::base::Result<Json>> walk(engine::workflow::Context& ctx, const Node& node,
                                                        Waits waits, engine::core::StreamId admission);

}  // namespace sandglass::tests::simulation
