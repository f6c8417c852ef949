// SHA-256 over pieces, small enough for a static program that must start in under a millisecond. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "sandbox-runtime/frames/init_protocol.h"

namespace sandglass::sandbox_runtime::init {

class ContentHash {
 public:
  ContentHash();
  void restart();
  void update(std::string_view data);
  frames::Digest finish();

 private:
  // the library's context, kept out of this header
  alignas(8) unsigned char context_[128];
};

}  // namespace sandglass::sandbox_runtime::init
