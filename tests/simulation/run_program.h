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
  enum class Kind : std::uint8_t { sequence, all, step, sleep, signal, update, operation, lease, child };
  Kind kind = Kind::step;
  std::string name;
  std::int64_t number = 0;  // step, operation: argument; sleep: ms
  engine::run::Recovery recovery = engine::run::Recovery::probe;
  std::vector<Node> children;  // of sequence and all; what is done while a lease is held, or by another run
  bool rolls = false;          // of the root's: the run goes on as new afterwards
};

/// How operations wait before they believe "not done" (J16). The outside keeps to `honest`.
struct Waits {
  std::int64_t permit_ms = 100;
  std::int64_t attempt_timeout_ms = 200;
  std::int64_t settle_ms = 300;
};

Node random_run(support::SeededRandom& random);
/// Has other runs do parts of it that take no signals or updates, and the run go on as new between its root's
/// children where no update is to come any more.
void spread_over_runs(Node& root, support::SeededRandom& random);
/// The node of this name, or null.
const Node* find_node(const Node& root, const std::string& name);
/// Names of the signals, or updates, that it waits for.
std::vector<std::string> names_of(const Node& node, Node::Kind kind);
/// What the run's result must be.
Json result_of(const Node& node);
/// Operations in it.
std::size_t operations_of(const Node& node);

/// What the outside answers to work and payments with this input.
Json answer_to(const Json& input);

/// The workflow of a whole run: `input` says where to go on, with which results.
engine::workflow::Task<engine::base::Result<Json>> walk_root(engine::workflow::Context& ctx, const Node& root,
                                                             Json input, Waits waits,
                                                             engine::core::StreamId admission);
/// A part of it. `admission` is asked for leases.
engine::workflow::Task<engine::base::Result<Json>> walk(engine::workflow::Context& ctx, const Node& node,
                                                        Waits waits, engine::core::StreamId admission);

}  // namespace sandglass::tests::simulation
