// An event as it stands in a record header. Type and version are seen by the framework, which refuses what is
// newer than it knows (J4); `body` is the stream kind's own protobuf message.
#pragma once

#include <cstdint>
#include <string>

namespace sandglass::engine::codec {

struct EncodedEvent {
  std::uint32_t type = 0;
  std::uint32_t version = 1;
  std::string body;

  friend bool operator==(const EncodedEvent&, const EncodedEvent&) = default;
};

}  // namespace sandglass::engine::codec
