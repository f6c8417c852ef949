#include "engine/view/rocksdb/durable_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/base/data_folder.h"
#include "engine/base/hash.h"
#include "engine/view/keys.h"
#include "engine/view/rocksdb/log_scan.h"

namespace sandglass::engine::view {
namespace {

namespace fs = std::filesystem;

// A slot: magic(8) · turn(8) · the numbers(8 each) · first 8 bytes of SHA-256 of these. Slots lie in pages of
// their own, so that no write-back of one can tear the other. The first version had no first_log.
constexpr std::string_view kMagic = "sgmark 2";
constexpr std::string_view kFirstMagic = "sgmark 1";
constexpr std::size_t kSumBytes = 8;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kFileBytes = 2 * kPage;

std::string slot_of(std::uint64_t turn, const DurablePoint& point) {
  std::string slot(kMagic);
  for (const std::uint64_t number : {turn, point.log, point.log_bytes, point.manifest, point.manifest_bytes,
                                     point.entry, point.first_log}) {
    put_u64(slot, number);
  }
  slot += base::sha256(slot).view().substr(0, kSumBytes);
  return slot;
}

struct Slot {
  std::uint64_t turn = 0;
  DurablePoint point;
};

std::optional<Slot> parse_slot(std::string_view slot) {
  const bool first = slot.starts_with(kFirstMagic);
  if (!first && !slot.starts_with(kMagic)) return std::nullopt;
  std::array<std::uint64_t, 7> numbers{};
  const std::size_t count = numbers.size() - (first ? 1 : 0);
  const std::string_view body = slot.substr(0, kMagic.size() + 8 * count);
  if (slot.size() < body.size() + kSumBytes ||
      base::sha256(body).view().substr(0, kSumBytes) != slot.substr(body.size(), kSumBytes)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < count; ++i) numbers[i] = get_u64(body.substr(kMagic.size() + 8 * i));
  if (first) numbers[6] = numbers[1];
  return Slot{numbers[0], {numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]}};
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string log_name(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits + ".log";
}

/// The last sentence of a refusal after which nothing has been changed.
std::string remedy(const std::string& what, const DurableMark& mark) {
  return "; nothing was changed. Put " + what +
         " back or restore the whole data folder from a backup. To go on with what is left, and lose what "
         "was acknowledged since, remove " +
         mark.file() + " and start again";
}

std::unexpected<base::Error> refuse(std::string message) {
  return base::fail(base::Code::record_damaged, std::move(message));
}

/// One file against its part of the mark.
base::Status check_file(const std::string& file, std::uint64_t bytes, const DurableMark& mark,
                        LogEnd may_end = LogEnd::exact) {
  std::error_code failed;
  const std::uint64_t size = fs::file_size(file, failed);
  if (failed) return refuse(file + " is missing" + remedy("it", mark));
  if (size < bytes) {
    return refuse(file + " was cut at byte " + std::to_string(size) + ": " + std::to_string(bytes) +
                  " bytes of it were synced" + remedy("it", mark));
  }
  const auto fault = scan_log(file, bytes, may_end);
  if (!fault) return std::unexpected(fault.error());
  if (!*fault) return {};
  return refuse(file + " is damaged at byte " + std::to_string((*fault)->offset) + ": " + (*fault)->what +
                "; nothing was changed. Check the disk, put the file back or restore the whole data folder "
                "from a backup");
}

struct Listing {
  std::uint64_t newest_log = 0;
  std::vector<std::uint64_t> logs;
  std::string manifest;  // as CURRENT names it; empty: it names none
  bool has_current = false;
};

Listing list(const std::string& folder) {
  Listing listing;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() != ".log") continue;
    listing.logs.push_back(number_of(entry.path().stem().string()));
    listing.newest_log = std::max(listing.newest_log, listing.logs.back());
  }
  listing.has_current = fs::exists(folder + "/CURRENT", failed);
  const auto current = base::read_whole_file(folder + "/CURRENT", 64);
  constexpr std::string_view kPrefix = "MANIFEST-";
  if (current && current->starts_with(kPrefix) && current->ends_with("\n")) {
    const std::string name = current->substr(0, current->size() - 1);
    if (name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos) listing.manifest = name;
  }
  return listing;
}

}  // namespace

base::Status DurableMark::read() {
  std::error_code failed;
  if (!fs::exists(file_, failed)) return {};
  const auto bytes = base::read_whole_file(file_, kFileBytes);
  if (!bytes) return std::unexpected(bytes.error());
  std::optional<Slot> newest;
  for (const std::size_t at : {std::size_t{0}, kPage}) {
    const auto slot = bytes->size() > at ? parse_slot(std::string_view(*bytes).substr(at)) : std::nullopt;
    if (slot && (!newest || slot->turn > newest->turn)) newest = slot;
  }
  if (!newest) {
    return refuse(file_ + " is damaged at byte 0: neither of its two slots matches its checksum" +
                  remedy("it", *this));
  }
  point_ = newest->point;
  turn_ = newest->turn;
  return {};
}

