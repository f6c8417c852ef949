// Trees in and out: field reports L, ADV-A1 to A10, V13.
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "engine/base/hash.h"
#include "sandbox-runtime/frames/tree_stream.h"
#include "tests/sandbox-runtime/init/init_harness.h"

namespace sandglass::sandbox_runtime::init {
namespace {

namespace fs = std::filesystem;
using engine::base::Code;
using frames::TreeHeader;
using frames::TreeItem;

/// Builds a stream as a sender would.
class Tree {
 public:
  Tree& folder(const std::string& path) { return add({TreeItem::folder, path, false, 0, {}}); }
  Tree& link(const std::string& path, const std::string& target) {
    return add({TreeItem::symlink, path, false, 0, target});
  }
  Tree& file(const std::string& path, const std::string& content, bool executable = false) {
    add({TreeItem::file, path, executable, content.size(), {}});
    if (!content.empty()) frames::put_tree_data(bytes_, content);
    frames::put_tree_file_end(bytes_, frames::FileState::whole, engine::base::sha256(content).bytes);
    content_ += content.size();
    return *this;
  }
  std::string done() {
    frames::put_tree_end(bytes_, entries_, content_);
    return bytes_;
  }

 private:
  Tree& add(const TreeHeader& header) {
    frames::put_tree_header(bytes_, header);
    ++entries_;
    return *this;
  }
  std::string bytes_;
  std::uint64_t entries_ = 0;
  std::uint64_t content_ = 0;
};

struct Collect final : frames::TreeVisitor {
  engine::base::Status entry(const TreeHeader& header) override {
    items.push_back(header);
    return {};
  }
  engine::base::Status data(std::string_view piece) override {
    contents[items.back().path].append(piece);
    return {};
  }
  engine::base::Status file_end(frames::FileState state, const frames::Digest& digest) override {
    states[items.back().path] = state;
    digests[items.back().path] = digest;
    return {};
  }
  engine::base::Status end(std::uint64_t, std::uint64_t) override { return {}; }
  const TreeHeader* find(const std::string& path) const {
    for (const auto& item : items) {
      if (item.path == path) return &item;
    }
    return nullptr;
  }
  std::vector<TreeHeader> items;
  std::map<std::string, std::string> contents;
  std::map<std::string, frames::FileState> states;
  std::map<std::string, frames::Digest> digests;
};

Collect get(InitHarness& init, const std::string& path, bool content = true) {
  std::string stream;
  frames::GetOpen open;
  open.path = path;
  open.content = content;
  const auto done = init.get(open, stream);
  EXPECT_EQ(done.code, 0) << done.message;
  Collect collect;
  frames::TreeDecoder decoder(collect);
  EXPECT_TRUE(decoder.feed(stream).has_value());
  EXPECT_TRUE(decoder.finished());
  return collect;
}

frames::TransferDone put(InitHarness& init, const std::string& path, const std::string& stream,
                         std::size_t piece = frames::kChunk) {
  frames::PutOpen open;
  open.path = path;
  return init.put(open, stream, piece);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void expect_code(const frames::TransferDone& done, Code code) {
  EXPECT_EQ(done.code, static_cast<std::uint16_t>(code)) << done.message;
}

/// Names below the workspace, sorted; shows that nothing partial is left.
std::vector<std::string> listing(const InitHarness& init) {
  std::vector<std::string> names;
  for (const auto& item : fs::recursive_directory_iterator(init.workspace())) {
    names.push_back(item.path().lexically_relative(init.workspace()));
  }
  std::ranges::sort(names);
  return names;
}

TEST(Tree, TwoThousandFilesGoInAndComeOutIdentical) {
  InitHarness init;
  std::mt19937_64 random(7);
  Tree tree;
  std::map<std::string, std::string> files;
  for (int folder = 0; folder < 20; ++folder) {
    const std::string path = "folder-" + std::to_string(folder);
    tree.folder(path).folder(path + "/empty");
    for (int i = 0; i < 100; ++i) {
      std::string content(i % 10 == 0 ? 0 : random() % 20'000, '\0');
      for (auto& byte : content) byte = static_cast<char>(random());
      tree.file(path + "/file-" + std::to_string(i), content, i % 3 == 0);
      files[path + "/file-" + std::to_string(i)] = content;
    }
  }
  const auto done = put(init, "in", tree.done());
  ASSERT_EQ(done.code, 0) << done.message;
  EXPECT_EQ(done.entries, 2040u);
  const Collect out = get(init, "in");
  EXPECT_EQ(out.items.size(), 2040u);
  for (const auto& [path, content] : files) {
    ASSERT_TRUE(out.find(path) != nullptr) << path;
    const auto found = out.contents.find(path);
    ASSERT_TRUE((found == out.contents.end() ? std::string() : found->second) == content) << path;
    EXPECT_EQ(out.digests.at(path), engine::base::sha256(content).bytes);
  }
  EXPECT_TRUE(out.find("folder-3/file-0")->executable);
  EXPECT_FALSE(out.find("folder-3/file-1")->executable);
  const Collect digests = get(init, "in", false);
  EXPECT_TRUE(digests.contents.empty());
  EXPECT_EQ(digests.digests, out.digests);
}

TEST(Tree, ATreeCutIntoSingleBytesIsTheSameTree) {
  InitHarness init;
  const std::string stream = Tree().folder("a").file("a/x", "hello", true).link("l", "a/x").done();
  EXPECT_EQ(put(init, "", stream, 1).code, 0);
  EXPECT_EQ(listing(init), (std::vector<std::string>{"a", "a/x", "l"}));
}

TEST(Tree, FilesBelongToTheSandboxUserAndKeepOnlyTheExecutableBit) {
  InitHarness init;
  ASSERT_EQ(put(init, "new/deeper", Tree().file("run", "#!", true).file("text", "t").done()).code, 0);
  struct stat info{};
  ASSERT_EQ(stat((init.workspace() + "/new/deeper/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_EQ(info.st_uid, geteuid() == 0 ? 1000u : geteuid());
  ASSERT_EQ(stat((init.workspace() + "/new/deeper/text").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644u);
  // ADV-A10: what a command marks as setuid comes out plain
  init.run(init.shell("chmod 6755 new/deeper/run; mkfifo new/deeper/pipe; ln -s /dev/zero new/deeper/zero"));
  const Collect out = get(init, "new/deeper");
  EXPECT_TRUE(out.find("run")->executable);
  EXPECT_EQ(out.find("pipe")->type, TreeItem::refused);
  EXPECT_EQ(out.find("zero")->type, TreeItem::symlink);
}

TEST(Tree, PathsThatLeaveTheTreeRefuseTheWholeImport) {
  // ADV-A1, ADV-A7, FR-150
  InitHarness init;
  const std::string long_name(256, 'n');
  std::string long_path = "x";
  while (long_path.size() < 4096) long_path += "/x";
  for (const std::string& path :
       {std::string("../escape"), std::string("/absolute"), std::string("a/../../b"), std::string("a//b"),
        std::string("./a"), std::string("a/."), std::string(".."), std::string("nul\0name", 8), long_name,
        long_path, std::string()}) {
    expect_code(put(init, "", Tree().file("before", "x").file(path, "evil").done()), Code::path_refused);
    EXPECT_TRUE(listing(init).empty());
  }
  EXPECT_FALSE(fs::exists(init.folder() + "/escape"));
}

TEST(Tree, DestinationsOutsideAreRefused) {
  InitHarness init;
  const std::string stream = Tree().file("f", "x").done();
  for (const std::string& path :
       {std::string("../out"), std::string("a/../../out"), std::string("bad\xff"), std::string("nul\0x", 5),
        std::string("/proc/self"), std::string("/dev/shm/x"), std::string(5000, 'p'),
        std::string("/etc/cron.d")}) {
    expect_code(put(init, path, stream), Code::path_refused);
  }
  EXPECT_TRUE(listing(init).empty());
}

TEST(Tree, LinksInTheWayAreRefusedOrReplacedButNeverFollowed) {
  // ADV-A2, FR-149, FR-152
  InitHarness init;
  const std::string outside = init.folder() + "/outside";
  fs::create_directory(outside);
  std::ofstream(outside + "/x") << "untouched";
  fs::permissions(outside, fs::perms::all);
  fs::permissions(outside + "/x", fs::perms::all);
  fs::create_directory_symlink(outside, init.workspace() + "/folder");
  fs::create_symlink(outside + "/x", init.workspace() + "/notes");
  // as the destination, or on the way to it: refused
  expect_code(put(init, "folder", Tree().file("y", "evil").done()), Code::path_refused);
  expect_code(put(init, "folder/sub", Tree().file("y", "evil").done()), Code::path_refused);
  // as an entry of the tree: the link goes, what it named stays
  ASSERT_EQ(put(init, "", Tree().folder("folder").file("folder/x", "mine").file("notes", "mine").done()).code,
            0);
  EXPECT_EQ(read_file(outside + "/x"), "untouched");
  EXPECT_EQ(std::distance(fs::directory_iterator(outside), {}), 1);
  EXPECT_FALSE(fs::is_symlink(init.workspace() + "/folder"));
  EXPECT_EQ(read_file(init.workspace() + "/folder/x"), "mine");
  EXPECT_EQ(read_file(init.workspace() + "/notes"), "mine");
  EXPECT_EQ(listing(init), (std::vector<std::string>{"folder", "folder/x", "notes"}));
}

TEST(Tree, AnEntryThroughALinkOfTheSameTreeIsRefused) {
  InitHarness init;
  expect_code(put(init, "", Tree().link("l", "/tmp").file("l/evil", "x").done()), Code::path_refused);
  expect_code(put(init, "", Tree().file("twice", "x").file("twice", "y").done()), Code::path_refused);
  EXPECT_TRUE(listing(init).empty());
}

TEST(Tree, LegalLinksRoundTripAsText) {
  // FR-151: absolute, dangling, looping
  InitHarness init;
  const std::vector<std::pair<std::string, std::string>> links = {
      {"absolute", "/usr/bin/env"}, {"dangling", "no/where"}, {"loop", "loop"}, {"up", "../../.."}};
  Tree tree;
  for (const auto& [name, target] : links) tree.link(name, target);
  ASSERT_EQ(put(init, "links", tree.done()).code, 0);
  const Collect out = get(init, "links");
  ASSERT_EQ(out.items.size(), links.size());
  for (const auto& [name, target] : links) EXPECT_EQ(out.find(name)->text, target);
}

TEST(Tree, ReadingNeverFollowsWhatTheSandboxPlanted) {
  // FR-156
  InitHarness init;
  std::ofstream(init.folder() + "/secret") << "secret";
  init.run(init.shell("ln -s " + init.folder() +
                      "/secret a; mkfifo b; ln -s /dev/zero c; ln -s .. up; echo fine > d"));
  const Collect out = get(init, "");
  EXPECT_EQ(out.contents, (std::map<std::string, std::string>{{"d", "fine\n"}}));
  std::string stream;
  for (const char* path : {"a", "up/secret", "b"}) {
    frames::GetOpen open;
    open.path = path;
    expect_code(init.get(open, stream), Code::path_refused);
  }
}

TEST(Tree, OneFileCanBeAskedForByName) {
  InitHarness init;
  init.run(init.shell("mkdir -p a/b; printf content > a/b/file"));
  const Collect out = get(init, "a/b/file");
  ASSERT_EQ(out.items.size(), 1u);
  EXPECT_EQ(out.contents.at("file"), "content");
  frames::GetOpen missing;
  missing.path = "a/none";
  std::string stream;
  expect_code(init.get(missing, stream), Code::not_found);
}

TEST(Tree, OddNamesAndEmptyThingsRoundTrip) {
  InitHarness init;
  const std::string odd = "new\nline\x1b[2J\xff";
  ASSERT_EQ(
      put(init, "", Tree().file(odd, "x").folder("empty").file("zero", "").file("-rf", "y").done()).code, 0);
  const Collect out = get(init, "");
  EXPECT_EQ(out.contents.at(odd), "x");
  EXPECT_TRUE(out.find("empty") && out.find("zero") && out.find("-rf"));
}

TEST(Tree, LimitsHoldForBytesEntriesAndSparseFiles) {
  // FR-150, ADV-A9
  InitHarness init;
  frames::PutOpen open;
  open.max_entries = 2;
  expect_code(init.put(open, Tree().folder("a").folder("b").folder("c").done()), Code::quota_exceeded);
  open.max_entries = 0;
  open.max_bytes = 3;
  expect_code(init.put(open, Tree().file("f", "four").done()), Code::quota_exceeded);
  EXPECT_TRUE(listing(init).empty());
  init.run(init.shell("truncate -s 1T sparse"));
  frames::GetOpen ask;
  ask.max_bytes = 1 << 20;
  std::string stream;
  expect_code(init.get(ask, stream), Code::quota_exceeded);
}

TEST(Tree, AWrongDigestOrCountImportsNothing) {
  InitHarness init;
  std::string wrong;
  frames::put_tree_header(wrong, {TreeItem::file, "f", false, 4, {}});
  frames::put_tree_data(wrong, "evil");
  frames::put_tree_file_end(wrong, frames::FileState::whole, engine::base::sha256("good").bytes);
  frames::put_tree_end(wrong, 1, 4);
  expect_code(put(init, "", wrong), Code::frame_malformed);
  std::string miscounted;
  frames::put_tree_header(miscounted, {TreeItem::folder, "f", false, 0, {}});
  frames::put_tree_end(miscounted, 2, 0);
  expect_code(put(init, "", miscounted), Code::frame_malformed);
  EXPECT_TRUE(listing(init).empty());
}

TEST(Tree, NothingIsVisibleOfAnImportThatStops) {
  InitHarness init;
  const std::string stream = Tree().file("f", std::string(100'000, 'x')).file("g", "y").done();
  frames::PutOpen open{900, "", 1 << 20, 100, false};
  init.send(open);
  init.send(frames::Chunk{900, std::string_view(stream).substr(0, 60'000)});
  init.send(frames::Ping{1});
  ASSERT_TRUE(init.wait_for([&] { return init.pongs.contains(1); }));
  EXPECT_FALSE(fs::exists(init.workspace() + "/f"));
  init.send(frames::TransferCancel{900});
  init.send(frames::Ping{2});
  ASSERT_TRUE(init.wait_for([&] { return init.pongs.contains(2); }));
  EXPECT_TRUE(listing(init).empty());
}

TEST(Tree, AnImportWaitsForItsTurnWhileACommandRuns) {
  InitHarness init;
  auto start = init.shell("sleep 100");
  init.begin(start);
  expect_code(put(init, "", Tree().file("f", "x").done()), Code::unavailable);
  init.send(frames::Signal{start.number, SIGKILL, true});
  init.finish(start.number);
  EXPECT_EQ(put(init, "", Tree().file("f", "x").done()).code, 0);
}

TEST(Tree, AFolderSwappedWithALinkAllTheTimeNeverLeadsOut) {
  // ADV-A3
  InitHarness init;
  const std::string outside = init.folder() + "/outside";
  fs::create_directory(outside);
  fs::permissions(outside, fs::perms::all);
  std::ofstream(outside + "/secret") << "secret";
  ASSERT_EQ(init.run(init.shell("mkdir d; echo inside > d/secret; ln -s " + outside + " l")).end->exit_code,
            0);
  auto swap = init.shell("");
  swap.argv = {"/usr/bin/python3", "-c",
               "import ctypes,os\nl=ctypes.CDLL(None)\nopen('go','w').close()\n"
               "while True: l.renameat2(-100,b'd',-100,b'l',2)"};
  init.begin(swap);
  ASSERT_TRUE(init.wait_for([&] { return fs::exists(init.workspace() + "/go"); }));
  const std::string stream = Tree().file("escaped", "x").done();
  const int rounds = getenv("SANDGLASS_LONG") != nullptr ? 100'000 : 1'000;
  for (int i = 0; i < rounds; ++i) {
    frames::PutOpen open;
    open.path = "d";
    open.while_running = true;
    init.put(open, stream);
    std::string got;
    frames::GetOpen ask;
    ask.path = "d";
    init.get(ask, got);
    ASSERT_EQ(got.find("secret\n"), std::string::npos);
    ASSERT_EQ(got.find("secretP"), std::string::npos);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(outside), {}), 1);
  init.send(frames::Signal{swap.number, SIGKILL, true});
  init.finish(swap.number);
}

TEST(Tree, AFileThatGrowsWhileItIsReadIsCutAndMarked) {
  // ADV-A5
  InitHarness init;
  auto grow = init.shell("head -c 3000000 /dev/zero > f; echo up; while :; do echo more >> f; done");
  init.begin(grow);
  ASSERT_TRUE(init.wait_for([&] { return init.outcome(grow.number).out == "up\n"; }));
  // a reading that falls between two writes is whole; with the writer at work that cannot go on
  bool cut = false;
  for (int tries = 0; tries < 1000 && !cut; ++tries) {
    const Collect out = get(init, "f");
    EXPECT_EQ(out.contents.at("f").size(), out.find("f")->size);
    cut = out.states.at("f") == frames::FileState::changed;
  }
  EXPECT_TRUE(cut);
  init.send(frames::Signal{grow.number, SIGKILL, true});
  init.finish(grow.number);
}

TEST(Tree, AVeryDeepTreeInTheWayIsReplacedAtOnceAndRemovedMeanwhile) {
  // ADV-A14
  InitHarness init;
  const int levels = getenv("SANDGLASS_LONG") != nullptr ? 100'000 : 5'000;
  auto deep = init.shell("");
  deep.argv = {
      "/usr/bin/python3", "-c",
      "import os\nfor i in range(" + std::to_string(levels) + "):\n os.mkdir('deep')\n os.chdir('deep')"};
  ASSERT_EQ(init.run(deep, {}, 120s).end->exit_code, 0);
  ASSERT_EQ(put(init, "", Tree().file("deep", "a file now").done()).code, 0);
  EXPECT_EQ(init.run(init.shell("cat deep")).out, "a file now");  // nobody waits for the rest
  const auto left = [&] { return init.run(init.shell("ls -A | grep -c sandglass-put")).out; };
  // a disk that is told of every freed block at once takes a millisecond for each folder
  ASSERT_TRUE(init.wait_for([&] { return left() == "0\n"; }, 600s));
  EXPECT_EQ(listing(init), std::vector<std::string>{"deep"});
}

TEST(Tree, ATreeThatForbidsItsOwnerToEnterIsRemovedToo) {
  InitHarness init;
  ASSERT_EQ(init.run(init.shell("mkdir -p t/a/b/c t/d; echo x > t/a/b/c/f; ln -s / t/d/root; mkfifo t/d/p;"
                                "chmod 000 t/a/b t/d"))
                .end->exit_code,
            0);
  ASSERT_EQ(put(init, "", Tree().file("t", "a file now").done()).code, 0);
  EXPECT_EQ(init.run(init.shell("ls -A")).out, "t\n");
}

TEST(Tree, HostilePacketsEndTheConnectionAndNothingElse) {
  // ADV-B26: the supervisor must end by its own decision, which the harness's destructor checks
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    InitHarness init;
    init.expect_malformed();
    for (int i = 0; i < 30 && !init.closed(); ++i) {
      std::string packet(1 + random() % 200, '\0');
      for (auto& byte : packet) byte = static_cast<char>(random() % 3 == 0 ? random() : 0);
      packet[0] = static_cast<char>(random() % 40);
      // a random Signal or exec must not hit anything: the numbers are unknown to it
      init.send_raw(packet);
      init.wait_for([] { return true; });
    }
  }
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::init
