// The View port on a Database: tickets are answered by reader threads of its own, blocking reads by the
// caller's.
//
// Thread rule: submit and poll from one thread; `on_answer` is called from reader threads and must not block.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/view/rocksdb/database.h"
#include "engine/view/view.h"

namespace sandglass::engine::view {

class RocksView final : public View {
 public:
  /// The database must outlive the view. `on_answer` (may be null) tells that poll() has something. No
  /// threads: tools that only use scan_now.
  RocksView(const Database& database, unsigned threads, std::function<void()> on_answer = nullptr);
  ~RocksView() override;

  ReadTicket submit(ScanRequest request) override;
  void poll(std::vector<ReadAnswer>& answers) override;
  base::Result<ScanResult> scan_now(const ScanRequest& request) const override {
    return database_.scan(request);
  }

 private:
  struct Waiting {
    ReadTicket ticket = 0;
    ScanRequest request;
  };
  void work();

  const Database& database_;
  const std::function<void()> on_answer_;
  ReadTicket last_ticket_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<Waiting> waiting_;
  std::vector<ReadAnswer> answers_;
  std::vector<std::thread> threads_;
};

}  // namespace sandglass::engine::view
