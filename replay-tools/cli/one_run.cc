#include "replay-tools/cli/one_run.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/core/stream_id.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;

constexpr std::string_view kKind = "run-";
constexpr std::size_t kFewestDigits = 4;
constexpr std::size_t kDigits = 32;

std::string with_kind(const std::string& text) {
  return text.starts_with(kKind) ? text : std::string(kKind) + text;
}

bool is_beginning(const std::string& id) {
  const std::string_view digits = std::string_view(id).substr(kKind.size());
  return digits.size() >= kFewestDigits && digits.size() <= kDigits &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

bool may_name(const std::string& text, const std::string& run_id) {
  const std::string id = with_kind(text);
  return is_beginning(id) && run_id.starts_with(id);
}

base::Result<std::string> find_run(client::Client& client, const std::string& text) {
  const std::string id = with_kind(text);
  if (engine::core::StreamId::parse(id)) return id;
  if (!is_beginning(id)) {
    return base::fail(Code::usage,
                      "a run id has the form run-<32 hex digits>, of which the first four or more "
                      "are enough; `sandglass list` has them");
  }
  api::ListRunsRequest request;
  request.set_id_prefix(id);
  std::vector<std::string> found;
  do {
    const auto page = client.list_runs(request);
    if (!page) return std::unexpected(page.error());
    for (const auto& run : page->runs()) found.push_back(run.run_id());
    request.set_page_token(page->next_page_token());
  } while (found.size() < 2 && !request.page_token().empty());
  if (found.empty()) {
    return base::fail(Code::not_found,
                      "no run that this token may see begins with " + id + "; `sandglass list` has the ids");
  }
  if (found.size() == 1) return found.front();
  std::string some;
  for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 3); ++i) some += " " + found[i];
  return base::fail(Code::usage, "several runs begin with " + id + ":" + some + "; give more of its digits");
}

base::Result<OneRun> open_run(const Session& session, const std::string& text) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  auto id = find_run(**client, text);
  if (!id) return std::unexpected(id.error());
  return OneRun{std::move(*client), std::move(*id)};
}

}  // namespace sandglass::replay_tools::cli
