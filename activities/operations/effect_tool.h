// A tool whose calls leave Sandglass as effects: how its recorded arguments become an intent, and what an
// answer means. Thread rule: implementations are immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/core/ports/activity.h"
#include "engine/core/ports/effect.h"

namespace sandglass::activities::operations {

namespace base = engine::base;
namespace core = engine::core;

class EffectTool {
 public:
  virtual ~EffectTool() = default;

  /// `key` is the operation's idempotency key, stable over attempts and replays (J17). Permit and cut-off are
  /// filled in by the caller. An error means that nothing was sent.
  virtual base::Result<core::EffectIntent> intent(std::string_view arguments,
                                                  const std::string& key) const = 0;
  virtual core::ActivityResult outcome(core::EffectResult result) const = 0;

  /// The question whether an effect under `key` has happened; an error if these arguments declare none.
  virtual base::Result<core::EffectIntent> probe(std::string_view arguments,
                                                 const std::string& key) const = 0;
  /// done with the result · not_done with effect_not_done · anything else: the probe settled nothing.
  virtual core::ActivityResult probe_outcome(core::EffectResult result) const = 0;
  /// For so long after an attempt's end the target may still come to show what it accepted.
  virtual std::int64_t settle_ms(std::string_view arguments) const = 0;

  /// What the cap per target counts: an origin.
  virtual std::string target(std::string_view arguments) const = 0;
};

/// By tool name. Filled by the composition root, read-only afterwards.
using EffectTools = std::map<std::string, std::shared_ptr<const EffectTool>>;

}  // namespace sandglass::activities::operations
