// Replays tests/fuzz/corpus/<target>: what fuzzing has found to be different, and what once broke something.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace sandglass::tests::fuzz {
namespace {

std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

std::filesystem::path corpus_folder() {
  const char* source = std::getenv("SANDGLASS_SOURCE");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests/fuzz/corpus";
}

/// What is at work, for whoever reads of a crash.
void tell(const std::string& name) {
  if (std::getenv("SANDGLASS_VERBOSE") != nullptr) std::fprintf(stderr, "replaying %s\n", name.c_str());
}

void replay(const std::string& name, Target target) {
  std::vector<std::filesystem::path> files;
  for (const auto& item : std::filesystem::directory_iterator(corpus_folder() / name)) {
    files.push_back(item.path());
  }
  ASSERT_FALSE(files.empty()) << "no corpus for " << name;
  std::ranges::sort(files);
  target({});
  for (const auto& path : files) {
    tell(path.string());
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    // A block of exactly this size, so that the sanitizer sees a read behind its end.
    const std::unique_ptr<char[]> exact(new char[bytes.size()]);
    std::ranges::copy(bytes, exact.get());
    target({exact.get(), bytes.size()});
  }
}

TEST(Fuzz, EveryCorpusRunsThroughItsTarget) {
  ASSERT_GE(targets().size(), 11U);  // the least that a preset builds
  for (const auto& [name, target] : targets()) {
    SCOPED_TRACE(name);
    replay(name, target);
  }
}

}  // namespace

bool register_target(const char* name, Target target) {
  return targets().emplace(name, target).second;
}

}  // namespace sandglass::tests::fuzz
