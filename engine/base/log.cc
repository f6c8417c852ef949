#include "engine/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

#include "engine/base/text.h"

namespace sandglass::engine::base {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

LogLevel level_from_environment() {
  const char* text = std::getenv("SANDGLASS_LOG");
  const std::string_view wanted = text == nullptr ? "" : text;
  if (wanted == "debug") return LogLevel::debug;
  if (wanted == "warning") return LogLevel::warning;
  if (wanted == "error") return LogLevel::error;
  return LogLevel::info;
}

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("sandglass", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    made->set_level(level_of(level_from_environment()));
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return instance;
}

std::string& process_prefix() {
  static std::string prefix;
  return prefix;
}

}  // namespace

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  const auto wanted = level_of(level);
  if (!logger()->should_log(wanted)) return;
  std::string line = process_prefix();
  line += event;
  for (const auto& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    line += quote_for_terminal(field.value);
  }
  logger()->log(wanted, "{}", line);
}

void set_log_level(LogLevel level) {
  logger()->set_level(level_of(level));
}

void set_log_process(std::string_view name) {
  process_prefix() = std::string(name) + " ";
}

}  // namespace sandglass::engine::base
