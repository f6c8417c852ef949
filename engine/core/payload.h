// Payloads: user content. They travel beside events in slots; evolve() never reads them (J3). An event holds
// a PayloadRef, which says where the bytes are stored and what they hash to.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/hash.h"

namespace sandglass::engine::core {

/// How a slot's bytes are to be read. Stored in front of the bytes; values are never used again.
enum class Encoding : std::uint8_t {
  none = 0,
  json = 1,    // UTF-8 JSON, made once and never re-encoded
  bytes = 2,   // opaque
  cereal = 3,  // a workflow's checkpoint state
};

/// One payload as stored. Immutable once made; shared between threads through shared_ptr<const Slot>.
struct Slot {
  Encoding encoding = Encoding::none;
  std::string bytes;

  friend bool operator==(const Slot&, const Slot&) = default;
};
using SlotPtr = std::shared_ptr<const Slot>;

/// HMAC-SHA-256 under a run key (J23): for headers, keys, approvals, replay comparison. Not guessable after
/// the tenant's key is gone.
struct ContentDigest {
  base::Hash256 hash;
  friend auto operator<=>(const ContentDigest&, const ContentDigest&) = default;
};

/// Plain SHA-256 of bytes that leave the system (artifact, diff). Stands only in payload slots and requests
/// (J23).
struct PublicDigest {
  base::Hash256 hash;
  friend auto operator<=>(const PublicDigest&, const PublicDigest&) = default;
};

/// A payload on its way into a record: bytes with the digest that was computed when they were made.
struct Payload {
  SlotPtr slot;  // null: no payload
  ContentDigest digest;

  explicit operator bool() const { return slot != nullptr; }
};

/// Where a payload is stored: record `seq` of the same stream, slot number `slot`. seq 0 means "no payload".
struct PayloadRef {
  std::uint64_t seq = 0;
  std::uint32_t slot = 0;
  std::uint32_t size = 0;
  ContentDigest digest;

  bool empty() const { return seq == 0; }
  friend auto operator<=>(const PayloadRef&, const PayloadRef&) = default;
};

/// The key under which one run's ContentDigests are made: HMAC(tenant key, history root). Held in memory
/// only.
class DigestKey {
 public:
  DigestKey() = default;
  DigestKey(std::string_view tenant_key, std::string_view history_root)
      : key_(base::hmac_sha256(tenant_key, history_root)) {}

  ContentDigest digest(Encoding encoding, std::string_view bytes) const {
    std::string data(1, static_cast<char>(encoding));
    data += bytes;
    return {base::hmac_sha256(key_.view(), data)};
  }
  Payload make(Encoding encoding, std::string bytes) const {
    auto slot = std::make_shared<const Slot>(Slot{encoding, std::move(bytes)});
    const ContentDigest made = digest(slot->encoding, slot->bytes);
    return {std::move(slot), made};
  }

 private:
  base::Hash256 key_;
};

inline PublicDigest public_digest(std::string_view bytes) {
  return {base::sha256(bytes)};
}

}  // namespace sandglass::engine::core
