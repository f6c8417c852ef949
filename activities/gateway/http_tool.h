// The tool "http_request": one request to a target outside. Level 2, DELETE level 3. Arguments (schema in
// http_tool.cc):
//
//   method, url, headers, body   the request; it carries the operation's key in `key_header` (default
//   Idempotency-Key) recovery                     how an unknown outcome is settled: probe, resend (the
//   target de-duplicates by key), ask probe                        {url with "{key}"}: GET answers 2xx if it
//   happened and 404 if not
//
// Result: {"status", "headers", "body" or "body_base64", "truncated"}. Thread rule: immutable.
#pragma once

#include <string>
#include <string_view>

#include "activities/operations/effect_tool.h"
#include "engine/run/types.h"

namespace sandglass::activities::gateway {

namespace base = engine::base;
namespace core = engine::core;

class HttpTool final : public operations::EffectTool {
 public:
  static std::string_view schema();

  base::Result<core::EffectIntent> intent(std::string_view arguments, const std::string& key) const override;
  core::ActivityResult outcome(core::EffectResult result) const override;
  base::Result<core::EffectIntent> probe(std::string_view arguments, const std::string& key) const override;
  core::ActivityResult probe_outcome(core::EffectResult result) const override;
  std::int64_t settle_ms(std::string_view arguments) const override;
  std::string target(std::string_view arguments) const override;

  static int level(std::string_view arguments);
  static engine::run::Recovery recovery(std::string_view arguments);
};

/// arguments_invalid if the request could be read differently by its target than by who approved it: header
/// names and values, framing headers, credentials in clear.
base::Status check_request(std::string_view arguments);

}  // namespace sandglass::activities::gateway
