// Random programs for streams of the test kind, the code that runs them, and what they must leave behind.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/core/ports/activator.h"
#include "tests/support/seeded_random.h"
#include "tests/support/test_kind.h"

namespace sandglass::tests::simulation {

struct Op {
  enum class Kind : std::uint8_t { step, parallel, timer, send, add };
  Kind kind = Kind::step;
  std::int64_t number = 0;  // parallel: branches; timer: ms; send: index of the target; add: amount
};
using Program = std::vector<Op>;

Program random_program(support::SeededRandom& random, std::size_t streams);

/// What comes next for a stream that has come as far as `state` says: as workflow code, a function of
/// history.
core::CommandPtr next_of(const Program& program, const TestState& state, std::int64_t now_ms,
                         const std::vector<core::StreamId>& streams);

/// Entries of TestState::log that the program must have left, in any order but complete and without
/// repetition.
std::multiset<std::string> expected_log(const Program& program);

}  // namespace sandglass::tests::simulation
