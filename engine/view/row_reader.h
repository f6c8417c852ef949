// Takes what put_u32, put_u64 and put_text have put from the front of a row's value. `ok` turns false at the
// first that is not there; what is given from then on is empty.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/view/keys.h"

namespace sandglass::engine::view {

inline void put_text(std::string& out, std::string_view text) {
  put_u32(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

struct RowReader {
  std::string_view rest;
  bool ok = true;

  std::string_view bytes(std::size_t count) {
    if (!ok || rest.size() < count) {
      ok = false;
      return {};
    }
    const std::string_view taken = rest.substr(0, count);
    rest.remove_prefix(count);
    return taken;
  }
  std::uint32_t u32() {
    const std::string_view raw = bytes(4);
    return ok ? get_u32(raw) : 0;
  }
  std::int64_t i64() {
    const std::string_view raw = bytes(8);
    return ok ? static_cast<std::int64_t>(get_u64(raw)) : 0;
  }
  std::string text() { return std::string(bytes(u32())); }
};

}  // namespace sandglass::engine::view
