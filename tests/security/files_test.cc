// Files in and out against a sandbox that plants traps (ADV-A1 to A14, field reports L), through host and
// init.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/security/attack_rig.h"

namespace sandglass::tests {
namespace {

using engine::base::Code;
using FilesTest = AttackTest;

std::shared_ptr<MemoryTree> one_file(const std::string& path = "f", const std::string& content = "x") {
  auto tree = std::make_shared<MemoryTree>();
  tree->file(path, content);
  return tree;
}

TEST_F(FilesTest, PathsThatLeaveOrAreNoPathsAreRefusedByName) {  // ADV-A1, A2, FR-149, FR-150
  ASSERT_EQ(shell("ln -s / out; ln -s /etc/passwd notes; ln -s . self; mkdir d")->exit_code, 0);
  const std::string nul("a\0b", 3);
  for (const std::string& path :
       {std::string("../../etc/cron.d"), std::string("/etc"), std::string("a/../../b"), nul,
        std::string(5000, 'p'), std::string("bad\xff"), std::string("out"), std::string("out/tmp"),
        std::string("/proc/1"), std::string("/sys"), std::string("/dev/shm/../null"), std::string("d/./x"),
        std::string("d//x"), std::string("self/d"), std::string("/usr/local"), std::string(300, 'n')}) {
    const auto put = rig().put(box_, path, one_file());
    ASSERT_FALSE(put.has_value()) << path;
    EXPECT_EQ(put.error().code, Code::path_refused) << path.substr(0, 20) << ": " << put.error().message;
  }
  // FR-149: the refusal names what was asked for and why
  const auto through = rig().put(box_, "out/tmp", one_file());
  EXPECT_NE(through.error().message.find("out/tmp"), std::string::npos) << through.error().message;
  EXPECT_NE(through.error().message.find("link"), std::string::npos) << through.error().message;
  EXPECT_EQ(shell("ls -A d; cat notes | head -c 4")->out, "root");
}

TEST_F(FilesTest, EntriesOfATreeCannotLeaveItEither) {  // FR-150
  for (const char* name : {"../x", "/x", "a/../x", "a//x", ".", "..", "a/.", "x/"}) {
    const auto put = rig().put(box_, "zoo", one_file(name));
    ASSERT_FALSE(put.has_value()) << name;
  }
  auto through = std::make_shared<MemoryTree>();
  through->link("l", "/tmp");
  through->file("l/x", "through");
  EXPECT_EQ(rig().put(box_, "zoo", through).error().code, Code::path_refused);
  EXPECT_EQ(shell("ls -A zoo /tmp 2>/dev/null | grep -v :")->out, "") << "nothing of a refused tree is there";
}

TEST_F(FilesTest, ALegalTreeComesBackAsItWas) {  // FR-151, V13
  auto tree = std::make_shared<MemoryTree>();
  tree->folder("node_modules");
  tree->folder("node_modules/.bin");
  tree->link("node_modules/.bin/tool", "../tool/cli.js");
  tree->link("absolute", "/workspace/legal/node_modules");
  tree->link("dangling", "/nowhere/at/all");
  tree->link("loop", "loop");
  tree->file("empty", "");
  tree->file("new\nline", "n");
  tree->file("run.sh", "#!/bin/sh\n", true);
  ASSERT_TRUE(rig().put(box_, "legal", tree).has_value());
  auto back = std::make_shared<MemoryTree>();
  const auto got = rig().get(box_, "legal", back);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  ASSERT_EQ(back->items.size(), tree->items.size());
  for (const auto& [path, item] : tree->items) {
    EXPECT_TRUE(back->items[path].entry == item.entry) << path;
    EXPECT_EQ(back->items[path].content, item.content) << path;
  }
}

// As apt and git do it, without falling back on a copy.
TEST_F(FilesTest, FilesOfACommandMoveAndLinkFromFolderToFolder) {
  for (const char* place : {"/workspace", "/tmp", "/dev/shm", "/home/sandbox"}) {
    const auto moved = shell(std::string("cd ") + place +
                             " && mkdir one two && echo x > one/f && ln one/f two/linked && "
                             "python3 -c 'import os; os.rename(\"one/f\", \"two/moved\"); "
                             "os.rename(\"one\", \"two/one\")' 2>&1 && ls two");
    EXPECT_EQ(moved->out, "linked\nmoved\none\n") << place;
  }
}

TEST_F(FilesTest, EveryKindOfFileComesBackAsItIsOrIsNamedAsLeftOut) {  // ADV-F13
  ASSERT_EQ(
      shell("mkdir odd; cd odd; echo one > a; ln a b; truncate -s 5000000 sparse; printf x >> sparse; : > "
            "zero; "
            "touch -d 2400-01-01 late; touch -d 1900-01-01 early; printf n > \"$(printf 'new\\nline')\"; "
            "printf u > \"$(printf 'bad\\377')\"; echo k > closed; chmod 000 closed; mkdir shut; echo s > "
            "shut/s; "
            "chmod 000 shut; mkfifo pipe; python3 -c '\n"
            "import os,socket\nsocket.socket(socket.AF_UNIX).bind(\"socket\")\n"
            "try: os.setxattr(\"a\",\"user.note\",b\"x\")\nexcept OSError: pass'; exec 9> gone; rm gone; "
            "echo g >&9")
          ->exit_code,
      0);
  auto back = std::make_shared<MemoryTree>();
  const auto got = rig().get(box_, "odd", back);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  std::map<std::string, std::string> contents;
  for (const auto& [path, item] : back->items) contents[path] = item.content;
  EXPECT_TRUE(contents == (std::map<std::string, std::string>{{"a", "one\n"},
                                                              {"b", "one\n"},
                                                              {"bad\xff", "u"},
                                                              {"early", ""},
                                                              {"late", ""},
                                                              {"new\nline", "n"},
                                                              {"sparse", std::string(5'000'000, '\0') + "x"},
                                                              {"zero", ""}}))
      << testing::PrintToString(contents).substr(0, 2000);
  const std::vector<std::string>& left_out = got->manifest.refused;
  for (const char* name : {"closed", "pipe", "shut", "socket"}) {
    EXPECT_EQ(
        std::ranges::count_if(left_out, [&](const std::string& each) { return each.starts_with(name); }), 1)
        << name;
  }
  EXPECT_EQ(left_out.size(), 4u) << testing::PrintToString(left_out);
}

TEST_F(FilesTest, LinksPlantedAtATreesFoldersAreReplacedAndNotFollowed) {  // FR-152
  ASSERT_EQ(shell("mkdir target /tmp/outside; ln -s /tmp/outside target/sub; ln -s /tmp/outside/f target/g")
                ->exit_code,
            0);
  auto tree = std::make_shared<MemoryTree>();
  tree->folder("sub");
  tree->file("sub/f", "in the tree");
  tree->file("g", "also");
  ASSERT_TRUE(rig().put(box_, "target", tree).has_value());
  EXPECT_EQ(shell("ls -A /tmp/outside; cat target/sub/f; test -L target/sub || echo folder")->out,
            "in the treefolder\n");
}

TEST_F(FilesTest, WhatIsReadIsNeverWhatALinkPointsTo) {  // FR-156, ADV-A2, A5
  ASSERT_EQ(shell("mkdir t; cd t; ln -s /etc/passwd a; mkfifo b; ln -s /dev/zero c; ln -s /proc/1/environ e; "
                  "echo f > f; "
                  "cp /bin/sh s; chmod 4755 s; chmod 000 f")
                ->exit_code,
            0);
  auto back = std::make_shared<MemoryTree>();
  const auto got = rig().get(box_, "t", back);
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(back->items["a"].entry.type, provider::EntryType::symlink);
  EXPECT_EQ(back->items["c"].content, "");
  EXPECT_FALSE(back->items.contains("b")) << "a pipe is no file";
  for (const char* path : {"t/a", "t/b", "t/c", "t/e", "t/e/x"}) {
    auto sink = std::make_shared<MemoryTree>();
    EXPECT_FALSE(rig().get(box_, path, sink).has_value()) << path;
    EXPECT_TRUE(sink->items.empty()) << path;
  }
  ASSERT_TRUE(rig().put(box_, "u", back).has_value() || true);
  EXPECT_EQ(shell("find /workspace -newer attack -perm /6000 | grep -v ^/workspace/t/s")->out, "")
      << "no setuid comes back";
}

TEST_F(FilesTest, AFolderThatIsSwappedWithALinkNeverLeadsOut) {  // ADV-A3
  ASSERT_EQ(shell("mkdir d /tmp/outside; echo outside > /tmp/outside/secret; echo inside > d/secret; ln -s "
                  "/tmp/outside l")
                ->exit_code,
            0);
  std::promise<void> up;
  auto swapping = rig().begin(box_, request({"swap", "d", "l"}, {.wall_ms = 290'000}),
                              [&](const provider::OutputChunk&) { up.set_value(); });
  up.get_future().wait();
  for (int i = 0; i < (is_long() ? 10'000 : 100); ++i) {
    auto sink = std::make_shared<MemoryTree>();
    (void)rig().get(box_, i % 2 == 0 ? "d" : "d/secret", sink);
    for (const auto& [path, item] : sink->items) ASSERT_NE(item.content, "outside\n") << path;
  }
  ASSERT_TRUE(rig().destroy(box_).has_value());
  const auto ended = swapping.get();
  ASSERT_FALSE(ended.has_value()) << "it no longer swapped: " << describe(ended);
  EXPECT_EQ(ended.error().code, Code::sandbox_lost);
}

TEST_F(FilesTest, ADeepOrWideTreeHoldsUpNeitherOthersNorTheEnd) {  // ADV-A14
  auto tmpl = HostRig::small_template();
  tmpl.limits.disk.value = 1ull << 30;
  tmpl.limits.inodes.value = 130'000;
  tmpl.limits.memory.value = 1ull << 30;
  box_ = make(tmpl);
  const std::string levels = is_long() ? "10000" : "2000";  // making them takes the square of it
  auto result = attack({"deep", levels}, {.wall_ms = 120'000});
  EXPECT_EQ(result->out, levels + " levels\n") << describe(result);
  result = attack({"wide", is_long() ? "20000" : "3000"}, {.wall_ms = 60'000});
  EXPECT_EQ(result->exit_code, 0) << describe(result);
  // a tree that takes its place, and a command at once: what was there goes in the background
  const auto put = rig().put(box_, "", one_file("deep", "a file now"));
  ASSERT_TRUE(put.has_value()) << put.error().message;
  EXPECT_EQ(shell("cat deep")->out, "a file now");
  auto listed = rig().list(box_, "wide");
  EXPECT_TRUE(listed.has_value() || listed.error().code == Code::quota_exceeded) << listed.error().message;
  result = attack({"deep", "1"});  // the name is taken
  EXPECT_EQ(result->exit_code, 1);
  EXPECT_TRUE(
      HostRig::eventually([&] { return shell("ls -A | grep -c sandglass-put")->out == "0\n"; }, 60'000));
  ASSERT_EQ(attack({"deep", "1"})->exit_code, 1);
  ASSERT_EQ(shell("rm deep")->exit_code, 0);
  ASSERT_EQ(attack({"deep", levels}, {.wall_ms = 120'000})->exit_code, 0);
  EXPECT_TRUE(rig().destroy(box_).has_value());
}

TEST_F(FilesTest, NothingThatASandboxWritesDecidesAboutTheNext) {  // FR-155
  auto tmpl = HostRig::small_template();
  tmpl.limits.open_files.value = 333;
  auto busy = rig().begin(box_, rig().shell("while :; do for f in /workspace/x /tmp/x /dev/shm/x ~/x; do "
                                            "echo 'open_files 9' > $f; done; done"));
  for (int i = 0; i < (is_long() ? 100 : 15); ++i) {
    const auto next = rig().make(tmpl);
    EXPECT_EQ(rig().exec(next, rig().shell("ulimit -n; ls -A /workspace /tmp | grep -c x"))->out, "333\n0\n");
    ASSERT_TRUE(rig().destroy(next).has_value());
  }
  ASSERT_TRUE(rig().destroy(box_).has_value());
  (void)busy.get();
}

}  // namespace
}  // namespace sandglass::tests
