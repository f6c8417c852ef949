#include "engine/journal/kafka/cluster/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/data_folder.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::journal::kafka::cluster {

namespace {

constexpr const char* key_file = "ssl.key.location";
constexpr const char* key_text = "ssl.key.pem";
constexpr std::size_t most_key_bytes = 1 << 20;

/// `probe`: the client looks where certificates usually are.
bool names_a_file(const std::string& name, const std::string& value) {
  return (name.ends_with(".location") && value != "probe") || name == "sasl.kerberos.keytab";
}

}  // namespace

base::Status take_private_key(Settings& settings) {
  const auto found = settings.client.find(key_file);
  if (found == settings.client.end()) return {};
  auto text = base::read_whole_file(found->second, most_key_bytes);
  if (!text) {
    return base::fail(base::Code::file_unreadable,
                      std::string("the Kafka client's setting ") + key_file +
                          " names a file that cannot be read: " + text.error().message);
  }
  settings.client.erase(found);
  settings.client[key_text] = std::move(*text);
  return {};
}

std::vector<std::string> files_of(const Settings& settings) {
  std::vector<std::string> files;
  for (const auto& [name, value] : settings.client) {
    if (names_a_file(name, value)) files.push_back(value);
  }
  return files;
}

base::Status check_files(const Settings& settings) {
  for (const auto& [name, value] : settings.client) {
    if (!names_a_file(name, value)) continue;
    const base::UniqueFd file(::open(value.c_str(), O_RDONLY | O_CLOEXEC));
    if (file) continue;
    const int reason = errno;
    std::string message = "the Kafka client's setting " + name + " names " + value + ", which uid " +
                          std::to_string(geteuid()) + ", the engine's, cannot read: " + std::strerror(reason);
    if (reason == EACCES) {
      message += std::string(
                     ". Make the file readable (chmod o+r); if a private key is in it, move that to a "
                     "file of its own and name it with ") +
                 key_file + ": that one is read before the engine takes its uid";
    }
    return base::fail(base::Code::file_unreadable, message);
  }
  return {};
}

}  // namespace sandglass::engine::journal::kafka::cluster
