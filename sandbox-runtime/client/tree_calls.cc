#include <algorithm>
#include <array>
#include <set>

#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "sandbox-runtime/client/call.h"
#include "sandbox-runtime/frames/tree_stream.h"

namespace sandglass::sandbox_runtime::client {

using engine::base::Code;
using engine::base::Error;
using engine::base::Hash256;
using engine::base::Result;
using engine::base::Status;
using frames::FileState;
using frames::TreeHeader;
using frames::TreeItem;

namespace {

constexpr std::uint64_t kAckEvery = frames::kTransferWindow / 8;
/// Of a tree from a sandbox. Its first process keeps to the template's limits; one that was taken over need
/// not.
constexpr std::size_t kMostEntries = std::size_t{1} << 20;
constexpr std::size_t kMostNames = std::size_t{128} << 20;  // bytes of paths and other text

void sort_entries(provider::Manifest& manifest) {
  std::ranges::sort(manifest.entries, {}, [](const provider::ManifestEntry& item) -> const std::string& {
    return item.entry.path;
  });
}

/// Sends a tree as fast as the window allows, hashing on the way.
class PutCall final : public Call {
 public:
  PutCall(provider::SandboxRef sandbox, std::string path, std::shared_ptr<provider::TreeSource> source,
          provider::Answer<provider::TreeResult> answer)
      : source_(std::move(source)), answer_(std::move(answer)) {
    auto& put = *request_.mutable_put_tree();
    put.set_id(std::move(sandbox.id));
    put.set_fence(sandbox.fence);
    put.set_path(std::move(path));
  }

  frame::v1::HostRequest request() override { return request_; }
  bool repeatable() const override { return false; }
  bool opened(const Send& send) override { return pump(send); }

  bool on(const frame::v1::HostMessage& message, const Send& send) override {
    if (message.has_tree_ack()) {
      acked_ = std::max(acked_, std::min(message.tree_ack().offset(), sent_));
      return pump(send);
    }
    if (!message.has_tree_done()) return false;
    if (!ended_ || message.tree_done().entries() != result_.manifest.entries.size() ||
        message.tree_done().bytes() != result_.bytes) {
      answer_(engine::base::fail(Code::frame_malformed,
                                 "the sandbox reports another tree than the one that was sent"));
      return true;
    }
    sort_entries(result_.manifest);
    answer_(std::move(result_));
    return true;
  }

  void fail(Error error) override { answer_(std::unexpected(std::move(error))); }

 private:
  /// True: it failed here and was answered.
  bool pump(const Send& send) {
    while (sent_ - acked_ < frames::kTransferWindow && (!ended_ || !buffer_.empty())) {
      while (!ended_ && buffer_.size() < frames::kChunk) {
        if (auto status = produce(); !status) {
          frame::v1::HostRequest cancel;
          cancel.mutable_cancel_tree();
          send(std::move(cancel));
          answer_(std::unexpected(status.error()));
          return true;
        }
      }
      const std::size_t size = std::min(buffer_.size(), frames::kChunk);
      frame::v1::HostRequest chunk;
      chunk.mutable_tree_chunk()->set_data(buffer_.data(), size);
      buffer_.erase(0, size);
      sent_ += size;
      send(std::move(chunk));
    }
    return false;
  }

  Status produce() {
    if (in_file_) return produce_content();
    auto next = source_->next();
    if (!next) return std::unexpected(next.error());
    if (!*next) {
      frames::put_tree_end(buffer_, result_.manifest.entries.size(), result_.bytes);
      ended_ = true;
      return {};
    }
    const provider::TreeEntry& entry = **next;
    if (auto status = frames::check_tree_path(entry.path); !status) return status;
    TreeHeader header{static_cast<TreeItem>(entry.type), entry.path, entry.executable, entry.size,
                      entry.target};
    frames::put_tree_header(buffer_, header);
    result_.manifest.entries.push_back({entry, {}});
    if (entry.type == provider::EntryType::file) {
      in_file_ = true;
      left_ = entry.size;
    }
    return {};
  }

