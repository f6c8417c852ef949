// take-over: an engine that stands by is told to take over from the one that serves.
#include "engine/base/take_over.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "engine/base/data_folder.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;
using Steady = std::chrono::steady_clock;

constexpr auto kWithin = std::chrono::seconds(60);
constexpr int kLookEveryMs = 100;

Outcome serves(const Session& session, const std::string& since) {
  print_line(session.json() ? to_json({{"serves", since}}) : "it serves " + since);
  return base::Exit::ok;
}

/// Follows how an engine that was told to take over stands, by what it answers.
class Told {
 public:
  explicit Told(std::string order) : order_(std::move(order)) {}

  /// True: it had begun to take over, and stands by again.
  bool lost(const std::string& answer) {
    if (::access(order_.c_str(), F_OK) == 0) return false;
    takes_ = takes_ || answer.starts_with(base::kTakesOver);
    return takes_ && answer.starts_with(base::kStandsBy);
  }

 private:
  const std::string order_;
  bool takes_ = false;
};

}  // namespace

Outcome take_over(Session& session) {
  if (!session.options().address.empty()) {
    return base::fail(Code::usage,
                      "an engine is told so in its data folder: name that with --data, on its machine");
  }
  auto path = session.folder();
  if (!path) return std::unexpected(path.error());
  auto folder = base::DataFolder::open_read_only(*path);
  if (!folder) return std::unexpected(folder.error());
  if (!session.engine_answers()) {
    return base::fail(Code::engine_unreachable,
                      "no engine stands by with " + *path +
                          "; one that is started with --set kafka.take_over=true takes over at once");
  }
  auto client = session.connect("operator");
  if (!client) return std::unexpected(client.error());
  auto status = (*client)->status(false);
  if (status) return serves(session, "already");
  if (status.error().code != Code::unavailable) return std::unexpected(status.error());
  const std::string order = folder->file(base::kTakeOverOrder);
  if (auto left = base::write_whole_file(order, ""); !left) return std::unexpected(left.error());
  const auto until = Steady::now() + kWithin;
  Told told(order);
  while (!status && Steady::now() < until) {
    ::poll(nullptr, 0, kLookEveryMs);
    status = (*client)->status(false);
    if (!status && told.lost(status.error().message)) {
      return base::fail(Code::unavailable,
                        "another engine has taken over meanwhile: " + status.error().message);
    }
  }
  if (status) return serves(session, "now");
  const bool obeyed = ::unlink(order.c_str()) != 0;
  return base::fail(Code::timed_out, "the engine of " + *path + " does not serve yet, after " +
                                         std::to_string(kWithin.count()) + " s: " + status.error().message +
                                         (obeyed ? "; it goes on trying, and its log says what it waits for"
                                                 : "; it has not heard the order, which is withdrawn"));
}

}  // namespace sandglass::replay_tools::cli
