#include "engine/base/crc32c.h"

#include <array>
#include <cstring>

namespace sandglass::engine::base {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t by_table(std::uint32_t state, std::string_view data) {
  for (const char byte : data) state = kTable[(state ^ static_cast<std::uint8_t>(byte)) & 0xFF] ^ state >> 8;
  return state;
}

#if defined(__x86_64__)
// Logs of 128 MiB are checked at a start: with the instruction that is a matter of milliseconds.
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t state, std::string_view data) {
  std::uint64_t wide = state;
  for (; data.size() >= sizeof(std::uint64_t); data.remove_prefix(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  return by_table(static_cast<std::uint32_t>(wide), data);
}
#endif

}  // namespace

std::uint32_t crc32c(std::string_view data) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~by_instruction(~0U, data);
#endif
  return ~by_table(~0U, data);
}

}  // namespace sandglass::engine::base
