#include "engine/server/compose/first_start.h"

#include <unistd.h>

#include <future>
#include <memory>
#include <utility>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/identity/access.h"
#include "engine/identity/decider.h"

namespace sandglass::engine::server::compose {

namespace {

using base::Code;
using identity::Role;

struct FirstToken {
  const char* name;
  identity::Roles roles;
};
// No token is both operator and approver: who starts a run does not decide what it may do.
constexpr FirstToken kFirstTokens[] = {{"operator", Role::admin | Role::operator_},
                                       {"approver", static_cast<identity::Roles>(Role::approver)},
                                       {"auditor", static_cast<identity::Roles>(Role::auditor)}};

/// The token in the file, made if there is none.
base::Result<std::string> token_in_file(const std::string& path, base::Random& random) {
  if (access(path.c_str(), F_OK) == 0) {
    auto text = base::read_whole_file(path, 256);
    if (!text) return text;
    while (!text->empty() && text->back() == '\n') text->pop_back();
    if (identity::token_hash(*text)) return text;
    return base::fail(Code::record_damaged,
                      "the token file " + path + " does not hold a token; remove it and start again");
  }
  std::string bytes(identity::kTokenBytes, '\0');
  random.fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  std::string text = identity::token_text(bytes);
  if (auto written = base::write_whole_file(path, text + "\n"); !written)
    return std::unexpected(written.error());
  SG_CRASH_POINT("first_start.token_file_written");
  return text;
}

base::Result<std::shared_ptr<const identity::State>> read_identities(Loop& loop) {
  std::promise<base::Result<shard::StreamRead>> promise;
  auto answer = promise.get_future();
  loop.read(identity::identity_stream(),
            [&promise](base::Result<shard::StreamRead> read) { promise.set_value(std::move(read)); });
  auto read = answer.get();
  if (!read) return std::unexpected(read.error());
  if (read->head == 0) return std::make_shared<const identity::State>();
  const auto& state = static_cast<const core::StateOf<identity::State>&>(*read->state).value;
  return std::shared_ptr<const identity::State>(std::move(read->state), &state);
}

base::Status create(Loop& loop, identity::Token token) {
  std::promise<base::Status> promise;
  auto answer = promise.get_future();
  loop.submit({.target = identity::identity_stream(),
               .command = core::make_command<identity::Command>(identity::CreateToken{std::move(token), ""}),
               .on_reply = [&promise](base::Result<shard::Reply> reply) {
                 promise.set_value(reply ? base::Status() : std::unexpected(reply.error()));
               }});
  return answer.get();
}

}  // namespace

base::Status ensure_first_tokens(Loop& loop, const base::DataFolder& folder, base::Random& random) {
  auto known = read_identities(loop);
  if (!known) return std::unexpected(known.error());
  for (const auto& first : kFirstTokens) {
    if ((*known)->tokens.contains(first.name)) continue;
    auto text = token_in_file(folder.token_file(first.name), random);
    if (!text) return std::unexpected(text.error());
    auto created = create(loop, {.name = first.name,
                                 .tenant = std::string(identity::kHomeTenant),
                                 .user = first.name,
                                 .roles = first.roles,
                                 .hash = *identity::token_hash(*text)});
    if (!created) return created;
    base::log(base::LogLevel::info, "token_made", {{"name", first.name}});
  }
  return {};
}

void refresh_identities(Loop& loop, api::Gate& gate, std::move_only_function<void(base::Status)> then) {
  loop.read(identity::identity_stream(),
            [&gate, then = std::move(then)](base::Result<shard::StreamRead> read) mutable {
              if (!read) return then(std::unexpected(read.error()));
              if (read->head != 0) {
                const auto& state = static_cast<const core::StateOf<identity::State>&>(*read->state).value;
                gate.set_identities(std::shared_ptr<const identity::State>(std::move(read->state), &state));
              }
              then({});
            });
}

}  // namespace sandglass::engine::server::compose
