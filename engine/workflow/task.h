// The coroutine type of workflow code, and the only one. Lazy: a task runs when it is awaited.
// Single-threaded: all frames of a run are resumed by its one ready queue, first in, first out. Every
// resumption starts from that queue and await_suspend returns bool, so the stack stays as deep as one frame
// at every optimisation level and under sanitizers (DESIGN §8).
//
// A workflow awaits only tasks and what Context gives; anything else does not compile.
// Ownership: a Task owns its frame; destroying it destroys what it awaits. Errors are values; an exception
// that leaves the workflow's function makes the run stuck.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"

namespace sandglass::engine::workflow {

/// The ready queue of one run. Its frames belong to trees: the workflow's own is 0, each update that is being
/// handled has another; what a frame makes ready is of its own tree unless it says otherwise.
class ReadyQueue {
 public:
  using Tree = std::uint64_t;

  void push(std::coroutine_handle<> handle) { push(handle, tree_); }
  void push(std::coroutine_handle<> handle, Tree tree) { ready_.push_back({handle, tree}); }
  /// Resumes until nobody is ready.
  void drain() {
    while (!ready_.empty()) {
      const Ready next = ready_.front();
      ready_.pop_front();
      tree_ = next.tree;
      next.handle.resume();
    }
    tree_ = 0;
  }
  /// The tree of the frame that runs now.
  Tree tree() const { return tree_; }
  /// Frames of this tree are about to be destroyed.
  void drop(Tree tree) {
    std::erase_if(ready_, [tree](const Ready& one) { return one.tree == tree; });
  }

 private:
  struct Ready {
    std::coroutine_handle<> handle;
    Tree tree = 0;
  };
  std::deque<Ready> ready_;
  Tree tree_ = 0;
};

/// Several tasks that one coroutine waits for.
struct Join {
  std::size_t open = 0;
  std::coroutine_handle<> waiter;
};

/// Marks what may be awaited beside tasks.
struct EngineAwaiter {};

template <class T>
class Task;

namespace internal {

struct PromiseBase {
  ReadyQueue* queue = nullptr;
  std::coroutine_handle<> continuation;  // who awaits this task
  Join* join = nullptr;                  // or the group that it belongs to
  std::exception_ptr exception;

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> self) noexcept {
      PromiseBase& promise = self.promise();
      if (promise.continuation) {
        promise.queue->push(promise.continuation);
      } else if (promise.join != nullptr && --promise.join->open == 0 && promise.join->waiter) {
        promise.queue->push(promise.join->waiter);
      }
      return true;
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception = std::current_exception(); }

  template <class U>
  auto await_transform(Task<U>&& task) {
    return typename Task<U>::Awaiter{std::move(task)};
  }
  template <class Awaiter>
    requires std::is_base_of_v<EngineAwaiter, std::remove_cvref_t<Awaiter>>
  Awaiter&& await_transform(Awaiter&& awaiter) {
    return std::forward<Awaiter>(awaiter);
  }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;

  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    if (exception) std::rethrow_exception(exception);
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const {
    if (exception) std::rethrow_exception(exception);
  }
};

}  // namespace internal

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;
  using Value = T;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  explicit operator bool() const { return static_cast<bool>(handle_); }
  bool done() const { return handle_.done(); }
  void* address() const { return handle_.address(); }

  /// Makes it ready, as the root of a run or as a member of a group. Once, instead of being awaited.
  void start(ReadyQueue& queue, Join* join = nullptr) { start(queue, queue.tree(), join); }
  /// As the root of a tree of its own.
  void start(ReadyQueue& queue, ReadyQueue::Tree tree, Join* join = nullptr) {
    handle_.promise().queue = &queue;
    handle_.promise().join = join;
    queue.push(handle_, tree);
  }
  /// The result of a task that is done. Rethrows what left it.
  T take() { return handle_.promise().take(); }

  struct Awaiter {
    Task task;

    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> parent) {
      auto& promise = task.handle_.promise();
      promise.queue = parent.promise().queue;
      promise.continuation = parent;
      promise.queue->push(task.handle_);
      return true;
    }
    T await_resume() { return task.take(); }
  };

 private:
  Handle handle_;
};

namespace internal {

template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace internal

/// Waits for tasks that were started with this join.
class JoinAwaiter : public EngineAwaiter {
 public:
  explicit JoinAwaiter(Join& join) : join_(join) {}
  bool await_ready() const noexcept { return join_.open == 0; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    join_.waiter = waiter;
    return true;
  }
  void await_resume() const noexcept {}

 private:
  Join& join_;
};

}  // namespace sandglass::engine::workflow
