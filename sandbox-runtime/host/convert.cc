#include "sandbox-runtime/host/convert.h"

#include <algorithm>

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;

Result<provider::SandboxSpec> spec_of(const frame::v1::HostCreate& create) {
  provider::SandboxSpec spec;
  spec.id = create.id();
  spec.tmpl.name = create.template_().name();
  spec.tmpl.env_allow.assign(create.template_().env_allow().begin(), create.template_().env_allow().end());
  spec.tmpl.network = create.template_().network();
  for (const auto& limit : create.template_().limits()) {
    const auto kind = static_cast<provider::LimitKind>(limit.kind());
    if (limit.kind() > 255 || std::ranges::find(provider::kAllLimits, kind) == provider::kAllLimits.end()) {
      return fail(Code::invalid_argument,
                  "the template has a limit of an unknown kind: " + std::to_string(limit.kind()));
    }
    if (limit.on_limit() > static_cast<std::uint32_t>(provider::OnLimit::kill)) {
      return fail(Code::invalid_argument,
                  "the template has an unknown on_limit: " + std::to_string(limit.on_limit()));
    }
    spec.tmpl.limits.of(kind) = {limit.value(),
                                 limit.best_effort() ? provider::Need::best_effort : provider::Need::required,
                                 static_cast<provider::OnLimit>(limit.on_limit())};
  }
  if (auto status = provider::check_spec(spec); !status) return std::unexpected(status.error());
  return spec;
}

void add_support(const std::vector<provider::LimitSupport>& support, frame::v1::HostCreated& created) {
  for (const provider::LimitSupport& item : support) {
    auto& out = *created.add_support();
    out.set_kind(static_cast<std::uint32_t>(item.kind));
    out.set_strength(static_cast<std::uint32_t>(item.strength));
    out.set_detail(item.detail);
    out.set_remedy(item.remedy);
  }
}

void add_hit(const provider::LimitHit& hit, frame::v1::HostExecDone& done) {
  auto& out = *done.add_limits_hit();
  out.set_kind(static_cast<std::uint32_t>(hit.kind));
  out.set_count(hit.count);
  out.set_detail(hit.detail);
}

provider::ExecLimits exec_limits(const frame::v1::HostExecLimits& asked, const provider::Limits& limits) {
  const auto least = [](std::uint64_t wish, std::uint64_t most) {
    return wish == 0 ? most : std::min(wish, most);
  };
  constexpr std::uint64_t kReserve = 32ull << 20;
  provider::ExecLimits out;
  out.memory_bytes =
      least(asked.memory_bytes(), limits.memory.value - std::min(kReserve, limits.memory.value / 8));
  out.pids = static_cast<std::uint32_t>(
      least(asked.pids(), limits.pids.value - std::min<std::uint64_t>(4, limits.pids.value / 4)));
  out.wall_ms = least(asked.wall_ms(), limits.exec_wall.value);
  out.cpu_ms = least(asked.cpu_ms(), limits.exec_cpu.value);
  out.output_bytes = least(asked.output_bytes(), limits.output.value);
  return out;
}

}  // namespace sandglass::sandbox_runtime::host
