// token create, revoke, list. A token is made here, sent as its hash only, and printed once.
#include <cstdio>

#include "engine/base/data_folder.h"
#include "engine/base/hash.h"
#include "engine/base/system_ports.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

Outcome token_create(Session& session, const TokenArgs& args) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  std::string bytes(32, '\0');
  base::SystemRandom().fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
  const std::string token = "sgt_" + engine::base::to_hex(bytes);
  api::CreateTokenRequest request;
  request.set_request_id(client::new_request_id());
  request.set_name(args.name);
  request.set_tenant(args.tenant);
  request.set_user(args.user);
  for (const auto& role : args.roles) request.add_roles(role);
  request.set_token_hash(std::string(engine::base::sha256(token).view()));
  const auto created = (*client)->create_token(request);
  if (!created) return std::unexpected(created.error());
  // Printed once, nowhere else: whoever made it decides where it lives.
  if (session.json()) {
    print_line(to_json({{"name", args.name}, {"token", token}}));
  } else {
    print_line(token);
    std::fprintf(stderr, "%s\n",
                 paint(Colour::dim,
                       "shown this once; use it as SANDGLASS_TOKEN, or keep it in a file of the data folder, "
                       "tokens/" +
                           safe(args.name) + ", for --as " + safe(args.name))
                     .c_str());
  }
  return base::Exit::ok;
}

Outcome token_revoke(Session& session, const TokenArgs& args) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  api::RevokeTokenRequest request;
  request.set_request_id(client::new_request_id());
  request.set_name(args.name);
  const auto revoked = (*client)->revoke_token(request);
  if (!revoked) return std::unexpected(revoked.error());
  print_line(session.json() ? to_json({{"name", args.name}, {"result", "revoked"}})
                            : "revoked " + safe(args.name));
  return base::Exit::ok;
}

Outcome token_list(Session& session, const TokenArgs&) {
  auto client = session.open("operator");
  if (!client) return std::unexpected(client.error());
  const auto tokens = (*client)->list_tokens();
  if (!tokens) return std::unexpected(tokens.error());
  if (session.json()) {
    print_line(to_json(*tokens));
    return base::Exit::ok;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "TENANT", "USER", "ROLES", "CREATED", "REVOKED"}};
  for (const auto& token : tokens->tokens()) {
    std::string roles;
    for (const auto& role : token.roles()) roles += (roles.empty() ? "" : ",") + role;
    rows.push_back({token.name(), token.tenant(), token.user(), roles, show_time(token.created_ms()),
                    show_time(token.revoked_ms())});
  }
  print_table(rows);
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
