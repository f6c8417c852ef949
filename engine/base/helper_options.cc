#include "engine/base/helper_options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"

namespace sandglass::engine::base {
namespace {

bool set_option(HelperOptions& options, std::string_view name, std::string_view value) {
  if (name == "--socket") {
    options.socket = value;
    return true;
  }
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || error != std::errc() || end != value.data() + value.size()) return false;
  const bool is_fd = number <= static_cast<std::uint32_t>(std::numeric_limits<int>::max());
  if (name == "--socket-fd" && is_fd) {
    options.socket_fd = static_cast<int>(number);
  } else if (name == "--config-fd" && is_fd) {
    options.config_fd = static_cast<int>(number);
  } else if (name == "--uid") {
    options.uid = number;
  } else if (name == "--gid") {
    options.gid = number;
  } else if (name == "--host-uid") {
    options.host_uid = number;
  } else {
    return false;
  }
  return true;
}

std::optional<HelperOptions> parse(const HelperProgram& program, int argc, char** argv) {
  HelperOptions options;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc || std::ranges::find(program.options, argv[i]) == program.options.end() ||
        !set_option(options, argv[i], argv[i + 1])) {
      return std::nullopt;
    }
  }
  if (!program.is_complete(options)) return std::nullopt;
  return options;
}

}  // namespace

uid_t HelperOptions::wanted_uid() const {
  return uid.value_or(::getuid());
}
gid_t HelperOptions::wanted_gid() const {
  return gid.value_or(::getgid());
}

int run_helper(const HelperProgram& program, int argc, char** argv) {
  if (list_crash_points(argc, argv)) return 0;
  const pid_t parent = ::getppid();
  set_log_process(program.name);
  std::signal(SIGPIPE, SIG_IGN);
  auto options = parse(program, argc, argv);
  if (!options) {
    [[maybe_unused]] const auto written = ::write(2, program.usage, std::strlen(program.usage));
    return kHelperUsage;
  }
  options->parent = parent;
  return program.run(*options);
}

int helper_cannot_start(const HelperProgram& program, const Error& error, int status) {
  log(LogLevel::error, std::string(program.name) + "_cannot_start", {{"reason", error.message}});
  return status;
}

}  // namespace sandglass::engine::base
