// Structured log: an event name and fields. One line each, on standard error; values are escaped so that no
// terminal control character gets through. Never pass a secret. Pure parts (deciders, debugger) do not log.
// Thread rule: callable from any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace sandglass::engine::base {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

struct LogField {
  LogField(std::string_view field_name, std::string_view field_value)
      : name(field_name), value(field_value) {}
  LogField(std::string_view field_name, const char* field_value) : name(field_name), value(field_value) {}
  LogField(std::string_view field_name, bool field_value)
      : name(field_name), value(field_value ? "true" : "false") {}
  template <class T>
    requires std::is_integral_v<T>
  LogField(std::string_view field_name, T field_value)
      : name(field_name), value(std::to_string(field_value)) {}

  std::string_view name;
  std::string value;
};

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);

/// Lines below this level are dropped. Default: info, or $SANDGLASS_LOG (debug, info, warning, error).
void set_log_level(LogLevel level);

/// Names the process in each line ("engine", "host", …); call once, before threads start.
void set_log_process(std::string_view name);

}  // namespace sandglass::engine::base
