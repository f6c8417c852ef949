#include "engine/view/rocksdb/log_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/crc32c.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::view {
namespace {

constexpr std::size_t kBlock = 32768;
constexpr std::size_t kHeader = 7;
constexpr std::uint32_t kMaskDelta = 0xA282EAD8;

enum Type : std::uint8_t { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

std::uint32_t little32(const char* bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

/// Records may be cut in pieces; which piece may come now.
class Pieces {
 public:
  bool takes(std::uint8_t type) {
    const bool begins = type == kWhole || type == kFirst;
    if (type < kWhole || type > kLast || begins == inside_) return false;
    inside_ = type == kFirst || type == kMiddle;
    return true;
  }
  bool inside() const { return inside_; }

 private:
  bool inside_ = false;
};

bool only_zeros(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

/// Checks the records of one block, `at` is its offset in the file, up to where only zeros follow in it, if
/// they may: `used` is then shorter than the block.
std::optional<LogFault> scan_block(std::string_view block, std::uint64_t at, bool last, LogEnd may_end,
                                   Pieces& pieces, std::size_t& used) {
  std::size_t here = 0;
  used = block.size();
  while (block.size() - here >= kHeader) {
    const char* record = block.data() + here;
    const std::size_t length =
        static_cast<std::uint8_t>(record[4]) | std::size_t{static_cast<std::uint8_t>(record[5])} << 8;
    const auto type = static_cast<std::uint8_t>(record[6]);
    const auto fault = [&](const char* what) { return LogFault{at + here, what}; };
    if (may_end == LogEnd::zeros && !pieces.inside() && only_zeros(block.substr(here))) {
      used = here;
      return std::nullopt;
    }
    if (kHeader + length > block.size() - here) return fault("the record is cut short");
    const std::uint32_t crc = base::crc32c({record + kHeader - 1, length + 1});
    if ((crc >> 15 | crc << 17) + kMaskDelta != little32(record)) return fault("its checksum does not match");
    if (!pieces.takes(type)) return fault("the record does not follow the one before it");
    here += kHeader + length;
  }
  const bool padded = may_end == LogEnd::zeros && only_zeros(block.substr(here));
  if (last && here < block.size() && !padded) return LogFault{at + here, "the record is cut short"};
  return std::nullopt;
}

}  // namespace

base::Result<std::optional<LogFault>> scan_log(const std::string& path, std::uint64_t end, LogEnd may_end) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto failed = [&] {
    return base::fail(base::Code::io_error, "cannot read " + path + ": " + std::strerror(errno));
  };
  if (!file) return failed();
  std::string block(kBlock, '\0');
  Pieces pieces;
  std::optional<std::uint64_t> zeros_from;
  for (std::uint64_t at = 0; at < end;) {
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, end - at));
    std::size_t have = 0;
    while (have < wanted) {
      const auto got = ::pread(file.get(), block.data() + have, wanted - have, static_cast<off_t>(at + have));
      if (got < 0 && errno != EINTR) return failed();
      if (got == 0) break;
      if (got > 0) have += static_cast<std::size_t>(got);
    }
    const bool last = at + wanted == end;
    const std::string_view bytes(block.data(), have);
    std::size_t used = 0;
    if (zeros_from) {
      if (!only_zeros(bytes)) return LogFault{*zeros_from, "the record is overwritten with zeros"};
    } else {
      if (auto fault = scan_block(bytes, at, last && wanted < kBlock, may_end, pieces, used)) return fault;
      if (used < have) zeros_from = at + used;
    }
    if (have < wanted) return LogFault{at + have, "the file ends here"};
    at += wanted;
  }
  if (pieces.inside()) return LogFault{end, "the last record is cut short"};
  return std::nullopt;
}

}  // namespace sandglass::engine::view
