// Hashes. Implemented with OpenSSL's libcrypto; SHA-256 per FIPS 180-4, HMAC per RFC 2104.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sandglass::engine::base {

/// 32 bytes of a SHA-256 or HMAC-SHA-256. All zero means "none".
struct Hash256 {
  std::array<std::uint8_t, 32> bytes{};

  bool is_zero() const { return *this == Hash256{}; }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  std::string hex() const;
  static std::optional<Hash256> from_hex(std::string_view text);
  static std::optional<Hash256> from_bytes(std::string_view raw);

  friend auto operator<=>(const Hash256&, const Hash256&) = default;
};

Hash256 sha256(std::string_view data);
Hash256 hmac_sha256(std::string_view key, std::string_view data);

/// SHA-256 over several pieces. Not thread-safe; reusable after finish().
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& update(std::string_view data);
  /// Big-endian, so that hashes are the same on every machine.
  Sha256& update_u64(std::uint64_t value);
  Hash256 finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string to_hex(std::string_view raw);
std::optional<std::string> from_hex(std::string_view text);

}  // namespace sandglass::engine::base