  Status produce_content() {
    if (left_ > 0) {
      std::array<char, frames::kChunk> piece;
      auto got = source_->read(std::span(piece).first(std::min<std::uint64_t>(piece.size(), left_)));
      if (!got) return std::unexpected(got.error());
      if (*got == 0) {
        return engine::base::fail(Code::invalid_argument,
                                  "a file of the tree is shorter than it was announced: " + quoted());
      }
      const std::string_view bytes(piece.data(), *got);
      hash_.update(bytes);
      frames::put_tree_data(buffer_, bytes);
      left_ -= bytes.size();
      result_.bytes += bytes.size();
    }
    if (left_ > 0) return {};
    std::array<char, 1> more;
    auto rest = source_->read(more);
    if (!rest) return std::unexpected(rest.error());
    if (*rest != 0) {
      return engine::base::fail(Code::invalid_argument,
                                "a file of the tree is longer than it was announced: " + quoted());
    }
    const Hash256 digest = hash_.finish();
    result_.manifest.entries.back().digest = digest;
    frames::put_tree_file_end(buffer_, FileState::whole, digest.bytes);
    in_file_ = false;
    return {};
  }

  std::string quoted() const {
    return engine::base::quote_for_terminal(result_.manifest.entries.back().entry.path);
  }

  frame::v1::HostRequest request_;
  std::shared_ptr<provider::TreeSource> source_;
  provider::Answer<provider::TreeResult> answer_;
  provider::TreeResult result_;
  std::string buffer_;
  engine::base::Sha256 hash_;
  bool in_file_ = false;
  bool ended_ = false;
  std::uint64_t left_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t acked_ = 0;
};

/// Takes a tree that a sandbox made up: nothing in it is believed that could place an entry anywhere else
/// (FR-150).
class GetCall final : public Call, public frames::TreeVisitor {
 public:
  GetCall(provider::SandboxRef sandbox, std::string path, std::shared_ptr<provider::TreeSink> sink,
          provider::Answer<provider::TreeResult> answer)
      : sink_(std::move(sink)), answer_(std::move(answer)) {
    auto& get = *request_.mutable_get_tree();
    get.set_id(std::move(sandbox.id));
    get.set_fence(sandbox.fence);
    get.set_path(std::move(path));
    get.set_content(sink_ != nullptr);
  }

  frame::v1::HostRequest request() override {
    decoder_.emplace(*this);
    return request_;
  }
  bool repeatable() const override { return sink_ == nullptr && received_ == 0; }

  bool on(const frame::v1::HostMessage& message, const Send& send) override {
    if (message.has_tree_chunk()) return take(message.tree_chunk().data(), send);
    if (!message.has_tree_done()) return false;
    if (!decoder_->finished()) {
      answer_(engine::base::fail(Code::frame_malformed, "the tree from the sandbox ends too early"));
      return true;
    }
    sort_entries(result_.manifest);
    answer_(std::move(result_));
    return true;
  }

  void fail(Error error) override { answer_(std::unexpected(std::move(error))); }

 private:
  bool take(const std::string& bytes, const Send& send) {
    received_ += bytes.size();
    if (auto status = decoder_->feed(bytes); !status) {
      frame::v1::HostRequest cancel;
      cancel.mutable_cancel_tree();
      send(std::move(cancel));
      answer_(std::unexpected(status.error()));
      return true;
    }
    if (received_ - acked_ < kAckEvery) return false;
    acked_ = received_;
    frame::v1::HostRequest ack;
    ack.mutable_tree_ack()->set_offset(received_);
    send(std::move(ack));
    return false;
  }

