// Differences between two versions of a file as a unified diff that `git apply` takes. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sandglass::sandbox_runtime::manager {

struct FileVersion {
  bool executable = false;
  bool symlink = false;  // then `content` is its target
  std::string content;

  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// True for what a text diff cannot hold: a NUL byte in the first 8,000.
bool is_binary(std::string_view content);

/// nullopt versions: the file is not there. Empty if both are equal. Always correct; minimal for small
/// changes.
std::string unified_diff(const std::string& path, const std::optional<FileVersion>& before,
                         const std::optional<FileVersion>& after);

}  // namespace sandglass::sandbox_runtime::manager
