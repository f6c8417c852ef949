#include "engine/view/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "engine/core/stream_id.h"

namespace sandglass::engine::view {
namespace {

using core::StreamId;
using core::StreamKind;

/// Values near every byte border, and random ones.
std::uint64_t number(std::mt19937_64& random) {
  const std::uint64_t base = 1ULL << (random() % 64);
  switch (random() % 4) {
    case 0:
      return base;
    case 1:
      return base - 1;
    case 2:
      return random() % 4;
    default:
      return random();
  }
}

StreamId stream(std::mt19937_64& random) {
  return StreamId::named(StreamKind::run, std::to_string(random() % 5));
}

template <class Domain, class Make, class Key>
void expect_same_order(Make make, Key key) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20'000; ++i) {
    const Domain a = make(random);
    const Domain b = make(random);
    EXPECT_EQ(a < b, key(a) < key(b));
    EXPECT_EQ(a == b, key(a) == key(b));
  }
}

// J11: byte order = domain order.
TEST(Keys, RecordKeysSortByBucketStreamAndSeq) {
  using Domain = std::tuple<std::uint16_t, StreamId, std::uint64_t>;
  expect_same_order<Domain>(
      [](auto& random) {
        const StreamId id = stream(random);
        return Domain{id.bucket(), id, number(random)};
      },
      [](const Domain& d) { return record_key(std::get<1>(d), std::get<2>(d)); });
}

TEST(Keys, DueKeysSortByPartitionAndTimeAlsoBeforeTheEpoch) {
  using Domain = std::tuple<std::uint16_t, std::int64_t, StreamId, std::string>;
  expect_same_order<Domain>(
      [](auto& random) {
        return Domain{static_cast<std::uint16_t>(random() % 3), static_cast<std::int64_t>(number(random)),
                      stream(random), std::string(random() % 3, 'k')};
      },
      [](const Domain& d) {
        return due_key(std::get<0>(d), std::get<1>(d), std::get<2>(d), std::get<3>(d));
      });
}

TEST(Keys, UndeliveredKeysSortBySourceSeqAndIndex) {
  using Domain = std::tuple<StreamId, std::uint64_t, std::uint32_t>;
  expect_same_order<Domain>(
      [](auto& random) {
        return Domain{stream(random), number(random), static_cast<std::uint32_t>(number(random))};
      },
      [](const Domain& d) { return undelivered_key(3, std::get<0>(d), std::get<1>(d), std::get<2>(d)); });
}

TEST(Keys, OrderKeysSortByPartitionAndSequence) {
  using Domain = std::pair<std::uint16_t, std::uint64_t>;
  expect_same_order<Domain>(
      [](auto& random) { return Domain{static_cast<std::uint16_t>(random() % 3), number(random)}; },
      [](const Domain& d) { return order_key(d.first, d.second); });
}

TEST(Keys, WhatIsPutTogetherIsTakenApartAgain) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    const StreamId id = stream(random);
    const std::uint64_t seq = number(random);
    const auto record = parse_stream_key(record_key(id, seq));
    ASSERT_TRUE(record);
    EXPECT_EQ(record->bucket, id.bucket());
    EXPECT_EQ(StreamId::from_bytes(record->stream), id);
    EXPECT_EQ(record->kind, StreamRow::record);
    EXPECT_EQ(get_u64(record->rest), seq);
    const auto due = parse_index_key(due_key(7, static_cast<std::int64_t>(seq), id, "timer"));
    ASSERT_TRUE(due);
    EXPECT_EQ(due->partition, 7);
    EXPECT_EQ(due->index, Index::due);
    EXPECT_EQ(from_sortable(due->sort), static_cast<std::int64_t>(seq));
    EXPECT_EQ(due->suffix, "timer");
    const auto order = parse_order_key(order_key(9, seq));
    ASSERT_TRUE(order);
    EXPECT_EQ(order->sequence, seq);
  }
}

TEST(Keys, AKeyOfOneFamilyIsNotReadAsAnother) {
  const StreamId id = StreamId::named(StreamKind::run, "a");
  const std::string keys[] = {record_key(id, 1),        snapshot_key(id),
                              inbox_key(id, id),        content_key(id),
                              request_key(id, "r"),     due_key(1, 2, id, "t"),
                              in_flight_key(1, id),     order_key(1, 2),
                              owner_epoch_key(1),       low_water_key(1, Index::due),
                              meta_key(MetaRow::format)};
  int streams = 0;
  int indexes = 0;
  int orders = 0;
  for (const std::string& key : keys) {
    streams += parse_stream_key(key).has_value();
    indexes += parse_index_key(key).has_value();
    orders += parse_order_key(key).has_value();
    EXPECT_LE(parse_stream_key(key).has_value() + parse_index_key(key).has_value() +
                  parse_order_key(key).has_value(),
              1);
  }
  EXPECT_EQ(streams, 5);
  EXPECT_EQ(indexes, 2);
  EXPECT_EQ(orders, 1);
  EXPECT_FALSE(parse_stream_key(std::string_view(keys[0]).substr(0, 20)));
}

TEST(Keys, ARangeHoldsExactlyItsOwn) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const StreamId a = stream(random);
    const StreamId b = stream(random);
    const auto inside = [](const KeyRange& range, const std::string& key) {
      return range.first <= key && (range.last.empty() || key < range.last);
    };
    EXPECT_EQ(inside(stream_range(a), record_key(b, number(random))), a == b);
    EXPECT_TRUE(inside(stream_range(a, StreamRow::record), record_key(a, ~0ULL)));
    EXPECT_FALSE(inside(stream_range(a, StreamRow::record), snapshot_key(a)));
    const std::uint64_t seq = number(random);
    const std::uint64_t from = number(random);
    EXPECT_EQ(inside(record_range(a, from), record_key(a, seq)), seq >= from);
    EXPECT_EQ(inside(order_range(1, from), order_key(1, seq)), seq >= from);
    EXPECT_FALSE(inside(order_range(1, from), order_key(2, seq)));
    EXPECT_FALSE(inside(order_range(0xFFFE), meta_key(MetaRow::format)));
  }
}

TEST(Keys, EveryBucketHasAPartitionAndPartitionsAreContiguous) {
  for (const std::uint16_t partitions : {1, 2, 3, 8, 1000, 1024}) {
    std::uint16_t last = 0;
    for (std::uint16_t bucket = 0; bucket < kStreamBuckets; ++bucket) {
      const std::uint16_t partition = partition_of(bucket, partitions);
      EXPECT_LT(partition, partitions);
      EXPECT_TRUE(partition == last || partition == last + 1);
      last = partition;
    }
    EXPECT_EQ(last, partitions - 1);
  }
}

}  // namespace
}  // namespace sandglass::engine::view
