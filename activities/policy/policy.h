// Levels and what they ask for (P1): 0 read-only · 1 writes inside the sandbox · 2 visible outside · 3
// dangerous. Pure. Thread rule: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::activities::policy {

namespace base = engine::base;

inline constexpr int kMaxLevel = 3;

/// What a task says about one tool.
struct ToolRule {
  int level = 0;       // only raises what the tool declares
  bool grant = false;  // level 3 is denied without it
};

struct Policy {
  std::map<std::string, ToolRule> tools;
  std::vector<std::string> targets;  // origins that level 2 and 3 may reach
  bool ask_at_level_2 = true;        // false: targets of the list are allowed without asking
};

struct Action {
  std::string tool;
  int declared_level = 0;
  std::string target;  // origin of what is reached outside; empty: nothing outside
};

enum class Verdict : std::uint8_t { allow, ask, deny };

struct Decision {
  Verdict verdict = Verdict::deny;
  int level = 0;       // that counts: the higher of tool and task
  std::string reason;  // which rule said so; for a denial also what to do
};

Decision decide(const Policy& policy, const Action& action);

/// "https://host:port" of an absolute http or https URL, lower case, default port left out. invalid_argument
/// for everything else, user info included.
base::Result<std::string> origin_of(std::string_view url);

}  // namespace sandglass::activities::policy
