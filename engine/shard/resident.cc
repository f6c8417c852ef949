#include "engine/shard/resident.h"

namespace sandglass::engine::shard {

Resident* StreamTable::find(const core::StreamId& stream) {
  const auto found = residents_.find(stream);
  return found == residents_.end() ? nullptr : found->second.get();
}

Resident& StreamTable::touch(const core::StreamId& stream) {
  auto& slot = residents_[stream];
  if (slot == nullptr) {
    slot = std::make_unique<Resident>(stream);
    slot->age = ages_.insert(ages_.end(), slot.get());
  } else {
    ages_.splice(ages_.end(), ages_, slot->age);
  }
  return *slot;
}

void StreamTable::erase(Resident& resident) {
  coroutine_gone(resident);
  ages_.erase(resident.age);
  residents_.erase(core::StreamId(resident.stream));
}

void StreamTable::clear() {
  lives_.clear();
  ages_.clear();
  residents_.clear();
}

std::vector<Resident*> StreamTable::evictable(std::size_t keep, std::uint64_t durable_batch,
                                              std::size_t limit) {
  std::vector<Resident*> chosen;
  std::size_t beyond = residents_.size() > keep ? residents_.size() - keep : 0;
  for (auto one = ages_.begin(); one != ages_.end() && beyond > 0 && limit > 0; --limit) {
    const auto here = one++;
    if ((*here)->idle(durable_batch)) {
      chosen.push_back(*here);
      --beyond;
    } else {
      ages_.splice(ages_.end(), ages_, here);  // in use, so not old
    }
  }
  return chosen;
}

void StreamTable::coroutine_used(Resident& resident, std::uint64_t head) {
  if (resident.coroutine_head == 0) {
    resident.live = lives_.insert(lives_.end(), &resident);
  } else {
    lives_.splice(lives_.end(), lives_, resident.live);
  }
  resident.coroutine_head = head;
}

void StreamTable::coroutine_gone(Resident& resident) {
  if (resident.coroutine_head == 0) return;
  lives_.erase(resident.live);
  resident.coroutine_head = 0;
}

std::vector<Resident*> StreamTable::coroutines_beyond(std::size_t keep, std::size_t limit) {
  std::vector<Resident*> chosen;
  std::size_t beyond = lives_.size() > keep ? lives_.size() - keep : 0;
  for (auto one = lives_.begin(); one != lives_.end() && beyond > 0 && limit > 0; ++one, --limit) {
    if ((*one)->in_use()) continue;
    chosen.push_back(*one);
    --beyond;
  }
  return chosen;
}

}  // namespace sandglass::engine::shard
