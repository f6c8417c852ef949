#include "sandbox-runtime/frames/tree_stream.h"

#include <algorithm>
#include <cstring>

namespace sandglass::sandbox_runtime::frames {

using engine::base::Code;
using engine::base::fail;
using engine::base::Status;

namespace {

constexpr std::size_t kFileTail = 1 + sizeof(Digest);
constexpr std::size_t kEndSize = 1 + 2 * sizeof(std::uint64_t);

Status refuse(const char* why) {
  return fail(Code::path_refused, std::string("a path in the tree is refused: ") + why);
}

std::uint32_t load_u32(const char* at) {
  std::uint32_t value = 0;
  Decoder decoder(std::string_view(at, sizeof value));
  decoder(value);
  return value;
}

}  // namespace

Status check_tree_path(std::string_view path) {
  if (path.empty()) return refuse("it is empty");
  if (path.size() > kMaxTreePath) return refuse("it is longer than 4095 bytes");
  if (path.find('\0') != path.npos) return refuse("it contains a NUL byte");
  if (path.front() == '/') return refuse("it is absolute");
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty()) return refuse("it has an empty part");
    if (name == "." || name == "..") return refuse("it has a part \".\" or \"..\"");
    if (name.size() > kMaxTreeName) return refuse("it has a name longer than 255 bytes");
    if (slash == path.npos) return {};
    path.remove_prefix(slash + 1);
  }
}

void put_tree_header(std::string& out, const TreeHeader& header) {
  Encoder encoder(out);
  encoder(header.type, header.path);
  if (header.type == TreeItem::file) encoder(header.executable, header.size);
  if (header.type == TreeItem::symlink || header.type == TreeItem::refused) encoder(header.text);
}

void put_tree_data(std::string& out, std::string_view piece) {
  Encoder encoder(out);
  encoder(piece);
}

void put_tree_file_end(std::string& out, FileState state, const Digest& digest) {
  Encoder encoder(out);
  encoder(std::uint32_t{0}, state, digest);
}

void put_tree_end(std::string& out, std::uint64_t entries, std::uint64_t bytes) {
  Encoder encoder(out);
  encoder(TreeItem::end, entries, bytes);
}

/// Moves bytes into held_ until it has `wanted`. True: it has.
bool TreeDecoder::gather(std::string_view& bytes, std::size_t wanted) {
  const std::size_t take = std::min(bytes.size(), wanted - std::min(wanted, held_.size()));
  held_.append(bytes.substr(0, take));
  bytes.remove_prefix(take);
  return held_.size() >= wanted;
}

Status TreeDecoder::feed(std::string_view bytes) {
  bool progress = true;
  while (progress && !finished()) {
    if (auto status = step(bytes, progress); !status) return status;
  }
  if (finished() && !bytes.empty()) return fail(Code::frame_malformed, "bytes follow the end of the tree");
  return {};
}

/// One state's work. `progress` false: more bytes are needed.
Status TreeDecoder::step(std::string_view& bytes, bool& progress) {
  switch (state_) {
    case State::header:
      return header_ready(bytes, progress);
    case State::piece_length: {
      if (!(progress = gather(bytes, sizeof(std::uint32_t)))) return {};
      piece_left_ = load_u32(held_.data());
      held_.clear();
      if (piece_left_ > content_left_)
        return fail(Code::frame_malformed, "a file's content exceeds its size");
      content_left_ -= piece_left_;
      state_ = piece_left_ == 0 ? State::file_tail : State::piece;
      return {};
    }
    case State::piece: {
      progress = !bytes.empty();
      const std::string_view piece = bytes.substr(0, piece_left_);
      bytes.remove_prefix(piece.size());
      piece_left_ -= piece.size();
      if (piece_left_ == 0) state_ = State::piece_length;
      return piece.empty() ? Status{} : visitor_.data(piece);
    }
    case State::file_tail: {
      if (!(progress = gather(bytes, kFileTail))) return {};
      Decoder decoder(held_);
      FileState file_state{};
      Digest digest{};
      decoder(file_state, digest);
      held_.clear();
      state_ = State::header;
      if (file_state > FileState::omitted)
        return fail(Code::frame_malformed, "a file ends in an unknown state");
      if (file_state == FileState::whole && content_left_ != 0) {
        return fail(Code::frame_malformed, "a file's content is shorter than its size");
      }
      return visitor_.file_end(file_state, digest);
    }
    case State::finished:
      break;
  }
  progress = false;
  return {};
}

Status TreeDecoder::header_ready(std::string_view& bytes, bool& progress) {
  // type and length first; then as much as the length says, which is bounded before it is believed
  if (!(progress = gather(bytes, 1))) return {};
  TreeHeader header;
  header.type = static_cast<TreeItem>(held_[0]);
  if (header.type > TreeItem::refused) return fail(Code::frame_malformed, "a tree entry of an unknown type");
  if (header.type == TreeItem::end) {
    if (!(progress = gather(bytes, kEndSize))) return {};
    Decoder decoder(std::string_view(held_).substr(1));
    std::uint64_t entries = 0, content = 0;
    decoder(entries, content);
    held_.clear();
    state_ = State::finished;
    return visitor_.end(entries, content);
  }
  std::size_t wanted = 1 + sizeof(std::uint32_t);
  if (!(progress = gather(bytes, wanted))) return {};
  const std::uint32_t path_size = load_u32(held_.data() + 1);
  if (path_size > kMaxTreePath) return refuse("it is longer than 4095 bytes");
  wanted += path_size;
  if (header.type == TreeItem::file) wanted += 1 + sizeof(std::uint64_t);
  const bool has_text = header.type == TreeItem::symlink || header.type == TreeItem::refused;
  if (has_text) wanted += sizeof(std::uint32_t);
  if (!(progress = gather(bytes, wanted))) return {};
  if (has_text) {
    const std::uint32_t text_size = load_u32(held_.data() + wanted - sizeof(std::uint32_t));
    if (text_size > kMaxTreePath) return refuse("a link's text is longer than 4095 bytes");
    wanted += text_size;
    if (!(progress = gather(bytes, wanted))) return {};
  }
  Decoder decoder(std::string_view(held_).substr(1));
  decoder(header.path);
  if (header.type == TreeItem::file) decoder(header.executable, header.size);
  if (has_text) decoder(header.text);
  held_.clear();
  if (!decoder.done()) return fail(Code::frame_malformed, "a tree entry is malformed");
  if (auto status = check_tree_path(header.path); !status) return status;
  if (header.type == TreeItem::symlink &&
      (header.text.empty() || header.text.find('\0') != std::string::npos)) {
    return refuse("a link's text is empty or contains a NUL byte");
  }
  if (header.type == TreeItem::file) {
    content_left_ = header.size;
    state_ = State::piece_length;
  }
  return visitor_.entry(header);
}

}  // namespace sandglass::sandbox_runtime::frames
