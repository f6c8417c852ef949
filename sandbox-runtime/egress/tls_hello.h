// The server name inside a TLS ClientHello, read without taking part in the handshake (SPEC N2, FR-165,
// ADV-C21). Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sandglass::sandbox_runtime::egress {

/// More than any ClientHello that clients send; a longer one is refused.
inline constexpr std::size_t max_client_hello = 32 << 10;

struct ClientHello {
  enum class State : unsigned char { incomplete, complete, not_tls };
  State state = State::incomplete;
  std::string server_name;  // as sent; empty: none
  bool encrypted = false;   // has the encrypted_client_hello extension: the real name cannot be seen
};

/// `bytes` are the first ones that a client sent. The hello may come in several records.
ClientHello read_client_hello(std::string_view bytes);

}  // namespace sandglass::sandbox_runtime::egress
