#include "replay-tools/replay/facts.h"

#include <algorithm>

namespace sandglass::replay_tools::replay {

std::vector<Change> difference(const Facts& before, const Facts& after) {
  const auto sorted = [](const Facts& facts) {
    std::vector<const Fact*> order;
    for (const Fact& fact : facts) order.push_back(&fact);
    std::ranges::sort(order, {}, [](const Fact* fact) -> const std::string& { return fact->path; });
    return order;
  };
  const auto old_facts = sorted(before);
  const auto new_facts = sorted(after);
  std::vector<Change> changes;
  auto old_at = old_facts.begin();
  auto new_at = new_facts.begin();
  while (old_at != old_facts.end() || new_at != new_facts.end()) {
    const bool only_old =
        new_at == new_facts.end() || (old_at != old_facts.end() && (*old_at)->path < (*new_at)->path);
    const bool only_new =
        old_at == old_facts.end() || (new_at != new_facts.end() && (*new_at)->path < (*old_at)->path);
    if (only_old) {
      changes.push_back({Change::Kind::removed, (*old_at)->path, (*old_at)->value, ""});
      ++old_at;
    } else if (only_new) {
      changes.push_back({Change::Kind::added, (*new_at)->path, "", (*new_at)->value});
      ++new_at;
    } else {
      if ((*old_at)->value != (*new_at)->value) {
        changes.push_back({Change::Kind::changed, (*old_at)->path, (*old_at)->value, (*new_at)->value});
      }
      ++old_at;
      ++new_at;
    }
  }
  return changes;
}

}  // namespace sandglass::replay_tools::replay
