// A folder of the test's own, removed with all that is in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/base/check.h"

namespace sandglass::tests::support {

class TempFolder {
 public:
  /// `parent`: where a disk matters; else the machine's own choice.
  explicit TempFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : path_((parent / "sandglass-test-XXXXXX").string()) {
    SG_CHECK(mkdtemp(path_.data()) != nullptr, path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace sandglass::tests::support
