#include "engine/base/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <cstring>

#include "engine/base/check.h"

namespace sandglass::engine::base {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string to_hex(std::string_view raw) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(raw.size() * 2);
  for (const char c : raw) {
    const auto byte = static_cast<std::uint8_t>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string raw;
  raw.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_of(text[i]);
    const int low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    raw.push_back(static_cast<char>(high * 16 + low));
  }
  return raw;
}

std::string Hash256::hex() const {
  return to_hex(view());
}

std::optional<Hash256> Hash256::from_hex(std::string_view text) {
  const auto raw = base::from_hex(text);
  return raw ? from_bytes(*raw) : std::nullopt;
}

std::optional<Hash256> Hash256::from_bytes(std::string_view raw) {
  Hash256 hash;
  if (raw.size() != hash.bytes.size()) return std::nullopt;
  std::memcpy(hash.bytes.data(), raw.data(), raw.size());
  return hash;
}

Hash256 sha256(std::string_view data) {
  Hash256 hash;
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), hash.bytes.data());
  return hash;
}

Hash256 hmac_sha256(std::string_view key, std::string_view data) {
  Hash256 hash;
  unsigned int size = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(data.data()), data.size(), hash.bytes.data(), &size);
  SG_CHECK(done != nullptr && size == hash.bytes.size(), "HMAC-SHA-256");
  return hash;
}

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  Impl() {
    SG_CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1, "SHA-256");
  }
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {}
Sha256::~Sha256() = default;

Sha256& Sha256::update(std::string_view data) {
  SG_CHECK(EVP_DigestUpdate(impl_->context, data.data(), data.size()) == 1, "SHA-256 update");
  return *this;
}

Sha256& Sha256::update_u64(std::uint64_t value) {
  std::array<char, 8> raw;
  for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<char>(value >> (56 - 8 * i));
  return update({raw.data(), raw.size()});
}

Hash256 Sha256::finish() {
  Hash256 hash;
  unsigned int size = 0;
  SG_CHECK(EVP_DigestFinal_ex(impl_->context, hash.bytes.data(), &size) == 1, "SHA-256 final");
  SG_CHECK(EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1, "SHA-256 init");
  return hash;
}

}  // namespace sandglass::engine::base
