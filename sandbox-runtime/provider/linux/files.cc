#include "sandbox-runtime/provider/linux/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::UniqueFd;

std::string error_text(int error) {
  return std::string(::strerror(error)) + " (" + std::to_string(error) + ")";
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

int write_file(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno;
  const ssize_t size = ::write(fd.get(), text.data(), text.size());
  if (size < 0) return errno;
  return static_cast<std::size_t>(size) == text.size() ? 0 : EIO;
}

std::optional<std::string> read_file(const std::string& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::string text;
  char buffer[16384];
  while (text.size() < limit) {
    const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return std::nullopt;
    if (size == 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  if (text.size() > limit) text.resize(limit);
  return text;
}

std::optional<unsigned long long> counter_in(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    unsigned long long value = 0;
    const std::string_view digits = line.substr(key.size() + 1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc{}) return value;
  }
  return std::nullopt;
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
