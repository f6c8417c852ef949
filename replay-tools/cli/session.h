// One invocation of the command line: which data folder, which token, whether an engine answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/exit_code.h"
#include "engine/base/result.h"
#include "engine/client/client.h"

namespace sandglass::replay_tools::cli {

namespace base = engine::base;
namespace client = engine::client;
namespace api = ::sandglass::v1;

using Outcome = base::Result<base::Exit>;

/// What every command takes.
struct Global {
  std::string data;     // --data
  std::string as;       // --as NAME
  std::string address;  // --address
  bool json = false;
};

/// Thread rule: one thread.
class Session {
 public:
  explicit Session(Global options) : options_(std::move(options)) {}

  const Global& options() const { return options_; }
  bool json() const { return options_.json; }
  /// A command to show to a person, which works when it is pasted: with the --data and --address given here.
  std::string hint(const std::string& rest) const;
  /// Path of the data folder, absolute.
  base::Result<std::string> folder() const;

  /// A client with the token of --as NAME, else of $SANDGLASS_TOKEN, else of `usual` (a file in the data
  /// folder's `tokens`; with --address only of a folder that --data names). Does not call anybody yet.
  base::Result<std::unique_ptr<client::Client>> connect(const std::string& usual,
                                                        std::int64_t retry_for_ms = 0) const;
  /// As above, and somebody must answer now (engine_unreachable).
  base::Result<std::unique_ptr<client::Client>> reach(const std::string& usual) const;

  /// As above, but a data folder that exists gets its engine started (it ends itself when it is idle).
  base::Result<std::unique_ptr<client::Client>> open(const std::string& usual) const;

  /// Whether a client of this data folder gets any answer.
  bool engine_answers() const;
  /// Somebody answers when this returns ok: an engine that runs, or one that was started here with these.
  base::Status ensure_engine(const std::string& config, const std::vector<std::string>& settings) const;

 private:
  base::Result<std::string> token(const std::string& usual) const;
  /// engine_unreachable: what to do about it, where this command looked.
  base::Error nobody_answers() const;
  Global options_;
};

/// As a word of a shell command that a person pastes.
std::string shell_word(const std::string& text);

/// "1404" error on standard error, or as JSON; gives the exit code.
base::Exit report(const base::Error& error, bool json);

}  // namespace sandglass::replay_tools::cli
