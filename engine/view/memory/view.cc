#include "engine/view/memory/view.h"

#include "engine/base/draw.h"

namespace sandglass::engine::view {

ReadTicket MemoryView::submit(ScanRequest request) {
  waiting_.push_back({.ticket = ++last_ticket_,
                      .polls_left = base::draw_below(random_, longest_delay_ + 1),
                      .request = std::move(request)});
  return last_ticket_;
}

void MemoryView::poll(std::vector<ReadAnswer>& answers) {
  std::erase_if(waiting_, [&](Waiting& each) {
    if (each.polls_left > 0) {
      --each.polls_left;
      return false;
    }
    answers.push_back({.ticket = each.ticket, .result = disk_.scan(each.request)});
    return true;
  });
}

}  // namespace sandglass::engine::view
