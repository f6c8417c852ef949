// A tree of files as one stream of bytes (V13): entries in the sender's order, parents before their children,
// cut anywhere for the journey. Made and read by both ends, relayed unread between them.
//   entry:   type u8, path, then for a file: executable u8, size u64, pieces of content (u32 length, bytes; a
//   zero
//            length ends them), state u8, SHA-256; for a symlink: its text; for a refused one: the reason
//   end:     type 0, entries u64, content bytes u64
// No uid, no time, no device and no mode bit but "executable" has a place in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "sandbox-runtime/frames/init_protocol.h"

namespace sandglass::sandbox_runtime::frames {

enum class TreeItem : std::uint8_t { end = 0, file = 1, folder = 2, symlink = 3, refused = 4 };

/// How a file's content relates to the file that it was read from.
enum class FileState : std::uint8_t { whole = 0, changed = 1, omitted = 2 };

struct TreeHeader {
  TreeItem type = TreeItem::end;
  std::string path;
  bool executable = false;
  std::uint64_t size = 0;  // of a file
  std::string text;        // of a symlink: its target; of a refused one: why
};

constexpr std::size_t kMaxTreePath = 4095;
constexpr std::size_t kMaxTreeName = 255;

/// path_refused unless `path` is relative, without empty, "." and ".." parts, NUL, overlong names or overlong
/// whole. The message never quotes the path raw.
engine::base::Status check_tree_path(std::string_view path);

/// Writes the stream's pieces to the end of `out`.
void put_tree_header(std::string& out, const TreeHeader& header);  // any type but end
void put_tree_data(std::string& out, std::string_view piece);      // not empty
void put_tree_file_end(std::string& out, FileState state, const Digest& digest);
void put_tree_end(std::string& out, std::uint64_t entries, std::uint64_t bytes);

/// Takes what a TreeDecoder finds. A failure stops the decoder and is its answer.
class TreeVisitor {
 public:
  virtual ~TreeVisitor() = default;
  virtual engine::base::Status entry(const TreeHeader& header) = 0;
  virtual engine::base::Status data(std::string_view piece) = 0;
  virtual engine::base::Status file_end(FileState state, const Digest& digest) = 0;
  virtual engine::base::Status end(std::uint64_t entries, std::uint64_t bytes) = 0;
};

/// Takes the stream in pieces of any size. Paths are checked before the visitor sees them; memory is bounded
/// by one header. Codes: frame_malformed, path_refused, and the visitor's own.
class TreeDecoder {
 public:
  explicit TreeDecoder(TreeVisitor& visitor) : visitor_(visitor) {}
  engine::base::Status feed(std::string_view bytes);
  bool finished() const { return state_ == State::finished; }

 private:
  enum class State : std::uint8_t { header, piece_length, piece, file_tail, finished };
  engine::base::Status step(std::string_view& bytes, bool& progress);
  engine::base::Status header_ready(std::string_view& bytes, bool& progress);
  bool gather(std::string_view& bytes, std::size_t wanted);

  TreeVisitor& visitor_;
  State state_ = State::header;
  std::string held_;  // the beginning of a header or tail whose rest has not come
  std::size_t piece_left_ = 0;
  std::uint64_t content_left_ = 0;
};

}  // namespace sandglass::sandbox_runtime::frames
