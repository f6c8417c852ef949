#include "sandbox-runtime/manager/unified_diff.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace sandglass::sandbox_runtime::manager {
namespace {

namespace fs = std::filesystem;

/// A folder that git works in; git is what the product's diffs are for.
struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "sandglass-diff-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }

  void write(const std::string& name, const FileVersion& file) const {
    const fs::path target = path / name;
    fs::create_directories(target.parent_path());
    fs::remove(target);
    if (file.symlink) {
      fs::create_symlink(file.content, target);
      return;
    }
    std::ofstream(target, std::ios::binary) << file.content;
    if (file.executable) fs::permissions(target, fs::perms::owner_exec, fs::perm_options::add);
  }
  std::optional<FileVersion> read(const std::string& name) const {
    const fs::path target = path / name;
    if (!fs::exists(fs::symlink_status(target))) return std::nullopt;
    if (fs::is_symlink(target)) return FileVersion{false, true, fs::read_symlink(target).string()};
    std::ostringstream content;
    content << std::ifstream(target, std::ios::binary).rdbuf();
    const bool executable = (fs::status(target).permissions() & fs::perms::owner_exec) != fs::perms::none;
    return FileVersion{executable, false, content.str()};
  }
  int git_apply(const std::string& diff) const {
    std::ofstream(path / "the.diff", std::ios::binary) << diff;
    const pid_t child = fork();
    if (child == 0) {
      if (chdir(path.c_str()) != 0) _exit(126);
      execlp("git", "git", "apply", "--whitespace=nowarn", "the.diff", nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    fs::remove(path / "the.diff");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  fs::path path;
};

void expect_applies(const std::string& name, const std::optional<FileVersion>& before,
                    const std::optional<FileVersion>& after) {
  const Folder folder;
  if (before) folder.write(name, *before);
  const std::string diff = unified_diff(name, before, after);
  ASSERT_EQ(folder.git_apply(diff), 0) << diff;
  EXPECT_EQ(folder.read(name), after) << diff;
}

FileVersion text(std::string content, bool executable = false) {
  return {executable, false, std::move(content)};
}

TEST(UnifiedDiff, LooksAsExpected) {
  EXPECT_EQ(
      unified_diff("a.txt", text("1\n2\n3\n4\n5\n"), text("1\n2\nthree\n4\n5\n")),
      "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+three\n 4\n 5\n");
  EXPECT_EQ(unified_diff("a", text("x"), text("x")), "");
}

TEST(UnifiedDiff, GitTakesEveryKindOfChange) {
  expect_applies("dir/new.txt", std::nullopt, text("a\nb\n"));
  expect_applies("dir/old.txt", text("a\nb\n"), std::nullopt);
  expect_applies("run.sh", text("x\n"), text("x\n", true));
  expect_applies("run.sh", text("x\n", true), text("y\n"));
  expect_applies("tool", std::nullopt, text("#!/bin/sh\n", true));
  expect_applies("no-newline", text("a\nb"), text("a\nc"));
  expect_applies("no-newline", text("a\nb\n"), text("a\nb"));
  expect_applies("no-newline", text("a\nb"), text("a\nb\n"));
  expect_applies("grows", text(""), text("a\n"));
  expect_applies("shrinks", text("a\n"), text(""));
  expect_applies("link", FileVersion{false, true, "there"}, FileVersion{false, true, "elsewhere"});
  expect_applies("link", FileVersion{false, true, "there"}, text("a file\n"));
  expect_applies("carriage", text("a\r\nb\r\n"), text("a\r\nc\r\n"));
}

TEST(UnifiedDiff, GitTakesEveryName) {
  for (const char* name :
       {"with space", "ümläut", "quote\"d", "back\\slash", "tab\there", "-dash", "new\nline"}) {
    expect_applies(name, text("a\n"), text("b\n"));
    expect_applies(name, std::nullopt, text("b\n"));
    expect_applies(name, text("a\n"), std::nullopt);
  }
}

TEST(UnifiedDiff, AnEmptyFileThatAppearsOrGoesIsTaken) {
  expect_applies("empty", std::nullopt, text(""));
  expect_applies("empty", text(""), std::nullopt);
}

TEST(UnifiedDiff, RandomEditsApply) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> lines;
    for (int i = below(40); i > 0; --i) lines.push_back("line " + std::to_string(below(5)));
    std::vector<std::string> changed = lines;
    for (int i = below(8); i > 0; --i) {
      const auto at = static_cast<std::ptrdiff_t>(below(static_cast<int>(changed.size()) + 1));
      if (below(2) == 0 || changed.empty()) {
        changed.insert(changed.begin() + at, "line " + std::to_string(below(5)));
      } else if (at < static_cast<std::ptrdiff_t>(changed.size())) {
        changed.erase(changed.begin() + at);
      }
    }
    const auto join = [&](const std::vector<std::string>& all) {
      std::string out;
      for (const std::string& line : all) out += line + "\n";
      if (!out.empty() && below(4) == 0) out.pop_back();
      return out;
    };
    const FileVersion before = text(join(lines));
    const FileVersion after = text(join(changed));
    if (before == after) continue;
    expect_applies("f", before, after);
    if (HasFatalFailure()) return;
  }
}

TEST(UnifiedDiff, AFileThatChangesWhollyIsStillRight) {
  std::string before;
  std::string after;
  for (int i = 0; i < 3000; ++i) {
    before += "old " + std::to_string(i) + "\n";
    after += "new " + std::to_string(i) + "\n";
  }
  expect_applies("large", text("same\n" + before + "same\n"), text("same\n" + after + "same\n"));
}

/// n lines of one byte.
std::string lines(std::size_t count) {
  return std::string(count, '\n');
}

// What a sandbox leaves is compared in the engine, whose memory and time it must not take: sixteen MiB of
// empty lines once took a hundred times as much, and lines that are equal were followed on every way of the
// search.
TEST(UnifiedDiff, FilesOfVeryManyLinesTakeLittleAndAreStillRight) {  // ADV-A9
  const std::size_t many = 8u << 20;
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  const std::string diff =
      unified_diff("f", text("a\n" + lines(many) + "b\n"), text("c\n" + lines(many - 9) + "d"));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 160 << 10) << "KiB";
  EXPECT_GT(diff.size(), 2 * many);
  const std::string some = lines(300'000);
  for (const char* end : {"\n", ""}) {
    expect_applies("f", text("1\n2\n3\n4\n" + some + "a\n5\n6\n7\n8" + end),
                   text("1\n2\n3\n4\nx\n" + some + "5\n6\n7\n8" + end));
    expect_applies("f", text("x" + some + end), text(some + "x" + end));
    expect_applies("f", std::nullopt, text(some + "x" + end));
    expect_applies("f", text(some + "x" + end), std::nullopt);
    expect_applies("f", text(some + "x\n" + some + end), text(some + "y\n" + some + "z" + end));
  }
  // equal lines on every way of the search
  std::string ways;
  for (int i = 0; i < 2'000; ++i) ways += "a\n";
  expect_applies("f", text("b\n" + lines(80'000) + ways), text(ways + lines(80'000) + "b\n"));
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::manager
