// Output that is too much, too fine or not text.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "tests/security/attack/attack.h"

namespace sandglass::tests::attack {
namespace {

bool put(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace

int flood(char** argv) {  // B6: no newline; binary; escapes of terminals; no UTF-8
  std::string piece = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b\x00\xff\xfe\xc0\x80\xe2\x80\xae";
  while (piece.size() < (1u << 16)) piece += piece;
  put(1, "the-beginning");
  for (std::uint64_t left = number(argv, 0, 1 << 20); left > 0;) {
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size()));
    if (!put(1, std::string_view(piece).substr(0, size))) return 1;
    left -= size;
  }
  return put(1, "the-end") ? 0 : 1;
}

int both(char** argv) {  // FR-139: standard input is never read
  const std::string block(1 << 16, 'b');
  const std::uint64_t bytes = number(argv, 0, 1 << 20);
  for (const int fd : {2, 1}) {
    for (std::uint64_t left = bytes; left > 0; left -= std::min<std::uint64_t>(left, block.size())) {
      if (!put(fd, std::string_view(block).substr(0, std::min<std::uint64_t>(left, block.size())))) return 1;
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    if (!put(1 + i % 2, "x")) return 1;
  }
  return 0;
}

int split(char**) {  // FR-141
  const timespec pause{0, 2'000'000};
  for (const char byte : std::string_view("\xe2\x89\xa4|\xff|a\0b|\xf0\x9f\x98\x80|\xff\xfe"
                                          "A\0",
                                          19)) {
    put(1, {&byte, 1});
    ::nanosleep(&pause, nullptr);
  }
  for (const std::size_t border : {std::size_t{4096}, std::size_t{65536}}) {
    put(1, std::string(border - 2, '.'));
    put(1, "\xf0\x9f");
    ::nanosleep(&pause, nullptr);
    put(1, "\x98\x80");
  }
  return 0;
}

}  // namespace sandglass::tests::attack
