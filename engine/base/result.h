// Expected failures are values: Result<T> is either a T or an Error. A broken invariant is not an expected
// failure; it aborts (check.h).
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "engine/base/codes.h"

namespace sandglass::engine::base {

/// What went wrong. `message` says what and where and what to do, for a person; it holds no secret.
struct Error {
  Code code = Code::internal;
  std::string message;

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(Code code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

}  // namespace sandglass::engine::base
