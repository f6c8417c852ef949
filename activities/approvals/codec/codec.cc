#include "activities/approvals/codec/codec.h"

#include "engine/codec/common.h"
#include "schemas/sandglass/record/v1/approvals.pb.h"

namespace sandglass::activities::approvals::codec {

namespace {

namespace pb = ::sandglass::record::v1;
using Event = ApprovalsDecider::Event;

// Event types; stored, never used again.
constexpr std::uint32_t kAsked = 1;
constexpr std::uint32_t kVerdictGiven = 2;
constexpr std::uint32_t kEnded = 3;

std::unexpected<base::Error> damaged(std::string_view what) {
  return base::fail(base::Code::record_damaged,
                    "bytes of the approvals stream do not parse: " + std::string(what));
}

bool is_status(std::uint32_t value) {
  return value >= 1 && value <= 7;
}

/// ApprovalAsked and the state's Approval have these in common.
template <class From>
void asked_to_proto(const std::string& id, const From& from, pb::ApprovalAsked& out) {
  out.set_id(id);
  out.set_run(from.run.bytes());
  out.set_correlation(from.correlation);
  out.set_tenant(from.tenant);
  out.set_user(from.user);
  out.set_tool(from.tool);
  out.set_level(from.level);
  out.set_arguments(engine::codec::hash_bytes(from.arguments.hash));
  engine::codec::to_proto(from.request, *out.mutable_request());
  out.set_approvers(from.approvers);
  out.set_expires_ms(from.expires_ms);
  if (!from.doubt) return;
  auto& doubt = *out.mutable_doubt();
  doubt.set_path(from.doubt->path);
  doubt.set_target(from.doubt->target);
  doubt.set_key(from.doubt->key);
  doubt.set_attempt(from.doubt->attempt);
  doubt.set_code(static_cast<std::uint32_t>(from.doubt->code));
  doubt.set_sent_ms(from.doubt->sent_ms);
  doubt.set_unknown_ms(from.doubt->unknown_ms);
  engine::codec::to_proto(from.doubt->input, *doubt.mutable_input());
}

template <class To>
base::Result<To> asked_from_proto(const pb::ApprovalAsked& in) {
  const auto run = engine::codec::stream_from(in.run());
  const auto arguments = engine::codec::hash_from(in.arguments());
  auto request = engine::codec::from_proto(in.request());
  if (!run || !arguments || !request) return damaged("ApprovalAsked");
  To out;
  out.run = *run;
  out.correlation = in.correlation();
  out.tenant = in.tenant();
  out.user = in.user();
  out.tool = in.tool();
  out.level = in.level();
  out.arguments = {*arguments};
  out.request = *request;
  out.approvers = in.approvers();
  out.expires_ms = in.expires_ms();
  if (in.has_doubt()) {
    const auto input = engine::codec::from_proto(in.doubt().input());
    if (!input) return damaged("ApprovalAsked");
    out.doubt = Doubt{.path = in.doubt().path(),
                      .target = in.doubt().target(),
                      .key = in.doubt().key(),
                      .attempt = in.doubt().attempt(),
                      .code = static_cast<base::Code>(in.doubt().code()),
                      .sent_ms = in.doubt().sent_ms(),
                      .unknown_ms = in.doubt().unknown_ms(),
                      .input = *input};
  }
  return out;
}

void to_proto(const Verdict& verdict, pb::ApprovalVerdict& out) {
  out.set_approve(verdict.approve);
  out.set_who(verdict.who);
  out.set_role(verdict.role);
  out.set_at_ms(verdict.at_ms);
  out.set_own_request(verdict.own_request);
  engine::codec::to_proto(verdict.reason, *out.mutable_reason());
  if (verdict.outcome) out.set_outcome(static_cast<std::uint32_t>(*verdict.outcome) + 1);
}

base::Result<Verdict> from_proto(const pb::ApprovalVerdict& in) {
  const auto reason = engine::codec::from_proto(in.reason());
  if (!reason) return damaged("a verdict's reason");
  std::optional<core::OutcomeVerdict> outcome;
  if (in.outcome() > static_cast<std::uint32_t>(core::OutcomeVerdict::again) + 1) return damaged("a verdict");
  if (in.outcome() != 0) outcome = static_cast<core::OutcomeVerdict>(in.outcome() - 1);
  return Verdict{.approve = in.approve(),
                 .who = in.who(),
                 .role = in.role(),
                 .at_ms = in.at_ms(),
                 .own_request = in.own_request(),
                 .reason = *reason,
                 .outcome = outcome};
}

struct Encode {
  fold::EncodedEvent operator()(const ApprovalAsked& event) const {
    pb::ApprovalAsked out;
    asked_to_proto(event.id, event, out);
    return {.type = kAsked, .body = out.SerializeAsString()};
  }
  fold::EncodedEvent operator()(const VerdictGiven& event) const {
    pb::VerdictGiven out;
    out.set_id(event.id);
    to_proto(event.verdict, *out.mutable_verdict());
    return {.type = kVerdictGiven, .body = out.SerializeAsString()};
  }
  fold::EncodedEvent operator()(const ApprovalEnded& event) const {
    pb::ApprovalEnded out;
    out.set_id(event.id);
    out.set_status(static_cast<std::uint32_t>(event.status));
    return {.type = kEnded, .body = out.SerializeAsString()};
  }
};

base::Result<Event> decode_asked(const std::string& body) {
  pb::ApprovalAsked in;
  if (!in.ParseFromString(body)) return damaged("ApprovalAsked");
  auto asked = asked_from_proto<ApprovalAsked>(in);
  if (!asked) return std::unexpected(asked.error());
  asked->id = in.id();
  return *std::move(asked);
}

base::Result<Event> decode_verdict(const std::string& body) {
  pb::VerdictGiven in;
  if (!in.ParseFromString(body)) return damaged("VerdictGiven");
  auto verdict = from_proto(in.verdict());
  if (!verdict) return std::unexpected(verdict.error());
  return VerdictGiven{in.id(), *std::move(verdict)};
}

base::Result<Event> decode_ended(const std::string& body) {
  pb::ApprovalEnded in;
  if (!in.ParseFromString(body) || !is_status(in.status())) return damaged("ApprovalEnded");
  return ApprovalEnded{in.id(), static_cast<ApprovalStatus>(in.status())};
}

}  // namespace

fold::EncodedEvent ApprovalsCodec::encode(const Event& event) {
  return std::visit(Encode{}, event);
}

base::Result<Event> ApprovalsCodec::decode(const fold::EncodedEvent& encoded) {
  if (encoded.version == 1) {
    if (encoded.type == kAsked) return decode_asked(encoded.body);
    if (encoded.type == kVerdictGiven) return decode_verdict(encoded.body);
    if (encoded.type == kEnded) return decode_ended(encoded.body);
  }
  return base::fail(base::Code::event_unknown, "approvals event type " + std::to_string(encoded.type) +
                                                   " version " + std::to_string(encoded.version) +
                                                   " is newer than this program; start a newer Sandglass");
}

std::string ApprovalsCodec::encode_state(const ApprovalsState& state) {
  pb::ApprovalsState out;
  for (const auto& [id, approval] : state.approvals) {
    auto& item = *out.add_approvals();
    asked_to_proto(id, approval, *item.mutable_asked());
    item.set_asked_ms(approval.asked_ms);
    item.set_status(static_cast<std::uint32_t>(approval.status));
    item.set_ended_ms(approval.ended_ms);
    for (const Verdict& verdict : approval.verdicts) to_proto(verdict, *item.add_verdicts());
  }
  for (const std::string& id : state.ended) out.add_ended(id);
  return out.SerializeAsString();
}

base::Result<ApprovalsState> ApprovalsCodec::decode_state(std::string_view bytes) {
  pb::ApprovalsState in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return damaged("the state");
  ApprovalsState state;
  for (const auto& item : in.approvals()) {
    auto approval = asked_from_proto<Approval>(item.asked());
    if (!approval) return std::unexpected(approval.error());
    if (!is_status(item.status())) return damaged("an approval's status");
    approval->asked_ms = item.asked_ms();
    approval->status = static_cast<ApprovalStatus>(item.status());
    approval->ended_ms = item.ended_ms();
    for (const auto& word : item.verdicts()) {
      auto verdict = from_proto(word);
      if (!verdict) return std::unexpected(verdict.error());
      approval->verdicts.push_back(*std::move(verdict));
    }
    state.approvals[item.asked().id()] = *std::move(approval);
  }
  state.ended.assign(in.ended().begin(), in.ended().end());
  return state;
}

std::shared_ptr<const fold::AnyKind> make_approvals_kind() {
  return std::make_shared<
      fold::Kind<core::StreamKind::approvals, false, ApprovalsDecider, ApprovalsCodec, fold::NoView>>();
}

}  // namespace sandglass::activities::approvals::codec
