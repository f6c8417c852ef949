#include "engine/view/rocksdb/log_mark.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/base/data_folder.h"

namespace sandglass::engine::view {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "/SANDGLASS-LOG";

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

base::Status LogMark::check() const {
  const std::string file = folder_ + kName;
  std::error_code failed;
  if (!fs::exists(file, failed)) return {};
  const auto text = base::read_whole_file(file, 64);
  if (!text) return std::unexpected(text.error());
  const std::uint64_t marked = number_of(*text);
  std::uint64_t newest = 0;
  for (const auto& entry : fs::directory_iterator(folder_, failed)) {
    if (entry.path().extension() == ".log")
      newest = std::max(newest, number_of(entry.path().stem().string()));
  }
  if (newest >= marked) return {};
  return base::fail(
      base::Code::record_damaged,
      "the log " + std::to_string(marked) + " of the journal in " + folder_ +
          " is missing, and with it data that was acknowledged: put the file back or restore a backup");
}

base::Status LogMark::set(std::uint64_t number) {
  if (number == marked_) return {};
  if (auto written = base::write_whole_file(folder_ + kName, std::to_string(number) + "\n"); !written)
    return written;
  marked_ = number;
  return {};
}

}  // namespace sandglass::engine::view
