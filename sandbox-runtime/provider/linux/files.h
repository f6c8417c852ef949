// Small helpers over files and descriptors. Thread rule: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// "No such file or directory (2)".
std::string error_text(int error);

/// All of it, over short writes and EINTR. On false errno is set.
bool write_all(int fd, std::string_view bytes);

/// Opens an existing file for writing and writes `text` with one call, as kernel files want it. 0 or errno.
int write_file(const std::string& path, std::string_view text);

/// Whole content up to `limit` bytes; none if it cannot be read.
std::optional<std::string> read_file(const std::string& path, std::size_t limit = 1u << 20);

/// The number after "key " in a file of "key number" lines, as the kernel's counters are written.
std::optional<unsigned long long> counter_in(std::string_view text, std::string_view key);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
