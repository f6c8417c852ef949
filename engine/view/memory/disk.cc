#include "engine/view/memory/disk.h"

#include <algorithm>
#include <iterator>

#include "engine/base/check.h"
#include "engine/base/draw.h"
#include "engine/view/keys.h"

namespace sandglass::engine::view {

MemoryDisk::WriteId MemoryDisk::write(std::uint16_t part, std::vector<ViewChange> changes) {
  unsynced_.push_back({.id = ++last_id_, .part = part, .changes = std::move(changes)});
  return last_id_;
}

void MemoryDisk::apply(Write write) {
  for (ViewChange& change : write.changes) {
    SG_CHECK(!change.value || !is_put_once(change.key) || !rows_.contains(change.key),
             "a row that is put once is put over itself");
    if (change.value) {
      rows_[std::move(change.key)] = std::move(*change.value);
    } else {
      rows_.erase(change.key);
    }
  }
}

bool MemoryDisk::sync(WriteId id) {
  const auto found = std::ranges::find(unsynced_, id, &Write::id);
  if (found == unsynced_.end()) return !gone_.contains(id);
  apply(std::move(*found));
  unsynced_.erase(found);
  return true;
}

template <class Matches>
void MemoryDisk::cut(std::uint64_t kept, Matches matches) {
  std::erase_if(unsynced_, [&](Write& write) {
    if (!matches(write)) return false;
    if (kept == 0) {
      gone_.insert(write.id);
    } else {
      --kept;
      apply(std::move(write));
    }
    return true;
  });
}

void MemoryDisk::fence(std::uint16_t part) {
  const auto matches = [&](const Write& write) { return write.part == part; };
  const auto count = static_cast<std::uint64_t>(std::ranges::count_if(unsynced_, matches));
  cut(base::draw_below(random_, count + 1), matches);
}

void MemoryDisk::crash() {
  cut(base::draw_below(random_, unsynced_.size() + 1), [](const Write&) { return true; });
}

void MemoryDisk::tamper(const std::string& key, std::optional<std::string> value) {
  if (value) {
    rows_[key] = std::move(*value);
  } else {
    rows_.erase(key);
  }
}

ScanResult MemoryDisk::scan(const ScanRequest& request) const {
  ScanResult result;
  std::size_t bytes = 0;
  // False: the answer is full.
  const auto take = [&](const auto& row) {
    if (result.rows.size() >= request.limit || (bytes >= request.max_bytes && !result.rows.empty())) {
      result.more = true;
      return false;
    }
    bytes += row.first.size() + row.second.size();
    result.rows.push_back({row.first, row.second});
    return true;
  };
  if (!request.last.empty() && request.last <= request.first) return result;
  const auto first = rows_.lower_bound(request.first);
  const auto last = request.last.empty() ? rows_.end() : rows_.lower_bound(request.last);
  if (request.reverse) {
    std::all_of(std::make_reverse_iterator(last), std::make_reverse_iterator(first), take);
  } else {
    std::all_of(first, last, take);
  }
  return result;
}

std::optional<std::string> MemoryDisk::get(const std::string& key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace sandglass::engine::view
