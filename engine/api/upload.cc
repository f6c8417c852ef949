#include "engine/api/upload.h"

#include <utility>

#include "engine/codec/tree.h"

namespace sandglass::engine::api {

namespace {

using base::Code;

constexpr std::size_t kLongestPart = 256 * 1024;

class TreeUpload final : public UploadSink, public std::enable_shared_from_this<TreeUpload> {
 public:
  TreeUpload(const Backend& backend, std::string tenant) : backend_(backend), tenant_(std::move(tenant)) {}

  void take(v1::TreePart part, Answer<bool> taken) override {
    backend_.pool.run(
        [self = shared_from_this(), part = std::move(part), taken = std::move(taken)]() mutable {
          const auto status = part.has_entry() ? self->begin(part.entry()) : self->data(part.data());
          if (!status) return taken(std::unexpected(status.error()));
          taken(true);
        });
  }

  void finish(Answer<v1::UploadTreeReply> answer) override {
    backend_.pool.run(
        [self = shared_from_this(), answer = std::move(answer)]() mutable { answer(self->end()); });
  }

 private:
  base::Status begin(const v1::TreeEntry& entry) {
    if (auto ended = end_file(); !ended) return ended;
    if (auto checked = codec::check_tree_path(entry.path()); !checked) return checked;
    if (tree_.entries.size() >= backend_.upload.files) {
      return base::fail(Code::invalid_argument,
                        "the tree has more entries than limits.upload_files allows (" +
                            std::to_string(backend_.upload.files) + ")");
    }
    codec::TreeEntry added{.path = entry.path()};
    switch (entry.type()) {
      case v1::TREE_ENTRY_TYPE_FILE: {
        added.executable = entry.executable();
        added.size = entry.size();
        auto writer = backend_.blobs.create(tenant_);
        if (!writer) return std::unexpected(writer.error());
        writer_ = std::move(*writer);
        break;
      }
      case v1::TREE_ENTRY_TYPE_FOLDER:
        added.type = codec::TreeEntryType::folder;
        break;
      case v1::TREE_ENTRY_TYPE_SYMLINK:
        added.type = codec::TreeEntryType::symlink;
        added.target = entry.link_target();
        break;
      default:
        return base::fail(Code::invalid_argument, "an entry of the tree is neither file, folder nor symlink");
    }
    tree_.entries.push_back(std::move(added));
    return {};
  }

  base::Status data(const std::string& bytes) {
    if (!writer_) return base::fail(Code::invalid_argument, "bytes came that belong to no file");
    if (bytes.size() > kLongestPart)
      return base::fail(Code::invalid_argument, "a part is longer than 256 KiB");
    written_ += bytes.size();
    total_ += bytes.size();
    if (written_ > tree_.entries.back().size) return wrong_size();
    if (total_ > backend_.upload.bytes) {
      return base::fail(Code::invalid_argument, "the tree is larger than limits.upload_bytes allows (" +
                                                    std::to_string(backend_.upload.bytes) + " bytes)");
    }
    return writer_->write(bytes);
  }

  base::Status end_file() {
    if (!writer_) return {};
    codec::TreeEntry& entry = tree_.entries.back();
    if (written_ != entry.size) return wrong_size();
    auto digest = writer_->finish();
    if (!digest) return std::unexpected(digest.error());
    entry.digest = digest->hash;
    writer_.reset();
    written_ = 0;
    ++files_;
    return {};
  }

  base::Result<v1::UploadTreeReply> end() {
    if (auto ended = end_file(); !ended) return std::unexpected(ended.error());
    auto manifest = codec::encode_tree(std::move(tree_));
    if (!manifest) return std::unexpected(manifest.error());
    auto digest = backend_.blobs.put(tenant_, *manifest);
    if (!digest) return std::unexpected(digest.error());
    v1::UploadTreeReply reply;
    reply.set_digest(std::string(digest->hash.view()));
    reply.set_files(files_);
    reply.set_bytes(total_);
    return reply;
  }

  std::unexpected<base::Error> wrong_size() const {
    return base::fail(Code::invalid_argument,
                      "a file of the tree has another size than its entry says; upload again");
  }

  const Backend& backend_;
  const std::string tenant_;
  codec::Tree tree_;
  std::unique_ptr<blob::BlobWriter> writer_;
  std::uint64_t written_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t files_ = 0;
};

}  // namespace

std::shared_ptr<UploadSink> upload_sink(const Backend& backend, const Caller& caller) {
  return std::make_shared<TreeUpload>(backend, caller.tenant);
}

}  // namespace sandglass::engine::api
