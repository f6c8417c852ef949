// The hand-made layout of what host and init say to each other: little-endian integers, texts as a 4-byte
// length and bytes, lists as a 4-byte count. A struct lists its fields once, in visit(); Encoder and Decoder
// walk them. Hostile input can only end in ok() == false: no length is trusted before the bytes behind it are
// there.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sandglass::sandbox_runtime::frames {

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

  template <std::integral T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  template <class T>
    requires std::is_enum_v<T>
  void put(T value) {
    put(static_cast<std::underlying_type_t<T>>(value));
  }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  void put(const std::array<std::uint8_t, 32>& raw) {
    out_.append(reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  void put(const std::vector<std::string>& texts) {
    put(static_cast<std::uint32_t>(texts.size()));
    for (const std::string& text : texts) put(std::string_view(text));
  }

 private:
  std::string& out_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view input) : rest_(input) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

  template <std::integral T>
  void get(T& value) {
    const std::string_view raw = take(sizeof(T));
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < raw.size(); ++i)
      sum |= std::uint64_t{static_cast<unsigned char>(raw[i])} << (8 * i);
    if constexpr (std::same_as<T, bool>) {
      ok_ = ok_ && sum <= 1;
      value = sum == 1;
    } else {
      value = static_cast<T>(sum);
    }
  }
  template <class T>
    requires std::is_enum_v<T>
  void get(T& value) {
    std::underlying_type_t<T> raw{};
    get(raw);
    value = static_cast<T>(raw);
  }
  void get(std::string_view& text) {
    std::uint32_t size = 0;
    get(size);
    text = take(size);
  }
  void get(std::string& text) {
    std::string_view view;
    get(view);
    text = view;
  }
  void get(std::array<std::uint8_t, 32>& raw) {
    const std::string_view bytes = take(raw.size());
    if (bytes.size() == raw.size()) std::memcpy(raw.data(), bytes.data(), raw.size());
  }
  void get(std::vector<std::string>& texts) {
    std::uint32_t count = 0;
    get(count);
    // Each text takes at least its length's four bytes: a count that cannot be true reserves nothing.
    ok_ = ok_ && count <= rest_.size() / sizeof(std::uint32_t);
    texts.clear();
    for (std::uint32_t i = 0; ok_ && i < count; ++i) get(texts.emplace_back());
  }

  bool ok() const { return ok_; }
  /// Everything was read and it was all there.
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace sandglass::sandbox_runtime::frames
