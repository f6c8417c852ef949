#include "sandbox-runtime/provider/sandbox_spec.h"

#include <algorithm>

#include "engine/base/check.h"

namespace sandglass::sandbox_runtime::provider {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Status;

bool is_id_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

bool is_env_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, good);
}

/// Below these nothing useful starts; above these the kernel's own types overflow or the machine is meant.
struct Bounds {
  std::uint64_t least;
  std::uint64_t most;
};

Bounds bounds_of(LimitKind kind) {
  constexpr std::uint64_t kMiB = 1ULL << 20;
  switch (kind) {
    case LimitKind::memory:
      return {16 * kMiB, 1ULL << 46};
    case LimitKind::pids:
      return {8, 1 << 20};
    case LimitKind::cpu:
      return {10, 1'024'000};
    case LimitKind::disk:
      return {4 * kMiB, 1ULL << 42};
    case LimitKind::inodes:
      return {64, 1ULL << 31};
    case LimitKind::open_files:
      return {32, 1 << 20};
    case LimitKind::output:
      return {1024, 1ULL << 32};
    case LimitKind::exec_wall:
    case LimitKind::exec_cpu:
    case LimitKind::life:
      return {1, 366ULL * 24 * 3600 * 1000};
  }
  SG_CHECK(false, "limit kind out of range");
}

}  // namespace

bool has_on_limit(LimitKind kind) {
  return kind == LimitKind::pids || kind == LimitKind::disk || kind == LimitKind::inodes ||
         kind == LimitKind::output;
}

std::string_view name_of(LimitKind kind) {
  switch (kind) {
    case LimitKind::memory:
      return "memory";
    case LimitKind::pids:
      return "pids";
    case LimitKind::cpu:
      return "cpu";
    case LimitKind::disk:
      return "disk";
    case LimitKind::inodes:
      return "inodes";
    case LimitKind::open_files:
      return "open_files";
    case LimitKind::output:
      return "output";
    case LimitKind::exec_wall:
      return "exec_wall";
    case LimitKind::exec_cpu:
      return "exec_cpu";
    case LimitKind::life:
      return "life";
  }
  return "unknown";
}

std::optional<LimitKind> limit_of_name(std::string_view name) {
  for (const LimitKind kind : kAllLimits) {
    if (name_of(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string_view name_of(Strength strength) {
  switch (strength) {
    case Strength::works:
      return "works";
    case Strength::weaker:
      return "weaker";
    case Strength::missing:
      return "missing";
  }
  return "unknown";
}

const Limit& Limits::of(LimitKind kind) const {
  switch (kind) {
    case LimitKind::memory:
      return memory;
    case LimitKind::pids:
      return pids;
    case LimitKind::cpu:
      return cpu;
    case LimitKind::disk:
      return disk;
    case LimitKind::inodes:
      return inodes;
    case LimitKind::open_files:
      return open_files;
    case LimitKind::output:
      return output;
    case LimitKind::exec_wall:
      return exec_wall;
    case LimitKind::exec_cpu:
      return exec_cpu;
    case LimitKind::life:
      return life;
  }
  SG_CHECK(false, "limit kind out of range");
}

Limit& Limits::of(LimitKind kind) {
  return const_cast<Limit&>(std::as_const(*this).of(kind));
}

Status check_spec(const SandboxSpec& spec) {
  if (spec.id.empty() || spec.id.size() > 40 || !std::ranges::all_of(spec.id, is_id_char)) {
    return fail(Code::invalid_argument, "sandbox id: 1 to 40 characters of a-z, 0-9 and '-' are needed");
  }
  for (const LimitKind kind : kAllLimits) {
    const Bounds bounds = bounds_of(kind);
    const std::uint64_t value = spec.tmpl.limits.of(kind).value;
    if (value < bounds.least || value > bounds.most) {
      return fail(Code::invalid_argument, "template '" + spec.tmpl.name + "': limit " +
                                              std::string(name_of(kind)) + " is " + std::to_string(value) +
                                              "; it must be between " + std::to_string(bounds.least) +
                                              " and " + std::to_string(bounds.most));
    }
    if (spec.tmpl.limits.of(kind).on_limit != OnLimit::automatic && !has_on_limit(kind)) {
      return fail(Code::invalid_argument, "template '" + spec.tmpl.name + "': on_limit of " +
                                              std::string(name_of(kind)) +
                                              " cannot be chosen; it can for pids, disk, inodes and output");
    }
  }
  for (const std::string& name : spec.tmpl.env_allow) {
    if (!is_env_name(name) || name.starts_with("LD_")) {
      return fail(Code::invalid_argument,
                  "template '" + spec.tmpl.name + "': env_allow has a name that cannot be passed in");
    }
  }
  return {};
}

Status check_support(const Limits& limits, const std::vector<LimitSupport>& support) {
  std::string lost;
  for (const LimitKind kind : kAllLimits) {
    if (limits.of(kind).need != Need::required) continue;
    const auto found = std::ranges::find(support, kind, &LimitSupport::kind);
    if (found != support.end() && found->strength != Strength::missing) continue;
    if (!lost.empty()) lost += "; ";
    lost += std::string(name_of(kind)) + ": ";
    lost +=
        found == support.end() ? "not known to this provider" : found->detail + " (" + found->remedy + ")";
  }
  if (lost.empty()) return {};
  return fail(Code::limit_unenforceable,
              "required limits cannot be enforced here: " + lost +
                  "; repair that, or choose a template in which these are best effort (default-rootless)");
}

}  // namespace sandglass::sandbox_runtime::provider
