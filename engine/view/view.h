// Port: the view, a set of key-value tables derived from records (keys.h has the keys). Written only together
// with records, through the journal; read here by tickets, so that a shard never blocks (J31).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::engine::view {

/// One row to put, or to delete when `value` is empty.
struct ViewChange {
  std::string key;
  std::optional<std::string> value;
};

struct Row {
  std::string key;
  std::string value;
};

/// Rows with first ≤ key < last, in key order, at most `limit` rows and about `max_bytes`; `more` tells
/// whether it was cut there.
struct ScanRequest {
  std::string first;
  std::string last;
  std::size_t limit = 1000;
  std::size_t max_bytes = 8 << 20;
  bool reverse = false;  // from the end of the range backwards
};
struct ScanResult {
  std::vector<Row> rows;
  bool more = false;
};

using ReadTicket = std::uint64_t;
struct ReadAnswer {
  ReadTicket ticket = 0;
  base::Result<ScanResult> result;
};

/// Sees what is durable. Thread rule: one thread calls submit and poll; adapters may read on threads of their
/// own.
class View {
 public:
  virtual ~View() = default;
  virtual ReadTicket submit(ScanRequest request) = 0;
  virtual void poll(std::vector<ReadAnswer>& answers) = 0;

  /// Blocking read for tools and for opening; never called from a shard's poll.
  virtual base::Result<ScanResult> scan_now(const ScanRequest& request) const = 0;
};

}  // namespace sandglass::engine::view
