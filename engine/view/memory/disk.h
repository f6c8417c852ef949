// A disk in memory that behaves like one: what was written is lost by a crash until it was synced (J31, J32).
// Memory journals write to it, memory views read what is synced. Several may share one disk, as processes
// that follow each other do.
//
// Thread rule: one thread. Ownership: outlives the journals and views on it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/ports.h"
#include "engine/view/view.h"

namespace sandglass::engine::view {

class MemoryDisk {
 public:
  using WriteId = std::uint64_t;

  /// `random` decides what a crash leaves; it must outlive the disk.
  explicit MemoryDisk(base::Random& random) : random_(random) {}

  /// Takes the changes as one atomic, unsynced write of `part` (a partition), which others may write to as
  /// well.
  WriteId write(std::uint16_t part, std::vector<ViewChange> changes);
  /// Makes the write durable and visible. False: it was fenced off and is gone. Writes of one part are synced
  /// in order.
  bool sync(WriteId id);
  /// A new owner takes over the part: of its unsynced writes a prefix, drawn by chance, came before; the rest
  /// is gone.
  void fence(std::uint16_t part);
  std::size_t unsynced() const { return unsynced_.size(); }

  /// Power is lost: of the unsynced writes a prefix, drawn by chance, has reached the disk; the rest is gone.
  void crash();

  /// Changes synced content behind everybody's back, for tests of damage.
  void tamper(const std::string& key, std::optional<std::string> value);

  /// What is synced.
  ScanResult scan(const ScanRequest& request) const;
  std::optional<std::string> get(const std::string& key) const;
  const std::map<std::string, std::string, std::less<>>& rows() const { return rows_; }

 private:
  struct Write {
    WriteId id = 0;
    std::uint16_t part = 0;
    std::vector<ViewChange> changes;
  };
  void apply(Write write);
  /// Applies the first `kept` of the writes that `matches` and drops the others of them.
  template <class Matches>
  void cut(std::uint64_t kept, Matches matches);

  base::Random& random_;
  WriteId last_id_ = 0;
  std::deque<Write> unsynced_;
  std::set<WriteId> gone_;
  std::map<std::string, std::string, std::less<>> rows_;
};

}  // namespace sandglass::engine::view
