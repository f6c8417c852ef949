// sandbox.create, sandbox.renew, sandbox.destroy: what pool streams ask for (scheduler/pool.h has input and
// answer).
#include "engine/base/crash_point.h"
#include "sandbox-runtime/manager/answers.h"
#include "sandbox-runtime/manager/parts.h"

namespace sandglass::sandbox_runtime::manager {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

/// Before the provider was asked nothing can be there; after, only what says so for sure.
core::ActivityResult create_failed(const base::Error& error) {
  core::ActivityResult result = failed(error);
  result.retryable = false;  // the run asks again, if it wants
  const bool nothing_there = error.code == base::Code::limit_unenforceable ||
                             error.code == base::Code::invalid_argument ||
                             error.code == base::Code::not_found || error.code == base::Code::quota_exceeded;
  result.outcome = nothing_there ? core::Outcome::not_done : core::Outcome::unknown;
  return result;
}

/// "provider\nlimit,limit": who made it, and which best-effort limits are not enforced (V10).
std::string created_text(const provider::Created& created, const provider::Template& wanted) {
  std::string unenforced;
  for (const provider::LimitSupport& support : created.support) {
    if (support.strength != provider::Strength::missing) continue;
    if (wanted.limits.of(support.kind).need != provider::Need::best_effort) continue;
    unenforced += (unenforced.empty() ? "" : ",") + std::string(provider::name_of(support.kind));
  }
  return created.provider + (created.rootless ? " (rootless)" : "") + "\n" + unenforced;
}

void create(const Parts& parts, const Json& input, core::ActivityDone answer) {
  const std::string name = input.value("template", "");
  const auto found = parts->templates.find(name);
  if (found == parts->templates.end()) {
    std::string known;
    for (const auto& [other, unused] : parts->templates) known += (known.empty() ? "" : ", ") + other;
    return answer(
        create_failed({base::Code::not_found, "no template \"" + name + "\"; there are: " + known}));
  }
  provider::CreateRequest request{.spec = {.id = sandbox_of(input), .tmpl = found->second}};
  request.fence = input.value("token", std::uint64_t{0});
  request.expires_at_ms = parts->clock.monotonic_ns() / kNsPerMs + input.value("ttl_ms", std::int64_t{0});
  const provider::Template wanted = found->second;
  SG_CRASH_POINT("lease.before_create");
  parts->provider.create(std::move(request), [wanted, answer = std::move(answer)](
                                                 base::Result<provider::Created> created) mutable {
    SG_CRASH_POINT("lease.created");
    if (!created) return answer(create_failed(created.error()));
    answer({.encoding = core::Encoding::bytes, .bytes = created_text(*created, wanted)});
  });
}

void renew(const Parts& parts, const Json& input, core::ActivityDone answer) {
  const provider::SandboxRef sandbox{.id = sandbox_of(input),
                                     .fence = input.value("token", std::uint64_t{0})};
  const std::int64_t expires =
      parts->clock.monotonic_ns() / kNsPerMs + input.value("ttl_ms", std::int64_t{0});
  SG_CRASH_POINT("lease.before_renewal");
  parts->provider.renew(sandbox, expires, [answer = std::move(answer)](base::Result<void> renewed) mutable {
    SG_CRASH_POINT("lease.renewed");
    answer(renewed ? core::ActivityResult{.encoding = core::Encoding::none} : failed(renewed.error()));
  });
}

void destroy(const Parts& parts, const Json& input, core::ActivityDone answer) {
  const provider::SandboxRef sandbox{.id = sandbox_of(input),
                                     .fence = input.value("token", std::uint64_t{0})};
  SG_CRASH_POINT("lease.before_destruction");
  parts->provider.destroy(sandbox, [answer = std::move(answer)](base::Result<void> destroyed) mutable {
    SG_CRASH_POINT("lease.destroyed");
    // A sandbox that the host does not know is gone, which is what was asked for.
    const bool gone = destroyed || destroyed.error().code == base::Code::sandbox_lost;
    answer(gone ? core::ActivityResult{.encoding = core::Encoding::none} : failed(destroyed.error()));
  });
}

}  // namespace

void register_pool_activities(core::ActivityRegistry& registry, const Parts& parts) {
  const auto add = [&](const char* name, auto function) {
    registry.add(name, make_activity([parts, function](const core::ActivityCall&, Json input,
                                                       core::ActivityDone answer) {
                   function(parts, input, std::move(answer));
                 }));
  };
  add("sandbox.create", create);
  add("sandbox.renew", renew);
  add("sandbox.destroy", destroy);
}

}  // namespace sandglass::sandbox_runtime::manager
