#include "replay-tools/archive/archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/base/data_folder.h"
#include "engine/base/unique_fd.h"
#include "engine/codec/record.h"

namespace sandglass::replay_tools::archive {

namespace {

using base::Code;
using base::system_error;
namespace codec = engine::codec;

constexpr std::string_view kMagic = "sandglass history 1\n";
constexpr std::string_view kAnyMagic = "sandglass history ";
constexpr std::size_t kPage = 256;
constexpr std::size_t kLongestFile = std::size_t{8} << 30;
constexpr std::size_t kHashBytes = 32;

/// A file that gets its name when it is whole.
class Writing {
 public:
  explicit Writing(std::string path) : path_(std::move(path)), beside_(path_ + ".partial") {
    file_.reset(open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_) status_ = std::unexpected(system_error("cannot write", beside_, errno));
  }
  ~Writing() {
    if (!named_) unlink(beside_.c_str());
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  void add(std::string_view bytes) {
    hash_.update(bytes);
    put(bytes);
  }
  base::Result<std::uint64_t> finish() {
    put(hash_.finish().view());
    if (status_ && fsync(file_.get()) != 0)
      status_ = std::unexpected(system_error("cannot sync", beside_, errno));
    if (status_ && rename(beside_.c_str(), path_.c_str()) != 0)
      status_ = std::unexpected(system_error("cannot write", path_, errno));
    if (!status_) return std::unexpected(status_.error());
    named_ = true;
    return bytes_;
  }
  const base::Status& status() const { return status_; }

 private:
  void put(std::string_view bytes) {
    bytes_ += bytes.size();
    while (status_ && !bytes.empty()) {
      const auto wrote = write(file_.get(), bytes.data(), bytes.size());
      if (wrote < 0 && errno != EINTR)
        status_ = std::unexpected(system_error("cannot write", beside_, errno));
      if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
  }

  const std::string path_;
  const std::string beside_;
  base::UniqueFd file_;
  base::Sha256 hash_;
  std::uint64_t bytes_ = 0;
  bool named_ = false;
  base::Status status_;
};

std::string with_length(std::string_view bytes) {
  std::string out;
  codec::put_varint(out, bytes.size());
  return out.append(bytes);
}

std::optional<std::string_view> take(std::string_view& rest, std::size_t bytes) {
  if (rest.size() < bytes) return std::nullopt;
  const std::string_view taken = rest.substr(0, bytes);
  rest.remove_prefix(bytes);
  return taken;
}

std::unexpected<base::Error> damaged(const std::string& path, const std::string& what) {
  return base::fail(Code::record_damaged, "the history in " + path + " is damaged: " + what +
                                              "; export it again, or take another copy");
}

/// What lies between the magic and the hash, if the hash is right.
base::Result<std::string_view> contents(const std::string& path, std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    if (bytes.starts_with(kAnyMagic)) {
      return base::fail(Code::format_unknown,
                        path +
                            " is a history in a newer format than this program reads; use the Sandglass "
                            "that wrote it, or a later one");
    }
    return base::fail(Code::file_unreadable, path + " is no history that `sandglass history export` wrote");
  }
  if (bytes.size() < kMagic.size() + kHashBytes) return damaged(path, "it is cut short");
  const std::string_view hashed = bytes.substr(0, bytes.size() - kHashBytes);
  if (base::sha256(hashed).view() != bytes.substr(hashed.size()))
    return damaged(path, "its bytes do not match its hash");
  return hashed.substr(kMagic.size());
}

}  // namespace

base::Result<Exported> write_history(const engine::journal::Reader& from, const core::StreamId& stream,
                                     std::int64_t made_ms, const std::string& path) {
  const auto journal = from.journal_id();
  if (!journal) return std::unexpected(journal.error());
  auto page = from.read_stream(stream, 1, kPage);
  if (!page) return std::unexpected(page.error());
  if (page->empty()) return base::fail(Code::not_found, "there is no stream " + stream.text());
  Writing file(path);
  file.add(kMagic);
  file.add(with_length(*journal));
  file.add(stream.bytes());
  std::string made;
  codec::put_varint(made, static_cast<std::uint64_t>(std::max<std::int64_t>(made_ms, 0)));
  file.add(made);
  Exported exported;
  while (!page->empty() && file.status()) {
    for (const core::StoredRecord& record : *page) file.add(with_length(codec::encode_record(record)));
    exported.records = page->back().seq;
    exported.leaf = codec::leaf_hash(page->back());
    page = from.read_stream(stream, exported.records + 1, kPage);
    if (!page) return std::unexpected(page.error());
  }
  file.add(std::string_view("\0", 1));
  const auto bytes = file.finish();
  if (!bytes) return std::unexpected(bytes.error());
  exported.bytes = *bytes;
  return exported;
}

base::Result<ArchivedHistory> ArchivedHistory::read(const std::string& path) {
  const auto bytes = base::read_whole_file(path, kLongestFile);
  if (!bytes) return std::unexpected(bytes.error());
  const auto inside = contents(path, *bytes);
  if (!inside) return std::unexpected(inside.error());
  std::string_view rest = *inside;
  ArchivedHistory history;
  const auto id_bytes = codec::take_varint(rest);
  const auto id = id_bytes ? take(rest, *id_bytes) : std::nullopt;
  const auto stream_bytes = id ? take(rest, core::StreamId::kBytes) : std::nullopt;
  const auto stream = stream_bytes ? core::StreamId::from_bytes(*stream_bytes) : std::nullopt;
  const auto made = stream ? codec::take_varint(rest) : std::nullopt;
  if (!made) return damaged(path, "its head cannot be read");
  history.journal_ = *id;
  history.stream_ = *stream;
  history.made_ms_ = static_cast<std::int64_t>(*made);
  for (std::uint64_t seq = 1;; ++seq) {
    const auto length = codec::take_varint(rest);
    if (length && *length == 0 && rest.empty()) break;
    const auto row = length ? take(rest, *length) : std::nullopt;
    if (!row) return damaged(path, "record " + std::to_string(seq) + " is cut short");
    auto record = codec::decode_record(history.stream_, seq, *row);
    if (!record) return std::unexpected(record.error());
    history.records_.push_back(std::move(*record));
  }
  if (history.records_.empty()) return damaged(path, "it has no record");
  return history;
}

base::Hash256 ArchivedHistory::leaf() const {
  return codec::leaf_hash(records_.back());
}

base::Result<std::vector<core::OrderedRecord>> ArchivedHistory::read_order(core::PartitionId, core::Sequence,
                                                                           std::size_t) const {
  return base::fail(Code::not_found, "the file has one stream, and no partition in its order");
}

base::Result<std::vector<core::StoredRecord>> ArchivedHistory::read_stream(const core::StreamId& stream,
                                                                           std::uint64_t from_seq,
                                                                           std::size_t limit) const {
  if (stream != stream_) {
    return base::fail(Code::not_found, "the file has " + stream_.text() + " and not " + stream.text());
  }
  const std::size_t first = std::min<std::size_t>(from_seq == 0 ? 0 : from_seq - 1, records_.size());
  const std::size_t count = std::min(limit, records_.size() - first);
  const auto begin = records_.begin() + static_cast<std::ptrdiff_t>(first);
  return std::vector<core::StoredRecord>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

}  // namespace sandglass::replay_tools::archive
