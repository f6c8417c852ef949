// How commands of workflow code and events of history are told to be the same thing: by kind and lexical
// path, with name and digest compared (J14). Internal to engine/workflow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/payload.h"
#include "engine/run/commands.h"
#include "engine/run/events.h"

namespace sandglass::engine::workflow {

enum class ClaimKind : std::uint8_t {
  step,
  step_cancel,
  operation,
  operation_cancel,
  timer,
  timer_cancel,
  signal,
  update,
  attributes,
  exchange,
  exchange_withdrawal,
  message,
  lease_release,
  child,
  child_cancel,
  phase,
  patch,
  checkpoint,
  end,
};
std::string_view name_of(ClaimKind kind);

struct Claim {
  ClaimKind kind = ClaimKind::step;
  std::string path;
  std::string name;  // activity, tool, phase …: what must be the same
  core::ContentDigest digest;

  bool same_place(const Claim& other) const { return kind == other.kind && path == other.path; }
  friend bool operator==(const Claim&, const Claim&) = default;
};

Claim claim_of(const run::WorkflowCommand& command);
/// Nothing for events that answer no workflow command.
std::optional<Claim> claim_of(const run::Event& event);
/// "step 0/build#0 (exec, input 3f2a…)", for people.
std::string describe(const Claim& claim);

}  // namespace sandglass::engine::workflow
