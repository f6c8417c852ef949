// Follows a chunked body so that its end is known; the bytes themselves are passed on as they are (FR-168).
// Strict and bounded (ADV-C23). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/result.h"

namespace sandglass::sandbox_runtime::egress {

class ChunkScanner {
 public:
  /// How many of `bytes` belong to the body: all of them until it ends. Fails (invalid_argument) at a size
  /// that is no plain hexadecimal number, a line over 256 bytes, a line end that is not CRLF, trailers over 8
  /// KiB.
  engine::base::Result<std::size_t> feed(std::string_view bytes);

  bool finished() const { return state_ == State::finished; }
  /// Bytes of data so far, without sizes and trailers.
  std::uint64_t data_bytes() const { return data_bytes_; }

 private:
  enum class State : std::uint8_t {
    size,
    extension,
    size_lf,
    data,
    data_cr,
    data_lf,
    trailer_start,
    trailer,
    trailer_lf,
    last_lf,
    finished
  };
  /// False: the byte may not stand here.
  bool step(char c);
  bool step_size(char c);

  State state_ = State::size;
  std::uint64_t size_ = 0;  // of the chunk, and what is left of it
  std::size_t digits_ = 0;
  std::size_t line_bytes_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace sandglass::sandbox_runtime::egress
