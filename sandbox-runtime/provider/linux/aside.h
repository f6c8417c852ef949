// Work that runs beside the caller on a thread of a pool. Ownership: what the work refers to must outlive
// this object, which waits for the work's end at the latest when it is destroyed. Thread rule: the maker's
// thread.
#pragma once

#include <future>
#include <memory>
#include <utility>

#include "engine/base/ports.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

template <class T>
class Aside {
 public:
  template <class Work>
  Aside(engine::base::TaskRunner& pool, Work work) {
    auto task = std::make_shared<std::packaged_task<T()>>(std::move(work));
    result_ = task->get_future();
    pool.run([task] { (*task)(); });
  }
  ~Aside() {
    if (result_.valid()) result_.wait();
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  /// Waits; once.
  T get() { return result_.get(); }

 private:
  std::future<T> result_;
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
