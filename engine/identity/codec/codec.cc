#include "engine/identity/codec/codec.h"

#include "schemas/sandglass/record/v1/identity.pb.h"

namespace sandglass::engine::identity::codec {

namespace {

namespace pb = ::sandglass::record::v1;

// Event types; stored, never used again.
constexpr std::uint32_t kTokenCreated = 1;
constexpr std::uint32_t kTokenRevoked = 2;

std::string serialize(const google::protobuf::MessageLite& message) {
  return message.SerializeAsString();
}

std::unexpected<base::Error> damaged(std::string_view what) {
  return base::fail(base::Code::record_damaged,
                    "bytes of the identity stream do not parse: " + std::string(what));
}

pb::TokenCreated to_proto(const Token& token, const std::string& by) {
  pb::TokenCreated proto;
  proto.set_name(token.name);
  proto.set_tenant(token.tenant);
  proto.set_user(token.user);
  proto.set_roles(token.roles);
  proto.set_hash(std::string(token.hash.view()));
  proto.set_by(by);
  return proto;
}

base::Result<Token> from_proto(const pb::TokenCreated& proto) {
  const auto hash = base::Hash256::from_bytes(proto.hash());
  if (!hash) return damaged("a token's hash");
  return Token{.name = proto.name(),
               .tenant = proto.tenant(),
               .user = proto.user(),
               .roles = proto.roles(),
               .hash = *hash};
}

}  // namespace

fold::EncodedEvent IdentityCodec::encode(const Event& event) {
  if (const auto* created = std::get_if<TokenCreated>(&event)) {
    return {.type = kTokenCreated, .version = 1, .body = serialize(to_proto(created->token, created->by))};
  }
  const auto& revoked = std::get<TokenRevoked>(event);
  pb::TokenRevoked proto;
  proto.set_name(revoked.name);
  proto.set_by(revoked.by);
  return {.type = kTokenRevoked, .version = 1, .body = serialize(proto)};
}

base::Result<Event> IdentityCodec::decode(const fold::EncodedEvent& encoded) {
  if (encoded.type == kTokenCreated && encoded.version == 1) {
    pb::TokenCreated proto;
    if (!proto.ParseFromString(encoded.body)) return damaged("TokenCreated");
    auto token = from_proto(proto);
    if (!token) return std::unexpected(token.error());
    return Event(TokenCreated{std::move(*token), proto.by()});
  }
  if (encoded.type == kTokenRevoked && encoded.version == 1) {
    pb::TokenRevoked proto;
    if (!proto.ParseFromString(encoded.body)) return damaged("TokenRevoked");
    return Event(TokenRevoked{proto.name(), proto.by()});
  }
  return base::fail(base::Code::event_unknown, "identity event type " + std::to_string(encoded.type) +
                                                   " version " + std::to_string(encoded.version) +
                                                   " is newer than this program; start a newer Sandglass");
}

std::string IdentityCodec::encode_state(const State& state) {
  pb::IdentityState proto;
  for (const auto& [name, token] : state.tokens) {
    auto& entry = *proto.add_tokens();
    *entry.mutable_created() = to_proto(token, "");
    entry.set_created_ms(token.created_ms);
    entry.set_revoked_ms(token.revoked_ms);
  }
  return serialize(proto);
}

base::Result<State> IdentityCodec::decode_state(std::string_view bytes) {
  pb::IdentityState proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return damaged("the state");
  State state;
  for (const auto& entry : proto.tokens()) {
    auto token = from_proto(entry.created());
    if (!token) return std::unexpected(token.error());
    token->created_ms = entry.created_ms();
    token->revoked_ms = entry.revoked_ms();
    state.tokens.insert_or_assign(token->name, std::move(*token));
  }
  return state;
}

}  // namespace sandglass::engine::identity::codec