base::Status DurableMark::begin_writing() {
  if (!point_) {
    std::string bytes = slot_of(turn_, {});
    bytes.resize(kFileBytes);
    if (auto made = base::write_whole_file(file_, bytes); !made) return made;
    point_ = DurablePoint{};
  }
  open_.reset(::open(file_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!open_) return std::unexpected(base::system_error("cannot open", file_, errno));
  return {};
}

base::Status DurableMark::move(const DurablePoint& point, bool sync) {
  if (*point_ != point) {
    const std::string slot = slot_of(++turn_, point);
    const auto at = static_cast<off_t>(turn_ % 2 * kPage);
    ssize_t wrote = -1;
    do {
      wrote = ::pwrite(open_.get(), slot.data(), slot.size(), at);
    } while (wrote < 0 && errno == EINTR);
    if (wrote != static_cast<ssize_t>(slot.size()))
      return std::unexpected(base::system_error("cannot write", file_, wrote < 0 ? errno : ENOSPC));
    point_ = point;
  }
  if (sync && ::fdatasync(open_.get()) != 0)
    return std::unexpected(base::system_error("cannot sync", file_, errno));
  return {};
}

base::Status check_files(const std::string& folder, const DurableMark& mark, bool& probe) {
  if (!mark.point() || *mark.point() == DurablePoint{}) return {};
  const DurablePoint& point = *mark.point();
  const Listing found = list(folder);
  const std::string current = folder + "/CURRENT";
  if (!found.has_current) {
    return refuse(current + " is missing, but the journal had " + std::to_string(point.entry) + " entries" +
                  remedy("the folder's files", mark));
  }
  const std::uint64_t manifest =
      found.manifest.empty() ? 0 : number_of(std::string_view(found.manifest).substr(sizeof "MANIFEST"));
  if (manifest == 0)
    return refuse(current + " is damaged at byte 0: it names no MANIFEST" + remedy("it", mark));
  if (manifest < point.manifest) {
    return refuse(current + " names " + found.manifest + ", but the newest was MANIFEST " +
                  std::to_string(point.manifest) + ": these files are older than the journal was" +
                  remedy("the newest files", mark));
  }
  const std::string manifest_file = folder + "/" + found.manifest;
  std::error_code failed;
  if (!fs::exists(manifest_file, failed)) {
    return refuse(current + " names " + found.manifest + ", which is missing" + remedy("both", mark));
  }
  if (manifest == point.manifest) {
    if (auto status = check_file(manifest_file, point.manifest_bytes, mark); !status) return status;
  }
  const std::string log = folder + "/" + log_name(point.log);
  for (const std::uint64_t older : found.logs) {
    if (older < point.first_log || older >= point.log) continue;
    const std::string file = folder + "/" + log_name(older);
    const std::uint64_t size = fs::file_size(file, failed);
    if (failed) continue;
    if (auto status = check_file(file, size, mark, LogEnd::zeros); !status) return status;
  }
  probe = point.log != 0 && std::ranges::find(found.logs, point.log) == found.logs.end();
  return probe || point.log == 0 ? base::Status() : check_file(log, point.log_bytes, mark);
}

base::Status check_logs(const std::string& folder, const DurableMark& mark, std::uint64_t first_log) {
  if (!mark.point() || mark.point()->log == 0 || first_log > mark.point()->log) return {};
  const std::string log = folder + "/" + log_name(mark.point()->log);
  std::error_code failed;
  if (fs::exists(log, failed)) return {};
  return refuse(log + " is missing, and what it held is in no table" + remedy("it", mark));
}

base::Status check_entry(const std::string& folder, const DurableMark& mark, std::uint64_t newest) {
  if (!mark.point() || newest >= mark.point()->entry) return {};
  return refuse("the journal in " + folder + " ends at entry " + std::to_string(newest) + ", but entry " +
                std::to_string(mark.point()->entry) + " was acknowledged (it was in " +
                log_name(mark.point()->log) + ", which is missing or an older copy)" +
                remedy("the newest files", mark));
}

std::string damaged_place(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".log") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  const Listing found = list(folder);
  if (!found.manifest.empty()) files.insert(files.begin(), folder + "/" + found.manifest);
  for (const std::string& file : files) {
    const std::uint64_t size = fs::file_size(file, failed);
    if (failed) continue;
    const auto fault = scan_log(file, size);
    if (fault && *fault)
      return " (" + file + " at byte " + std::to_string((*fault)->offset) + ": " + (*fault)->what + ")";
  }
  return {};
}

}  // namespace sandglass::engine::view
