// sandbox.diff: what a leased sandbox has made of a tree that was put into it, as a unified diff against the
// stored tree. Manifests are compared; only contents that differ are fetched, one after the other.
#include <deque>
#include <map>

#include "engine/base/text.h"
#include "sandbox-runtime/manager/answers.h"
#include "sandbox-runtime/manager/blob_tree.h"
#include "sandbox-runtime/manager/parts.h"
#include "sandbox-runtime/manager/unified_diff.h"

namespace sandglass::sandbox_runtime::manager {

namespace {

constexpr std::size_t kMaxChanged = 2'000;
constexpr std::size_t kMaxBytes = 16 << 20;  // of all changed files, before and after
constexpr std::size_t kInline = 64 * 1024;

/// One path as each side has it; folders are left out (a diff does not hold them).
struct Change {
  std::string path;
  std::optional<engine::codec::TreeEntry> before;
  std::optional<provider::ManifestEntry> after;
};

bool same(const engine::codec::TreeEntry& before, const provider::ManifestEntry& after) {
  return static_cast<int>(before.type) == static_cast<int>(after.entry.type) &&
         before.target == after.entry.target && before.executable == after.entry.executable &&
         before.digest == after.digest;
}

class DiffJob : public std::enable_shared_from_this<DiffJob> {
 public:
  DiffJob(Parts parts, Json input, core::ActivityDone answer)
      : parts_(std::move(parts)), input_(std::move(input)), answer_(std::move(answer)) {}

  void run() {
    parts_->provider.list_tree(ref_of(input_), path(),
                               [self = shared_from_this()](base::Result<provider::Manifest> got) {
                                 if (!got) return self->answer_(failed(got.error()));
                                 self->manifest_ = *std::move(got);
                                 self->parts_->runner.run([self] { self->compare(); });
                               });
  }

 private:
  std::string path() const { return input_.value("path", ""); }
  std::string tenant() const { return input_.value("tenant", ""); }

  void compare() {
    auto tree = load_tree(parts_->blobs, tenant(), input_.value("tree", ""));
    if (!tree) return answer_(failed(tree.error()));
    std::map<std::string, Change> changes;
    for (engine::codec::TreeEntry& entry : tree->entries) {
      if (entry.type == engine::codec::TreeEntryType::folder) continue;
      Change& change = changes[entry.path];
      change.before = std::move(entry);
    }
    for (provider::ManifestEntry& entry : manifest_.entries) {
      if (entry.entry.type == provider::EntryType::folder) continue;
      if (!base::is_utf8(entry.entry.path)) {  // init reads nothing by such a name (V13)
        manifest_.refused.push_back(entry.entry.path + ": its name is not valid UTF-8");
        continue;
      }
      Change& change = changes[entry.entry.path];
      change.after = std::move(entry);
    }
    for (auto& [name, change] : changes) {
      if (change.before && change.after && same(*change.before, *change.after)) continue;
      change.path = name;
      left_.push_back(std::move(change));
    }
    if (left_.size() > kMaxChanged) {
      return answer_(
          failed({base::Code::quota_exceeded, std::to_string(left_.size()) + " files differ, at most " +
                                                  std::to_string(kMaxChanged) + " make a diff"}));
    }
    next();
  }

  /// Takes the next changed path: its content from the sandbox first, if it has one there.
  void next() {
    if (left_.empty()) return finish();
    const Change& change = left_.front();
    if (!change.after || change.after->entry.type != provider::EntryType::file) return add({});
    auto sink = std::make_shared<OneFileSink>(kMaxBytes);
    const std::string inside = path().empty() ? change.path : path() + "/" + change.path;
    parts_->provider.get_tree(
        ref_of(input_), inside, sink,
        [self = shared_from_this(), sink](base::Result<provider::TreeResult> got) {
          if (!got) return self->answer_(failed(got.error()));
          self->parts_->runner.run([self, sink] { self->add(std::move(sink->content())); });
        });
  }

  void add(std::string content) {
    const Change change = std::move(left_.front());
    left_.pop_front();
    auto before = stored(change);
    if (!before) return answer_(failed(before.error()));
    std::optional<FileVersion> after;
    if (change.after) {
      const provider::TreeEntry& entry = change.after->entry;
      const bool symlink = entry.type == provider::EntryType::symlink;
      after = FileVersion{entry.executable, symlink, symlink ? entry.target : std::move(content)};
    }
    bytes_ += (*before ? (*before)->content.size() : 0) + (after ? after->content.size() : 0);
    if (bytes_ > kMaxBytes)
      return answer_(failed({base::Code::quota_exceeded, "the changed files are too large for a diff"}));
    const bool binary = (*before && is_binary((*before)->content)) || (after && is_binary(after->content));
    ++changed_;
    Json file{{"path", as_text(change.path)},
              {"change", !*before ? "added"
                         : !after ? "removed"
                                  : "changed"},
              {"binary", binary}};
    // `changed` counts all; the lists name as many as a record has room for.
    listed_ += 2 * file.dump().size();
    const bool has_room = listed_ <= kShownJson + kShownJson / 2;
    if (has_room) files_.push_back(std::move(file));
    if (binary) {
      if (has_room) binary_.push_back(as_text(change.path));
    } else {
      diff_ += unified_diff(change.path, *before, after);
    }
    parts_->runner.run([self = shared_from_this()] { self->next(); });  // no recursion over many files
  }

  base::Result<std::optional<FileVersion>> stored(const Change& change) const {
    if (!change.before) return std::nullopt;
    const engine::codec::TreeEntry& entry = *change.before;
    if (entry.type == engine::codec::TreeEntryType::symlink) return FileVersion{false, true, entry.target};
    auto content = parts_->blobs.get(tenant(), {entry.digest}, kMaxBytes);
    if (!content) return std::unexpected(content.error());
    return FileVersion{entry.executable, false, *std::move(content)};
  }

  void finish() {
    auto digest = parts_->blobs.put(tenant(), diff_);
    if (!digest) return answer_(failed(digest.error()));
    Json out{{"blob", digest->hash.hex()},
             {"public_digest", digest->hash.hex()},
             {"size", diff_.size()},
             {"changed", changed_},
             {"files", files_},
             {"binary", binary_}};
    const bool fits =
        diff_.size() <= kInline && base::is_utf8(diff_) && json_size(diff_) <= kShownJson + kShownJson / 8;
    out["truncated"] = !fits;
    out["diff"] = fits ? diff_ : "";
    out["refused"] = first_names(manifest_.refused, kShownJson / 2);
    answer_(done(out));
  }

  Parts parts_;
  Json input_;
  core::ActivityDone answer_;
  provider::Manifest manifest_;
  std::deque<Change> left_;
  std::size_t bytes_ = 0;
  std::string diff_;
  std::size_t changed_ = 0;
  std::size_t listed_ = 0;  // bytes of JSON
  Json files_ = Json::array();
  Json binary_ = Json::array();
};

}  // namespace

void register_diff_activity(core::ActivityRegistry& registry, const Parts& parts) {
  registry.add("sandbox.diff",
               make_activity([parts](const core::ActivityCall&, Json input, core::ActivityDone answer) {
                 std::make_shared<DiffJob>(parts, std::move(input), std::move(answer))->run();
               }));
}

}  // namespace sandglass::sandbox_runtime::manager
