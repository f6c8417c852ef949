#include "sandbox-runtime/egress/chunk_scanner.h"

#include <algorithm>

namespace sandglass::sandbox_runtime::egress {
namespace {

constexpr std::size_t max_digits = 12;
constexpr std::size_t max_line = 256;
constexpr std::size_t max_trailers = 8 << 10;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_text(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

}  // namespace

engine::base::Result<std::size_t> ChunkScanner::feed(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size() && state_ != State::finished) {
    if (state_ == State::data) {
      const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(size_, bytes.size() - at));
      at += take;
      size_ -= take;
      data_bytes_ += take;
      if (size_ == 0) state_ = State::data_cr;
      continue;
    }
    if (!step(bytes[at])) {
      return engine::base::fail(engine::base::Code::invalid_argument, "the chunked body is malformed");
    }
    ++at;
  }
  return at;
}

bool ChunkScanner::step_size(char c) {
  const int value = hex_value(c);
  if (value >= 0) {
    size_ = size_ * 16 + static_cast<std::uint64_t>(value);
    return ++digits_ <= max_digits;
  }
  if (digits_ == 0) return false;
  if (c == '\r')
    state_ = State::size_lf;
  else if (c == ';')
    state_ = State::extension;
  else
    return false;
  return true;
}

bool ChunkScanner::step(char c) {
  switch (state_) {
    case State::size:
      ++line_bytes_;
      return step_size(c);
    case State::extension:
      if (c == '\r') state_ = State::size_lf;
      return c == '\r' || (is_text(c) && ++line_bytes_ <= max_line);
    case State::size_lf:
      state_ = size_ == 0 ? State::trailer_start : State::data;
      return c == '\n';
    case State::data_cr:
      state_ = State::data_lf;
      return c == '\r';
    case State::data_lf:
      state_ = State::size;
      digits_ = line_bytes_ = 0;
      return c == '\n';
    case State::trailer_start:
      if (c == '\r') {
        state_ = State::last_lf;
        return true;
      }
      state_ = State::trailer;
      return c != ' ' && c != '\t' && c != ':' && is_text(c) && ++trailer_bytes_ <= max_trailers;
    case State::trailer:
      if (c == '\r') state_ = State::trailer_lf;
      return c == '\r' || (is_text(c) && ++trailer_bytes_ <= max_trailers);
    case State::trailer_lf:
      state_ = State::trailer_start;
      return c == '\n';
    case State::last_lf:
      state_ = State::finished;
      return c == '\n';
    case State::data:
    case State::finished:
      break;
  }
  return false;
}

}  // namespace sandglass::sandbox_runtime::egress
