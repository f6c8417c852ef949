// c-ares behind a small face: A and AAAA of one name, from the upstream resolvers of the settings only; no
// search list, no hosts file, no environment. Driven by its owner's poll loop.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/net/address.h"

namespace sandglass::engine::net {

/// One look-up; filled in while the owner polls.
struct Lookup {
  std::string name;
  struct Family {
    bool finished = false;
    base::Result<std::vector<Address>> addresses = std::vector<Address>{};
  };
  Family v4;
  Family v6;
};

/// Thread rule: one thread.
class NameLookup {
 public:
  explicit NameLookup(const std::vector<Endpoint>& resolvers);
  ~NameLookup();
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

  /// The name is canonical. The answer goes into the returned object; dropping it abandons the look-up.
  std::shared_ptr<Lookup> start(std::string name);

  /// Appends the descriptors to be polled; shortens `timeout_ms` (-1: none) to what c-ares wants.
  void prepare(std::vector<pollfd>& fds, int& timeout_ms) const;
  /// Takes the poll's answer for the descriptors of prepare(), and runs timeouts.
  void process(const pollfd* fds, std::size_t count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandglass::engine::net
