// The View port on a MemoryDisk. An answer comes after a number of polls drawn by chance, so that answers
// overtake each other as those of reader threads do; it shows the synced content of the moment it is given.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/ports.h"
#include "engine/view/memory/disk.h"
#include "engine/view/view.h"

namespace sandglass::engine::view {

class MemoryView final : public View {
 public:
  /// Both must outlive the view. `longest_delay`: in polls.
  MemoryView(const MemoryDisk& disk, base::Random& random, std::uint32_t longest_delay = 3)
      : disk_(disk), random_(random), longest_delay_(longest_delay) {}

  ReadTicket submit(ScanRequest request) override;
  void poll(std::vector<ReadAnswer>& answers) override;
  base::Result<ScanResult> scan_now(const ScanRequest& request) const override { return disk_.scan(request); }
  /// Tickets that have no answer yet.
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    ReadTicket ticket = 0;
    std::uint64_t polls_left = 0;
    ScanRequest request;
  };

  const MemoryDisk& disk_;
  base::Random& random_;
  std::uint32_t longest_delay_;
  ReadTicket last_ticket_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace sandglass::engine::view
