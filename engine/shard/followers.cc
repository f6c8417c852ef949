#include "engine/shard/followers.h"

#include <algorithm>
#include <utility>

#include "engine/codec/record.h"
#include "engine/view/keys.h"

namespace sandglass::engine::shard {

FollowId Followers::follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                           RecordsFn on_records) {
  const FollowId id = ++last_id_;
  followers_.emplace(id, Follower{stream, from_seq, limit, std::move(on_records)});
  by_stream_[stream].push_back(id);
  read(id);
  return id;
}

void Followers::cancel(FollowId id) {
  const auto found = followers_.find(id);
  if (found == followers_.end()) return;
  const auto stream = by_stream_.find(found->second.stream);
  std::erase(stream->second, id);
  if (stream->second.empty()) by_stream_.erase(stream);
  followers_.erase(found);
}

void Followers::grown(const core::StreamId& stream) {
  const auto found = by_stream_.find(stream);
  if (found == by_stream_.end()) return;
  for (const FollowId id : found->second) {
    Follower& follower = followers_.at(id);
    follower.grown = true;
    if (!follower.reading) read(id);
  }
}

void Followers::read(FollowId id) {
  Follower& follower = followers_.at(id);
  follower.reading = true;
  follower.grown = false;
  const view::KeyRange range = view::record_range(follower.stream, follower.from_seq);
  reads_.scan({.first = range.first, .last = range.last, .limit = follower.limit},
              [this, id](base::Result<view::ScanResult> page) { answer(id, std::move(page)); });
}

void Followers::answer(FollowId id, base::Result<view::ScanResult> page) {
  const auto found = followers_.find(id);
  if (found == followers_.end()) return;  // cancelled
  Follower& follower = found->second;
  follower.reading = false;
  if (page && page->rows.empty()) {
    if (follower.grown) read(id);
    return;
  }
  base::Result<std::vector<core::StoredRecord>> records;
  if (!page) records = std::unexpected(page.error());
  for (std::size_t i = 0; page && records && i < page->rows.size(); ++i) {
    const auto key = view::parse_stream_key(page->rows[i].key);
    auto record = codec::decode_record(follower.stream, view::get_u64(key->rest), page->rows[i].value);
    if (record) {
      records->push_back(std::move(*record));
    } else {
      records = std::unexpected(record.error());
    }
  }
  auto on_records = std::move(follower.on_records);
  cancel(id);
  on_records(std::move(records));
}

void Followers::end_all(const base::Error& error) {
  auto followers = std::exchange(followers_, {});
  by_stream_.clear();
  for (auto& [id, follower] : followers) follower.on_records(std::unexpected(error));
}

}  // namespace sandglass::engine::shard
