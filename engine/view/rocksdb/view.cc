#include "engine/view/rocksdb/view.h"

#include <iterator>

#include "engine/base/check.h"

namespace sandglass::engine::view {

RocksView::RocksView(const Database& database, unsigned threads, std::function<void()> on_answer)
    : database_(database), on_answer_(std::move(on_answer)) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

RocksView::~RocksView() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ReadTicket RocksView::submit(ScanRequest request) {
  SG_CHECK(!threads_.empty(), "a view without reader threads takes no tickets");
  const ReadTicket ticket = ++last_ticket_;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({.ticket = ticket, .request = std::move(request)});
  }
  wake_.notify_one();
  return ticket;
}

void RocksView::poll(std::vector<ReadAnswer>& answers) {
  const std::lock_guard lock(mutex_);
  std::move(answers_.begin(), answers_.end(), std::back_inserter(answers));
  answers_.clear();
}

void RocksView::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const Waiting each = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    auto result = database_.scan(each.request);
    lock.lock();
    answers_.push_back({.ticket = each.ticket, .result = std::move(result)});
    lock.unlock();
    if (on_answer_) on_answer_();
    lock.lock();
  }
}

}  // namespace sandglass::engine::view
