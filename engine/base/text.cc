#include "engine/base/text.h"

#include <array>
#include <cstdint>
#include <cstdio>

namespace sandglass::engine::base {
namespace {

/// One decoded character; `size` 0 means invalid at this place.
struct Decoded {
  char32_t value = 0;
  std::size_t size = 0;
};

Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto follows = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first >= 0xC2 && first <= 0xDF && follows(1)) {
    return {static_cast<char32_t>((first & 0x1F) << 6 | (byte(1) & 0x3F)), 2};
  }
  if ((first & 0xF0) == 0xE0 && follows(1) && follows(2)) {
    const char32_t value = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (value >= 0x800 && (value < 0xD800 || value > 0xDFFF)) return {value, 3};
  }
  if (first >= 0xF0 && first <= 0xF4 && follows(1) && follows(2) && follows(3)) {
    const char32_t value =
        (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (value >= 0x10000 && value <= 0x10FFFF) return {value, 4};
  }
  return {};
}

struct Range {
  char32_t first;
  char32_t last;
};

/// Characters that can hide or reorder what a person reads: controls, format and direction characters, odd
/// spaces and fillers, variation selectors, tags, private use, specials (Unicode 15, categories Cc Cf Zs Zl
/// Zp Co).
constexpr std::array kHidden = {
    Range{0x00, 0x1F},       Range{0x7F, 0xA0},       Range{0xAD, 0xAD},       Range{0x034F, 0x034F},
    Range{0x061C, 0x061C},   Range{0x0600, 0x0605},   Range{0x06DD, 0x06DD},   Range{0x070F, 0x070F},
    Range{0x0890, 0x0891},   Range{0x08E2, 0x08E2},   Range{0x115F, 0x1160},   Range{0x1680, 0x1680},
    Range{0x17B4, 0x17B5},   Range{0x180B, 0x180F},   Range{0x2000, 0x200F},   Range{0x2028, 0x202F},
    Range{0x205F, 0x206F},   Range{0x2800, 0x2800},   Range{0x3000, 0x3000},   Range{0x3164, 0x3164},
    Range{0xE000, 0xF8FF},   Range{0xFE00, 0xFE0F},   Range{0xFEFF, 0xFEFF},   Range{0xFFA0, 0xFFA0},
    Range{0xFFF0, 0xFFFF},   Range{0x110BD, 0x110BD}, Range{0x110CD, 0x110CD}, Range{0x13430, 0x1343F},
    Range{0x1BCA0, 0x1BCA3}, Range{0x1D173, 0x1D17A}, Range{0xE0000, 0x10FFFF}};

bool is_hidden(char32_t value) {
  for (const auto& range : kHidden) {
    if (value >= range.first && value <= range.last) return true;
  }
  return (value & 0xFFFE) == 0xFFFE;
}

void append_format(std::string& out, const char* format, unsigned value) {
  std::array<char, 16> buffer;
  const int size = std::snprintf(buffer.data(), buffer.size(), format, value);
  out.append(buffer.data(), static_cast<std::size_t>(size));
}

void append_escaped(std::string& out, char32_t value) {
  switch (value) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      append_format(out, value < 0x80 ? "\\x%02x" : "\\u{%x}", static_cast<unsigned>(value));
  }
}

}  // namespace

std::string escape_for_terminal(std::string_view text, bool keep_newlines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (next.size == 0) {
      append_format(out, "\\x%02x", static_cast<std::uint8_t>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    if (next.value == '\n' && keep_newlines) {
      out += '\n';
    } else if (is_hidden(next.value)) {
      append_escaped(out, next.value);
    } else {
      out += text.substr(0, next.size);
    }
    text.remove_prefix(next.size);
  }
  return out;
}

std::string quote_for_terminal(std::string_view text) {
  if (!text.empty() && text.find_first_of(" \"\\=") == std::string_view::npos)
    return escape_for_terminal(text);
  std::string out = "\"";
  for (const char c : escape_for_terminal(text)) {
    if (c == '"') out += '\\';
    out += c;
  }
  out += '"';
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (next.size == 0) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

}  // namespace sandglass::engine::base
