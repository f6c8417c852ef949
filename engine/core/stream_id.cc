#include "engine/core/stream_id.h"

#include <algorithm>
#include <cstring>

#include "engine/base/hash.h"

namespace sandglass::engine::core {
namespace {

constexpr std::array kKinds = {StreamKind::run,       StreamKind::admission, StreamKind::pool,
                               StreamKind::approvals, StreamKind::schedule,  StreamKind::identity,
                               StreamKind::partition, StreamKind::refusals,  StreamKind::test};

StreamId from_hash(StreamKind kind, const base::Hash256& hash) {
  StreamId stream{.kind = kind, .id = {}};
  std::copy_n(hash.bytes.begin(), stream.id.size(), stream.id.begin());
  return stream;
}

}  // namespace

std::string_view name_of(StreamKind kind) {
  switch (kind) {
    case StreamKind::none:
      return "none";
    case StreamKind::run:
      return "run";
    case StreamKind::admission:
      return "admission";
    case StreamKind::pool:
      return "pool";
    case StreamKind::approvals:
      return "approvals";
    case StreamKind::schedule:
      return "schedule";
    case StreamKind::identity:
      return "identity";
    case StreamKind::partition:
      return "partition";
    case StreamKind::refusals:
      return "refusals";
    case StreamKind::test:
      return "test";
  }
  return "unknown";
}

StreamId StreamId::named(StreamKind kind, std::string_view name) {
  base::Sha256 hash;
  hash.update("sandglass stream name 1").update(name_of(kind)).update_u64(name.size()).update(name);
  return from_hash(kind, hash.finish());
}

StreamId StreamId::for_request(StreamKind kind, std::string_view tenant, std::string_view request_id) {
  base::Sha256 hash;
  hash.update("sandglass stream request 1").update(name_of(kind));
  hash.update_u64(tenant.size()).update(tenant).update_u64(request_id.size()).update(request_id);
  return from_hash(kind, hash.finish());
}

std::optional<StreamId> StreamId::from_bytes(std::string_view raw) {
  if (raw.size() != kBytes) return std::nullopt;
  StreamId stream;
  stream.kind = static_cast<StreamKind>(raw[0]);
  std::memcpy(stream.id.data(), raw.data() + 1, stream.id.size());
  return stream;
}

std::optional<StreamId> StreamId::parse(std::string_view text) {
  for (const StreamKind kind : kKinds) {
    const std::string_view name = name_of(kind);
    if (!text.starts_with(name) || text.size() <= name.size() || text[name.size()] != '-') continue;
    const std::string_view digits = text.substr(name.size() + 1);
    const auto raw = base::from_hex(digits);
    const bool upper = digits.find_first_of("ABCDEF") != std::string_view::npos;  // one text for each id
    if (!raw || raw->size() != 16 || upper) return std::nullopt;
    StreamId stream{.kind = kind, .id = {}};
    std::memcpy(stream.id.data(), raw->data(), stream.id.size());
    return stream;
  }
  return std::nullopt;
}

std::string StreamId::bytes() const {
  std::string raw(1, static_cast<char>(kind));
  raw.append(reinterpret_cast<const char*>(id.data()), id.size());
  return raw;
}

std::string StreamId::text() const {
  const std::string_view raw(reinterpret_cast<const char*>(id.data()), id.size());
  return std::string(name_of(kind)) + "-" + base::to_hex(raw);
}

std::uint16_t StreamId::bucket() const {
  return static_cast<std::uint16_t>((id[0] << 8 | id[1]) % kBuckets);
}

std::size_t StreamIdHash::operator()(const StreamId& stream) const {
  std::size_t value = 0;
  std::memcpy(&value, stream.id.data() + 2, sizeof value);
  return value ^ static_cast<std::size_t>(stream.kind);
}

}  // namespace sandglass::engine::core
