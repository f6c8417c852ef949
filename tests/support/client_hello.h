// Bytes of a TLS ClientHello, made by hand.
#pragma once

#include <string>

namespace sandglass::tests::support {

struct HelloOptions {
  bool encrypted = false;  // with an encrypted_client_hello extension
  bool twice = false;      // two server names
};

inline std::string with_length(std::size_t width, const std::string& bytes) {
  std::string out;
  for (std::size_t i = width; i-- > 0;) out += static_cast<char>(bytes.size() >> (8 * i));
  return out + bytes;
}

inline std::string tls_record(const std::string& bytes) {
  return std::string("\x16\x03\x01", 3) + with_length(2, bytes);
}

/// One record. An empty name: no server_name extension.
inline std::string client_hello(const std::string& name, HelloOptions options = {}) {
  const std::string host = std::string(1, '\0') + with_length(2, name);
  const std::string server_name = std::string("\0\0", 2) + with_length(2, with_length(2, host));
  std::string extensions = std::string("\x00\x17", 2) + with_length(2, "");
  if (!name.empty()) extensions += server_name;
  if (options.twice) extensions += server_name;
  if (options.encrypted) extensions += std::string("\xfe\x0d", 2) + with_length(2, "xxxx");
  const std::string body = std::string("\x03\x03", 2) + std::string(32, 'r') + with_length(1, "session") +
                           with_length(2, std::string("\x13\x01", 2)) + with_length(1, std::string(1, '\0')) +
                           with_length(2, extensions);
  return tls_record('\x01' + with_length(3, body));
}

/// The same hello in records of `size` bytes.
inline std::string split_records(const std::string& record, std::size_t size) {
  std::string out;
  for (std::size_t at = 5; at < record.size(); at += size) out += tls_record(record.substr(at, size));
  return out;
}

}  // namespace sandglass::tests::support
