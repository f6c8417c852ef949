// Those who wait for durable records of a stream (follow, watch). One call, one answer: as soon as the view
// has records from `from_seq` on, up to `limit` of them are given; for more the caller asks again. So nobody
// is sent faster than he takes it, and history and news are one path.
//
// Thread rule: one thread; answers come from inside poll().
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/shard/envelope.h"
#include "engine/shard/view_reads.h"

namespace sandglass::engine::shard {

class Followers {
 public:
  explicit Followers(ViewReads& reads) : reads_(reads) {}

  FollowId follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                  RecordsFn on_records);
  /// No answer will come. Unknown ids are ignored.
  void cancel(FollowId id);
  /// The stream has a new durable record.
  void grown(const core::StreamId& stream);
  /// Answers all with `error`.
  void end_all(const base::Error& error);
  std::size_t size() const { return followers_.size(); }

 private:
  struct Follower {
    core::StreamId stream;
    std::uint64_t from_seq = 0;
    std::size_t limit = 0;
    RecordsFn on_records;
    bool reading = false;
    bool grown = false;  // since the read that is under way
  };
  void read(FollowId id);
  void answer(FollowId id, base::Result<view::ScanResult> page);

  ViewReads& reads_;
  FollowId last_id_ = 0;
  std::unordered_map<FollowId, Follower> followers_;
  std::unordered_map<core::StreamId, std::vector<FollowId>, core::StreamIdHash> by_stream_;
};

}  // namespace sandglass::engine::shard
