#include "engine/run/view/attributes.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "engine/base/hash.h"

namespace sandglass::engine::run::view {

namespace {

using Json = nlohmann::json;

// A match row's sort value: the hash above, the time below, until the year 2109.
constexpr unsigned kTimeBits = 42;
constexpr std::int64_t kLastTime = (std::int64_t{1} << kTimeBits) - 1;

std::uint64_t sort_of(std::uint32_t match, std::int64_t started_ms) {
  return (std::uint64_t{match} << kTimeBits) |
         static_cast<std::uint64_t>(std::clamp<std::int64_t>(started_ms, 0, kLastTime));
}

/// Nothing for what no program of ours writes.
bool take_value(const Json& json, AttributeValue& value) {
  if (!json.is_object() || json.size() != 1) return false;
  const std::string& kind = json.begin().key();
  const Json& content = json.begin().value();
  if (kind == "keyword" && content.is_string()) {
    value = content.get<std::string>();
  } else if (kind == "integer" && content.is_number_integer()) {
    value = content.get<std::int64_t>();
  } else if (kind == "float" && content.is_number()) {
    value = content.get<double>();
  } else if (kind == "bool" && content.is_boolean()) {
    value = content.get<bool>();
  } else if (kind == "time" && content.is_number_integer()) {
    value = AttributeTime{content.get<std::int64_t>()};
  } else {
    return false;
  }
  return true;
}

struct HashValue {
  base::Sha256& hash;
  void operator()(const std::string& text) const { hash.update_u64(text.size()).update(text); }
  void operator()(std::int64_t number) const { hash.update_u64(static_cast<std::uint64_t>(number)); }
  void operator()(double number) const { hash.update_u64(std::bit_cast<std::uint64_t>(number + 0.0)); }
  void operator()(bool yes) const { hash.update_u64(yes ? 1 : 0); }
  void operator()(AttributeTime time) const { hash.update_u64(static_cast<std::uint64_t>(time.ms)); }
};

}  // namespace

base::Result<Attributes> decode_attributes(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, false);
  Attributes attributes;
  bool good = parsed.is_object();
  if (good) {
    for (const auto& [name, content] : parsed.items()) {
      good = good && is_attribute_name(name) && take_value(content, attributes[name]);
    }
  }
  if (good) return attributes;
  return base::fail(base::Code::record_damaged, "a run's search attributes cannot be read; rebuild the view");
}

std::uint32_t match_of(std::string_view name, const AttributeValue& value) {
  base::Sha256 hash;
  hash.update("sandglass attribute 1").update_u64(name.size()).update(name).update_u64(value.index());
  std::visit(HashValue{hash}, value);
  const base::Hash256 made = hash.finish();
  return (std::uint32_t{made.bytes[0]} << 16 | std::uint32_t{made.bytes[1]} << 8 | made.bytes[2]) &
         ((1U << (64 - kTimeBits)) - 1);
}

std::string match_key(core::PartitionId partition, std::uint32_t match, std::int64_t started_ms,
                      const core::StreamId& stream) {
  return tables::index_key(partition, tables::Index::match, sort_of(match, started_ms), stream);
}

tables::KeyRange match_rows(core::PartitionId partition, std::uint32_t match, std::int64_t first_started_ms,
                            std::int64_t last_started_ms) {
  return tables::index_range(partition, tables::Index::match, sort_of(match, first_started_ms),
                             sort_of(match, last_started_ms));
}

std::int64_t started_of(const tables::ParsedIndexKey& match_row) {
  return static_cast<std::int64_t>(match_row.sort) & kLastTime;
}

void project_attributes(std::string_view json, std::int64_t started_ms, const core::StreamId& stream,
                        core::PartitionId partition, std::vector<tables::ViewChange>& changes) {
  const auto attributes = decode_attributes(json);
  if (!attributes) return;  // made by no program of ours; nobody finds the run by it
  changes.push_back({tables::content_key(stream), std::string(json)});
  for (const auto& [name, value] : *attributes) {
    changes.push_back({match_key(partition, match_of(name, value), started_ms, stream), std::string()});
  }
}

}  // namespace sandglass::engine::run::view
