// One fuzz target a file:
//
//   FUZZ_TARGET(json) { … input … }        // std::string_view input
//
// In the preset `fuzz` it is a libFuzzer program of its own; elsewhere it is registered, and the test `fuzz`
// hands it every file of tests/fuzz/corpus/<name>. A target returns for accepted and refused input alike;
// what must hold of an accepted one is checked with SG_CHECK, so that a broken promise is a crash. Thread
// rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sandglass::tests::fuzz {

using Target = void (*)(std::string_view input);

/// Adds a target to those that are replayed. Returns true, for use in an initialiser.
bool register_target(const char* name, Target target);

/// Takes small numbers and pieces off the front of an input; what is missing is zero or empty.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::uint16_t u16() {
    const std::uint16_t high = byte();
    return static_cast<std::uint16_t>(high << 8 | byte());
  }
  std::string_view take(std::size_t count) {
    const std::string_view piece = rest_.substr(0, count);
    rest_.remove_prefix(piece.size());
    return piece;
  }
  /// A piece with its length in two bytes before it.
  std::string_view piece() { return take(u16()); }
  std::string_view rest() { return take(rest_.size()); }

 private:
  std::string_view rest_;
};

}  // namespace sandglass::tests::fuzz

#ifdef SANDGLASS_FUZZ
#define FUZZ_TARGET(name)                                                             \
  static void fuzz_##name(std::string_view input);                                    \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    fuzz_##name({reinterpret_cast<const char*>(data), size});                         \
    return 0;                                                                         \
  }                                                                                   \
  static void fuzz_##name(std::string_view input)
#else
#define FUZZ_TARGET(name)                                           \
  static void fuzz_##name(std::string_view input);                  \
  [[maybe_unused]] static const bool registered_##name =            \
      sandglass::tests::fuzz::register_target(#name, &fuzz_##name); \
  static void fuzz_##name(std::string_view input)
#endif
