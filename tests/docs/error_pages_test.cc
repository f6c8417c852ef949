// DESIGN §10: a user-visible error has a code and a page: what happened, why, what to do.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace sandglass {
namespace {

struct KnownCode {
  const char* name;
  int number;
  const char* title;
};
constexpr KnownCode kCodes[] = {
#define SG_CODE(name, number, title) {#name, number, title},
#include "engine/base/codes.def"
#undef SG_CODE
};

std::filesystem::path pages() {
  const char* source = std::getenv("SANDGLASS_SOURCE");
  return std::filesystem::path(source == nullptr ? "." : source) / "docs" / "errors";
}

TEST(ErrorPages, EveryCodeHasAPageWithItsTitleAndThreeParts) {
  for (const KnownCode& code : kCodes) {
    const auto path = pages() / (std::to_string(code.number) + ".md");
    std::ifstream file(path);
    ASSERT_TRUE(file) << "write " << path << " for code " << code.name;
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(
        text.starts_with("# " + std::to_string(code.number) + " " + code.name + ": " + code.title + "\n"))
        << path;
    for (const char* part : {"\n## What happened\n", "\n## Why\n", "\n## What to do\n"}) {
      const auto at = text.find(part);
      ASSERT_NE(at, std::string::npos) << path << " lacks" << part;
      EXPECT_GT(text.size(), at + std::string(part).size() + 5) << path << " says nothing under" << part;
    }
  }
}

TEST(ErrorPages, NoPageIsLeftOverAndNoNumberIsUsedTwice) {
  std::set<int> numbers;
  for (const KnownCode& code : kCodes) EXPECT_TRUE(numbers.insert(code.number).second) << code.number;
  for (const auto& entry : std::filesystem::directory_iterator(pages())) {
    if (entry.path().stem() == "README") continue;
    EXPECT_TRUE(numbers.contains(std::atoi(entry.path().stem().c_str()))) << entry.path() << " has no code";
  }
}

}  // namespace
}  // namespace sandglass
