#include "replay-tools/cli/output.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/hash.h"
#include "engine/base/text.h"

namespace sandglass::replay_tools::cli {

namespace {

using google::protobuf::FieldDescriptor;
using nlohmann::ordered_json;

const char* code_of(Colour colour) {
  switch (colour) {
    case Colour::none:
      return "";
    case Colour::bold:
      return "1";
    case Colour::dim:
      return "2";
    case Colour::red:
      return "31";
    case Colour::green:
      return "32";
    case Colour::yellow:
      return "33";
    case Colour::blue:
      return "34";
  }
  return "";
}

/// Columns that a terminal uses for UTF-8 text, near enough: code points.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Byte fields whose content is JSON.
bool holds_json(const FieldDescriptor& field) {
  static const std::set<std::string> kNames = {"input",  "result", "payload", "request",
                                               "reason", "reply",  "answer",  "attributes"};
  return kNames.contains(field.name());
}

ordered_json bytes_value(const FieldDescriptor& field, const std::string& bytes) {
  if (holds_json(field)) {
    auto parsed = ordered_json::parse(bytes, nullptr, false);
    if (!parsed.is_discarded()) return parsed;
  }
  return engine::base::to_hex(bytes);
}

std::string enum_name(const google::protobuf::EnumValueDescriptor& value) {
  // RUN_STATUS_RUNNING of RunStatus → running
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (c >= 'A' && c <= 'Z' && !prefix.empty()) prefix += '_';
    prefix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  std::string name = value.name();
  if (name.starts_with(prefix + "_")) name.erase(0, prefix.size() + 1);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

ordered_json to_value(const google::protobuf::Message& message);

ordered_json field_value(const google::protobuf::Message& message, const FieldDescriptor& field, int index) {
  const auto& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
#define SG_VALUE(Type) \
  (many ? reflection.GetRepeated##Type(message, &field, index) : reflection.Get##Type(message, &field))
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return SG_VALUE(Int32);
    case FieldDescriptor::CPPTYPE_INT64:
      return SG_VALUE(Int64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return SG_VALUE(UInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return SG_VALUE(UInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SG_VALUE(Double);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return SG_VALUE(Float);
    case FieldDescriptor::CPPTYPE_BOOL:
      return SG_VALUE(Bool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return enum_name(*SG_VALUE(Enum));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return to_value(SG_VALUE(Message));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = SG_VALUE(String);
      return field.type() == FieldDescriptor::TYPE_BYTES ? bytes_value(field, text) : ordered_json(text);
    }
  }
#undef SG_VALUE
  return nullptr;
}

ordered_json to_value(const google::protobuf::Message& message) {
  ordered_json out = ordered_json::object();
  const auto& reflection = *message.GetReflection();
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (field.is_repeated()) {
      auto list = ordered_json::array();
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k)
        list.push_back(field_value(message, field, k));
      out[field.name()] = std::move(list);
      continue;
    }
    const bool is_content =
        field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE || field.type() == FieldDescriptor::TYPE_BYTES;
    if (is_content && !reflection.HasField(message, &field)) continue;
    out[field.name()] = field_value(message, field, 0);
  }
  return out;
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

}  // namespace

bool has_colour() {
  static const bool kColour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  return kColour;
}

std::string paint(Colour colour, std::string_view text) {
  if (!has_colour() || colour == Colour::none) return std::string(text);
  return "\x1b[" + std::string(code_of(colour)) + "m" + std::string(text) + "\x1b[0m";
}

std::string safe(std::string_view text) {
  return engine::base::escape_for_terminal(text);
}

std::string safe_block(std::string_view text, std::string_view indent) {
  std::string out;
  for (const char c : engine::base::escape_for_terminal(text, true)) {
    out += c;
    if (c == '\n') out += indent;
  }
  return out;
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> shown;
  for (const auto& row : rows) {
    auto& cells = shown.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(row[i].empty() ? "-" : safe(row[i]));
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], width_of(cells[i]));
    }
  }
  for (std::size_t r = 0; r < shown.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < shown[r].size(); ++i) {
      line += shown[r][i];
      if (i + 1 < shown[r].size()) line += std::string(widths[i] - width_of(shown[r][i]) + 2, ' ');
    }
    print_line(r == 0 ? paint(Colour::bold, line) : line);
  }
}

void print_line(std::string_view safe_text) {
  std::fwrite(safe_text.data(), 1, safe_text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

std::string show_time(std::int64_t ms) {
  if (ms == 0) return "-";
  const std::time_t seconds = ms / 1000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string show_duration(std::int64_t ms) {
  std::array<char, 48> text{};
  if (ms < 1000) {
    std::snprintf(text.data(), text.size(), "%lld ms", static_cast<long long>(ms));
  } else if (ms < 60'000) {
    std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(ms) / 1000);
  } else if (ms < 3'600'000) {
    std::snprintf(text.data(), text.size(), "%lld min %lld s", static_cast<long long>(ms / 60'000),
                  static_cast<long long>(ms / 1000 % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%lld h %lld min", static_cast<long long>(ms / 3'600'000),
                  static_cast<long long>(ms / 60'000 % 60));
  }
  return text.data();
}

std::string show_bytes(std::uint64_t bytes) {
  std::array<char, 32> text{};
  if (bytes < 1024) {
    std::snprintf(text.data(), text.size(), "%llu B", static_cast<unsigned long long>(bytes));
  } else if (bytes < 1024 * 1024) {
    std::snprintf(text.data(), text.size(), "%.1f KiB", static_cast<double>(bytes) / 1024);
  } else {
    std::snprintf(text.data(), text.size(), "%.1f MiB", static_cast<double>(bytes) / (1024 * 1024));
  }
  return text.data();
}

std::string to_json(const google::protobuf::Message& message) {
  return dump(to_value(message));
}

std::string error_json(unsigned code, std::string_view name, std::string_view message) {
  return dump({{"error", code}, {"name", name}, {"message", message}});
}

std::string to_json(const std::vector<std::pair<std::string, std::string>>& fields) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, value] : fields) out[name] = value;
  return dump(out);
}

}  // namespace sandglass::replay_tools::cli
