#include "sandbox-runtime/egress/tls_hello.h"

#include <cstdint>

namespace sandglass::sandbox_runtime::egress {
namespace {

constexpr std::uint8_t record_handshake = 22;
constexpr std::uint8_t message_client_hello = 1;
constexpr std::uint16_t extension_server_name = 0;
constexpr std::uint16_t extension_encrypted_hello = 0xfe0d;

std::size_t number(std::string_view bytes) {
  std::size_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

/// Takes fields off the front; after a failure everything it gives is empty.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  bool failed() const { return failed_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view take(std::size_t count) {
    if (rest_.size() < count) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  /// A vector with its length in `width` bytes before it.
  std::string_view vector(std::size_t width) { return take(number(take(width))); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

/// Puts the handshake message together out of its records. Incomplete: empty.
ClientHello::State join_records(std::string_view bytes, std::string& message) {
  std::size_t wanted = 4;
  while (message.size() < wanted) {
    if (bytes.empty()) return ClientHello::State::incomplete;
    if (static_cast<std::uint8_t>(bytes[0]) != record_handshake) return ClientHello::State::not_tls;
    if (bytes.size() >= 2 && bytes[1] != 3) return ClientHello::State::not_tls;
    if (bytes.size() < 5) return ClientHello::State::incomplete;
    const std::size_t length = number(bytes.substr(3, 2));
    if (length == 0 || length > 16384) return ClientHello::State::not_tls;
    if (bytes.size() < 5 + length) {
      // What is there may already show that it is no hello.
      if (message.empty() && bytes.size() > 5 && bytes[5] != message_client_hello)
        return ClientHello::State::not_tls;
      return ClientHello::State::incomplete;
    }
    message.append(bytes.substr(5, length));
    bytes.remove_prefix(5 + length);
    if (static_cast<std::uint8_t>(message[0]) != message_client_hello) return ClientHello::State::not_tls;
    if (message.size() >= 4) wanted = 4 + number(std::string_view(message).substr(1, 3));
    if (wanted > max_client_hello) return ClientHello::State::not_tls;
  }
  message.resize(wanted);
  return ClientHello::State::complete;
}

bool read_server_name(std::string_view data, std::string& name) {
  Fields fields(data);
  Fields list(fields.vector(2));
  const std::string_view type = list.take(1);
  const std::string_view host = list.vector(2);
  if (fields.failed() || list.failed() || !fields.at_end() || !list.at_end()) return false;
  if (type != std::string_view("\0", 1) || host.empty()) return false;
  name = host;
  return true;
}

}  // namespace

ClientHello read_client_hello(std::string_view bytes) {
  ClientHello hello;
  std::string message;
  hello.state = join_records(bytes, message);
  if (hello.state != ClientHello::State::complete) return hello;
  hello.state = ClientHello::State::not_tls;
  Fields body(std::string_view(message).substr(4));
  body.take(2 + 32);  // version, random
  body.vector(1);     // session
  body.vector(2);     // cipher suites
  body.vector(1);     // compression methods
  if (body.failed()) return hello;
  if (body.at_end()) {
    hello.state = ClientHello::State::complete;
    return hello;
  }
  Fields extensions(body.vector(2));
  if (body.failed() || !body.at_end()) return hello;
  bool named = false;
  while (!extensions.at_end()) {
    const auto type = static_cast<std::uint16_t>(number(extensions.take(2)));
    const std::string_view data = extensions.vector(2);
    if (extensions.failed()) return hello;
    if (type == extension_encrypted_hello) hello.encrypted = true;
    if (type != extension_server_name) continue;
    if (named || !read_server_name(data, hello.server_name)) return hello;
    named = true;
  }
  hello.state = ClientHello::State::complete;
  return hello;
}

}  // namespace sandglass::sandbox_runtime::egress