  Status entry(const TreeHeader& header) override {
    names_bytes_ += header.path.size() + header.text.size();
    if (++entries_ > kMostEntries || names_bytes_ > kMostNames) {
      return engine::base::fail(Code::quota_exceeded, "the tree from the sandbox has more than " +
                                                          std::to_string(kMostEntries) +
                                                          " entries, or their names have more than " +
                                                          std::to_string(kMostNames >> 20) + " MiB");
    }
    if (header.type == TreeItem::refused) {
      result_.manifest.refused.push_back(header.path + ": " + header.text);
      return {};
    }
    const std::size_t slash = header.path.rfind('/');
    const bool in_place = slash == std::string::npos || folders_.contains(header.path.substr(0, slash));
    if (!in_place || !names_.insert(header.path).second) {
      return engine::base::fail(Code::path_refused,
                                "the tree from the sandbox has an entry out of place or twice: " +
                                    engine::base::quote_for_terminal(header.path));
    }
    if (header.type == TreeItem::folder) folders_.insert(header.path);
    provider::TreeEntry made{static_cast<provider::EntryType>(header.type), header.path, header.executable,
                             header.type == TreeItem::file ? header.size : 0, header.text};
    result_.manifest.entries.push_back({made, {}});
    left_ = made.size;
    if (!sink_) return {};
    if (auto status = sink_->begin(made); !status) return status;
    return header.type == TreeItem::file ? Status{} : sink_->end();
  }

  Status data(std::string_view piece) override {
    if (!sink_)
      return engine::base::fail(Code::frame_malformed, "the sandbox sends content that nobody asked for");
    hash_.update(piece);
    left_ -= std::min<std::uint64_t>(left_, piece.size());
    result_.bytes += piece.size();
    return sink_->data(piece);
  }

  Status file_end(FileState state, const frames::Digest& digest) override {
    provider::ManifestEntry& entry = result_.manifest.entries.back();
    if (state == FileState::changed) {
      result_.manifest.refused.push_back(entry.entry.path + ": it changed while it was read");
      if (auto status = pad(); !status) return status;
    }
    const Hash256 seen = hash_.finish();
    entry.digest = sink_ ? seen : Hash256{digest};
    if (!sink_) return {};
    if (state == FileState::omitted || (state == FileState::whole && seen.bytes != digest)) {
      return engine::base::fail(Code::frame_malformed, "a file from the sandbox does not match its digest");
    }
    return sink_->end();
  }

  /// A file that became shorter while it was read is made up with zeros to the size that was announced.
  Status pad() {
    static constexpr std::array<char, 4096> kZeros{};
    while (sink_ && left_ > 0) {
      const std::string_view piece(kZeros.data(), std::min<std::uint64_t>(kZeros.size(), left_));
      if (auto status = data(piece); !status) return status;
    }
    return {};
  }

  Status end(std::uint64_t, std::uint64_t) override { return {}; }

  frame::v1::HostRequest request_;
  std::shared_ptr<provider::TreeSink> sink_;
  provider::Answer<provider::TreeResult> answer_;
  std::optional<frames::TreeDecoder> decoder_;
  provider::TreeResult result_;
  engine::base::Sha256 hash_;
  std::set<std::string> folders_, names_;
  std::size_t entries_ = 0;
  std::size_t names_bytes_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t acked_ = 0;
};

}  // namespace

std::unique_ptr<Call> put_call(provider::SandboxRef sandbox, std::string path,
                               std::shared_ptr<provider::TreeSource> source,
                               provider::Answer<provider::TreeResult> answer) {
  return std::make_unique<PutCall>(std::move(sandbox), std::move(path), std::move(source), std::move(answer));
}

std::unique_ptr<Call> get_call(provider::SandboxRef sandbox, std::string path,
                               std::shared_ptr<provider::TreeSink> sink,
                               provider::Answer<provider::TreeResult> answer) {
  return std::make_unique<GetCall>(std::move(sandbox), std::move(path), std::move(sink), std::move(answer));
}

}  // namespace sandglass::sandbox_runtime::client
