// The tree of V13: 10,000 files, 40 MB.
#pragma once

#include <memory>
#include <random>
#include <string>

#include "tests/support/host/host_rig.h"

namespace sandglass::sandbox_runtime::host {

inline std::shared_ptr<MemoryTree> many_files() {
  constexpr int kFolders = 100;
  constexpr int kFiles = 100;  // in each
  auto tree = std::make_shared<MemoryTree>();
  std::mt19937_64 random(9);
  for (int folder = 0; folder < kFolders; ++folder) {
    const std::string path = "d" + std::to_string(folder);
    tree->folder(path);
    for (int i = 0; i < kFiles; ++i) {
      std::string content(4096, '\0');
      for (auto& byte : content) byte = static_cast<char>(random());
      tree->file(path + "/f" + std::to_string(i), std::move(content));
    }
  }
  return tree;
}

/// A sandbox that has room for it.
inline provider::Template many_files_template() {
  provider::Template tmpl = HostRig::small_template();
  tmpl.limits.disk.value = 256ull << 20;
  tmpl.limits.inodes.value = 50'000;
  return tmpl;
}

}  // namespace sandglass::sandbox_runtime::host
