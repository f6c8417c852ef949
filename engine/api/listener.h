// Accepts the API's connections, and hands their descriptors on. Descriptors are shared with the journal, so
// a part of them is kept back: a connection that would take from it is closed at once, and its caller tries
// again. (The RPC library's own listener ends for good when there are none left.)
//
//   accept ─▶ a number below limit − reserve ─▶ taken(fd)        (from TCP: below three quarters of that)
//             one above, or none to be had ──▶ closed; a pause; again
//
// The kernel gives the lowest free number, so that one above the mark says that nearly all are in use.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::api {

struct ListenAddresses {
  std::string socket;  // path of a Unix socket; made with the process's umask
  std::string tcp;     // "127.0.0.1:7233" or "[::1]:7233"; empty: none
};

/// Thread rule: open and destroy from one thread; `taken` is called on a thread of its own.
class Listener {
 public:
  using Taken = std::function<void(base::UniqueFd)>;

  /// Binds both; an old socket file is replaced. Errors: address_in_use, io_error.
  static base::Result<std::unique_ptr<Listener>> open(const ListenAddresses& addresses);
  /// Nothing is accepted any more when it returns. Removes the socket file.
  ~Listener();

  /// Once.
  void start(Taken taken);
  /// Connections that were closed for want of descriptors.
  std::uint64_t turned_away() const { return turned_away_; }

 private:
  Listener() = default;
  void run(const Taken& taken);
  /// False: no more for now.
  bool accept_one(int listening, const Taken& taken);

  std::string path_;
  base::UniqueFd unix_, tcp_, stop_;
  std::atomic<std::uint64_t> turned_away_{0};
  std::thread thread_;
};

}  // namespace sandglass::engine::api
