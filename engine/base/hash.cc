#include "engine/base/hash.h"

// OpenSSL 3's EVP calls look the algorithm up at every use: 3 to 5 times the cost for the few hundred bytes
// of a step.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"

namespace sandglass::engine::base {
namespace {

constexpr std::array<std::int8_t, 256> make_digits() {
  std::array<std::int8_t, 256> digits{};
  digits.fill(-1);
  for (int i = 0; i < 10; ++i) digits[static_cast<std::size_t>('0' + i)] = static_cast<std::int8_t>(i);
  for (int i = 0; i < 6; ++i) {
    digits[static_cast<std::size_t>('a' + i)] = digits[static_cast<std::size_t>('A' + i)] =
        static_cast<std::int8_t>(10 + i);
  }
  return digits;
}
constexpr auto kDigits = make_digits();

/// Two digits for each byte of `out`; false: others are among them.
bool read_hex(std::string_view text, char* out) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = kDigits[static_cast<std::uint8_t>(text[i])];
    const int low = kDigits[static_cast<std::uint8_t>(text[i + 1])];
    seen |= high | low;
    *out++ = static_cast<char>(high * 16 + low);
  }
  return seen >= 0;
}

class Sha256Context {
 public:
  Sha256Context() { SG_CHECK(SHA256_Init(&state_) == 1, "SHA-256"); }
  void update(std::string_view data) {
    SG_CHECK(SHA256_Update(&state_, data.data(), data.size()) == 1, "SHA-256");
  }
  Hash256 finish() {
    Hash256 hash;
    SG_CHECK(SHA256_Final(hash.bytes.data(), &state_) == 1, "SHA-256");
    return hash;
  }

 private:
  SHA256_CTX state_;
};

}  // namespace

std::string to_hex(std::string_view raw) {
  static constexpr char kText[] = "0123456789abcdef";
  std::string text(raw.size() * 2, '0');
  char* out = text.data();
  for (const char c : raw) {
    const auto byte = static_cast<std::uint8_t>(c);
    *out++ = kText[byte >> 4];
    *out++ = kText[byte & 15];
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string raw(text.size() / 2, '\0');
  if (!read_hex(text, raw.data())) return std::nullopt;
  return raw;
}

std::string Hash256::hex() const {
  return to_hex(view());
}

std::optional<Hash256> Hash256::from_hex(std::string_view text) {
  Hash256 hash;
  if (text.size() != 2 * hash.bytes.size() || !read_hex(text, reinterpret_cast<char*>(hash.bytes.data())))
    return std::nullopt;
  return hash;
}

std::optional<Hash256> Hash256::from_bytes(std::string_view raw) {
  Hash256 hash;
  if (raw.size() != hash.bytes.size()) return std::nullopt;
  std::memcpy(hash.bytes.data(), raw.data(), raw.size());
  return hash;
}

Hash256 sha256(std::string_view data) {
  Sha256Context context;
  context.update(data);
  return context.finish();
}

Hash256 hmac_sha256(std::string_view key, std::string_view data) {
  std::array<char, SHA256_CBLOCK> block{};
  if (key.size() > block.size()) {
    const Hash256 short_key = sha256(key);
    std::ranges::copy(short_key.view(), block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  const auto half = [&](char pad, std::string_view text) {
    std::array<char, SHA256_CBLOCK> padded;
    std::ranges::transform(block, padded.begin(), [&](char byte) { return static_cast<char>(byte ^ pad); });
    Sha256Context context;
    context.update({padded.data(), padded.size()});
    context.update(text);
    return context.finish();
  };
  return half(0x5C, half(0x36, data).view());
}

struct Sha256::Impl {
  Sha256Context context;
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::~Sha256() = default;

Sha256& Sha256::update(std::string_view data) {
  impl_->context.update(data);
  return *this;
}

Sha256& Sha256::update_u64(std::uint64_t value) {
  std::array<char, 8> raw;
  for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<char>(value >> (56 - 8 * i));
  return update({raw.data(), raw.size()});
}

Hash256 Sha256::finish() {
  const Hash256 hash = impl_->context.finish();
  impl_->context = {};
  return hash;
}

}  // namespace sandglass::engine::base
