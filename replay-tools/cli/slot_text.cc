#include "replay-tools/cli/slot_text.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/text.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using engine::core::Encoding;
using nlohmann::ordered_json;

constexpr std::string_view kNames[] = {"none", "json", "bytes", "cereal"};

std::string_view name_of(Encoding encoding) {
  const auto number = static_cast<std::size_t>(encoding);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

/// The beginning of a text, cut between characters; empty for what is no text.
std::string_view beginning(std::string_view bytes) {
  std::string_view shown = bytes.substr(0, kShownSlotBytes);
  while (shown.size() < bytes.size() && !shown.empty() &&
         (static_cast<unsigned char>(bytes[shown.size()]) & 0xC0) == 0x80) {
    shown.remove_suffix(1);
  }
  return engine::base::is_utf8(shown) ? shown : std::string_view();
}

bool is_open(const engine::core::Slot& slot) {
  return slot.encoding == Encoding::json || slot.encoding == Encoding::bytes;
}

}  // namespace

std::string slot_text(const engine::core::Slot& slot) {
  std::string line =
      std::string(name_of(slot.encoding)) + ", " + std::to_string(slot.bytes.size()) + " bytes";
  const std::string_view shown = is_open(slot) ? beginning(slot.bytes) : std::string_view();
  if (!shown.empty()) line += ": " + safe(shown);
  if (!shown.empty() && shown.size() < slot.bytes.size()) line += " …";
  return line;
}

ordered_json slot_json(const engine::core::Slot& slot) {
  ordered_json out = {{"encoding", name_of(slot.encoding)}, {"bytes", slot.bytes.size()}};
  const std::string_view shown = is_open(slot) ? beginning(slot.bytes) : std::string_view();
  const bool cut = shown.size() < slot.bytes.size();
  if (slot.encoding == Encoding::json && !cut) {
    auto value = ordered_json::parse(shown, nullptr, /*allow_exceptions=*/false);
    if (!value.is_discarded()) {
      out["json"] = std::move(value);
      return out;
    }
  }
  if (!shown.empty()) out["text"] = shown;
  if (!shown.empty() && cut) out["cut"] = true;
  return out;
}

}  // namespace sandglass::replay_tools::cli
