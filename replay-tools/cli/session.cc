#include "replay-tools/cli/session.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "engine/base/data_folder.h"
#include "engine/base/text.h"
#include "replay-tools/cli/launch.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;

constexpr std::int64_t kPingMs = 2000;
constexpr int kStartTries = 100;
constexpr int kTryPauseMs = 100;

}  // namespace

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-+:@%=,").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

base::Error Session::nobody_answers() const {
  if (!options_.address.empty()) {
    return {Code::engine_unreachable,
            "no engine answers at " + options_.address +
                "; it is the address that `listen.tcp` names in the configuration of a "
                "server that runs"};
  }
  const auto path = folder();
  const std::string where = path ? *path : options_.data;
  if (access(where.c_str(), F_OK) != 0 && errno == ENOENT) {
    return {Code::engine_unreachable, "there is no data folder at " + where + ", so no engine answers; `" +
                                          hint("run TASK.yaml") + "` makes one, or `" + hint("serve") +
                                          "`; --data names another one"};
  }
  return {Code::engine_unreachable,
          "no engine answers at " + where + "; start one with `" + hint("serve") + "`"};
}

std::string Session::hint(const std::string& rest) const {
  std::string line = "sandglass ";
  if (!options_.data.empty()) line += "--data " + shell_word(options_.data) + " ";
  if (!options_.address.empty()) line += "--address " + shell_word(options_.address) + " ";
  return safe(line + rest);
}

base::Result<std::string> Session::folder() const {
  auto path = base::choose_data_folder(options_.data);
  struct stat about{};
  if (path && stat(path->c_str(), &about) == 0 && !S_ISDIR(about.st_mode)) {
    return base::fail(Code::io_error, *path + " is not a folder; choose another data folder with --data");
  }
  return path;
}

base::Result<std::string> Session::token(const std::string& usual) const {
  if (options_.as.empty()) {
    if (const char* token = std::getenv("SANDGLASS_TOKEN"); token != nullptr && *token != '\0') return token;
  }
  if (!options_.address.empty() && options_.as.empty() && options_.data.empty()) {
    // Whoever listens there gets the token: the one of a folder that nobody named goes to no address.
    return base::fail(Code::unauthenticated,
                      "with --address, say which token to send there: set SANDGLASS_TOKEN, "
                      "or name the data folder with --data");
  }
  const std::string name = options_.as.empty() ? usual : options_.as;
  if (name.find('/') != std::string::npos || name.empty() || name.front() == '.') {
    return base::fail(Code::usage, "--as takes the name of a token, not a path");
  }
  auto path = folder();
  if (!path) return std::unexpected(path.error());
  const std::string file = *path + "/tokens/" + name;
  // The engine may write there; where it has another uid, this command must not be led to other files by it.
  auto text = base::read_whole_file(file, 256, base::Links::refuse);
  if (!text) {
    if (access((*path + "/tokens").c_str(), F_OK) != 0 && errno == ENOENT)
      return std::unexpected(nobody_answers());
    return base::fail(Code::unauthenticated, "there is no readable token " + file +
                                                 "; choose another with --as NAME or set SANDGLASS_TOKEN");
  }
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return text;
}

base::Result<std::unique_ptr<client::Client>> Session::connect(const std::string& usual,
                                                               std::int64_t retry_for_ms) const {
  auto bearer = token(usual);
  if (!bearer) return std::unexpected(bearer.error());
  client::ConnectOptions connect{.address = options_.address, .token = *bearer, .retry_for_ms = retry_for_ms};
  if (options_.address.empty()) {
    auto path = folder();
    if (!path) return std::unexpected(path.error());
    connect.socket = *path + "/run/api.sock";
  }
  return std::make_unique<client::Client>(std::move(connect));
}

base::Result<std::unique_ptr<client::Client>> Session::reach(const std::string& usual) const {
  auto connected = connect(usual, 10'000);
  if (!connected) return connected;
  auto answer = (*connected)->ping(kPingMs);
  if (!answer && answer.error().code == Code::engine_unreachable) {
    // The engine may be away for a moment, but nobody waits ten seconds for one that was never there.
    return std::unexpected(nobody_answers());
  }
  if (!answer && answer.error().code != Code::unavailable) return std::unexpected(answer.error());
  return connected;
}

base::Result<std::unique_ptr<client::Client>> Session::open(const std::string& usual) const {
  auto path = folder();
  const bool exists = path && access((*path + "/format").c_str(), F_OK) == 0;
  if (exists && options_.address.empty() && !engine_answers()) {
    if (auto ready = ensure_engine("", {}); !ready) return std::unexpected(ready.error());
  }
  return reach(usual);
}

base::Status Session::ensure_engine(const std::string& config,
                                    const std::vector<std::string>& settings) const {
  if (engine_answers()) return {};
  if (!options_.address.empty()) return std::unexpected(nobody_answers());
  auto data = folder();
  if (!data) return std::unexpected(data.error());
  if (!json()) {
    std::fprintf(stderr, "%s\n", paint(Colour::dim, "starting the engine on " + safe(*data)).c_str());
  }
  auto launched = launch_server({.data = *data, .config = config, .settings = settings});
  if (launched || launched.error().code != Code::folder_locked) return launched;
  // Somebody else started it at the same moment, or its engine is being restarted: it will answer soon.
  for (int i = 0; i < kStartTries; ++i) {
    if (engine_answers()) return {};
    poll(nullptr, 0, kTryPauseMs);
  }
  return base::fail(Code::engine_unreachable, "a server holds " + *data +
                                                  ", but its engine does not answer yet; try again (" +
                                                  launched.error().message + ")");
}

bool Session::engine_answers() const {
  client::ConnectOptions connect{.address = options_.address};
  if (options_.address.empty()) {
    auto path = folder();
    if (!path) return false;
    connect.socket = *path + "/run/api.sock";
    if (access(connect.socket.c_str(), F_OK) != 0) return false;
  }
  const auto answer = client::Client(std::move(connect)).ping(kPingMs);
  return answer || answer.error().code != Code::engine_unreachable;
}

base::Exit report(const base::Error& error, bool json) {
  const auto number = static_cast<unsigned>(error.code);
  if (json) {
    print_line(error_json(number, base::name_of(error.code), error.message));
  } else {
    std::fprintf(stderr, "sandglass: error %u: %s\n", number, safe_block(error.message, "  ").c_str());
  }
  return base::exit_for(error.code);
}

}  // namespace sandglass::replay_tools::cli
