#include "replay-tools/replay/proto_describer.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "replay-tools/replay/run_describer.h"

namespace sandglass::replay_tools::replay {

namespace core = engine::core;
namespace pb = google::protobuf;

namespace {

/// An empty message of that name; null if it is not linked in.
std::unique_ptr<pb::Message> make(const std::string& name) {
  const auto* descriptor =
      pb::DescriptorPool::generated_pool()->FindMessageTypeByName("sandglass.record.v1." + name);
  if (descriptor == nullptr) return nullptr;
  return std::unique_ptr<pb::Message>(
      pb::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
}

std::string bytes_text(const std::string& value) {
  const auto stream = core::StreamId::from_bytes(value);
  if (stream && core::name_of(stream->kind) != "unknown") return stream->text();  // else it is as long as one
  if (value.size() == 32 || !engine::base::is_utf8(value)) return engine::base::to_hex(value);
  return value;
}

/// One value of a field; `index` -1: the field is not repeated.
std::string scalar_text(const pb::Message& message, const pb::FieldDescriptor* field, int index) {
  const pb::Reflection& reflection = *message.GetReflection();
  const bool one = index < 0;
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING: {
      const std::string value =
          one ? reflection.GetString(message, field) : reflection.GetRepeatedString(message, field, index);
      return field->type() == pb::FieldDescriptor::TYPE_BYTES ? bytes_text(value) : value;
    }
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return std::to_string(one ? reflection.GetUInt32(message, field)
                                : reflection.GetRepeatedUInt32(message, field, index));
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return std::to_string(one ? reflection.GetUInt64(message, field)
                                : reflection.GetRepeatedUInt64(message, field, index));
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return std::to_string(one ? reflection.GetInt64(message, field)
                                : reflection.GetRepeatedInt64(message, field, index));
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return (one ? reflection.GetBool(message, field) : reflection.GetRepeatedBool(message, field, index))
                 ? "true"
                 : "false";
    default:
      return "(" + std::string(field->cpp_type_name()) + ")";
  }
}

/// Times and codes as people know them; other values as they are.
std::string field_text(const pb::Message& message, const pb::FieldDescriptor* field, int index) {
  const std::string text = scalar_text(message, field, index);
  const bool is_code = field->name() == "code" || field->name() == "end_code";
  if (!is_code || field->cpp_type() != pb::FieldDescriptor::CPPTYPE_UINT32) return text;
  return std::string(engine::base::name_of(static_cast<engine::base::Code>(std::stoul(text))));
}

void add_message(Facts& facts, const std::string& prefix, const pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);  // those that are set, in the order of their numbers
  for (const pb::FieldDescriptor* field : fields) {
    const bool is_message = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
    const std::string path = prefix + std::string(field->name());
    if (!field->is_repeated()) {
      if (is_message) {
        add_message(facts, path + "/", reflection.GetMessage(message, field));
      } else {
        facts.push_back({path, field_text(message, field, -1)});
      }
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      const std::string place = path + "/" + std::to_string(i);
      if (is_message) {
        add_message(facts, place + "/", reflection.GetRepeatedMessage(message, field, i));
      } else {
        facts.push_back({place, field_text(message, field, i)});
      }
    }
  }
}

}  // namespace

std::vector<DescribedEvent> ProtoDescriber::events(const core::EventBatch& batch) const {
  std::vector<DescribedEvent> made = BareDescriber(kind_).events(batch);
  const auto encoded = kind_->encode(batch);
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const auto name = events_.find(encoded[i].type);
    if (name == events_.end()) continue;
    made[i].what.name = name->second;
    const auto message = make(name->second);
    if (message == nullptr || !message->ParseFromString(encoded[i].body)) continue;
    made[i].what.fields.clear();
    add_message(made[i].what.fields, "", *message);
  }
  return made;
}

Facts ProtoDescriber::state(const core::StreamState& state) const {
  const auto message = make(state_);
  if (message == nullptr || !message->ParseFromString(kind_->encode_state(state)))
    return BareDescriber(kind_).state(state);
  Facts facts;
  add_message(facts, "", *message);
  return facts;
}

std::unique_ptr<const Describer> describer_for(std::shared_ptr<const engine::fold::AnyKind> kind) {
  using Names = std::map<std::uint32_t, std::string>;
  switch (kind->kind()) {
    case core::StreamKind::run:
      return std::make_unique<RunDescriber>();
    case core::StreamKind::approvals:
      return std::make_unique<ProtoDescriber>(
          kind, Names{{1, "ApprovalAsked"}, {2, "VerdictGiven"}, {3, "ApprovalEnded"}}, "ApprovalsState");
    case core::StreamKind::identity:
      return std::make_unique<ProtoDescriber>(kind, Names{{1, "TokenCreated"}, {2, "TokenRevoked"}},
                                              "IdentityState");
    case core::StreamKind::refusals:
      return std::make_unique<ProtoDescriber>(kind, Names{{1, "RefusalNoted"}}, "RefusalsState");
    case core::StreamKind::partition:
      return std::make_unique<ProtoDescriber>(kind, Names{{1, "DeliveriesSettled"}}, "DeliveriesSettled");
    case core::StreamKind::admission:
      return std::make_unique<ProtoDescriber>(kind,
                                              Names{{1, "AdmissionConfigured"},
                                                    {2, "ClaimQueued"},
                                                    {3, "ClaimRefused"},
                                                    {4, "ClaimReserved"},
                                                    {5, "ReservationCalledBack"},
                                                    {6, "ReservationReleased"}},
                                              "AdmissionState");
    case core::StreamKind::pool:
      return std::make_unique<ProtoDescriber>(kind,
                                              Names{{1, "PoolConfigured"},
                                                    {2, "SandboxCreating"},
                                                    {3, "SandboxUnwanted"},
                                                    {4, "SandboxLeased"},
                                                    {5, "LeaseAsked"},
                                                    {6, "LeaseRenewed"},
                                                    {7, "RenewalSettled"},
                                                    {8, "SandboxDestroying"},
                                                    {9, "DestroyFailed"},
                                                    {10, "DestroyStarted"},
                                                    {11, "SandboxGone"}},
                                              "PoolState");
    case core::StreamKind::schedule:
      return std::make_unique<ProtoDescriber>(kind,
                                              Names{{1, "ScheduleCreated"},
                                                    {2, "ScheduleUpdated"},
                                                    {3, "SchedulePaused"},
                                                    {4, "ScheduleResumed"},
                                                    {5, "ScheduleDeleted"},
                                                    {6, "WakeSet"},
                                                    {7, "PlanAsked"},
                                                    {8, "PlanTaken"},
                                                    {9, "PlanFailed"},
                                                    {10, "MomentsSkipped"},
                                                    {11, "Fired"},
                                                    {12, "BackfillAsked"},
                                                    {13, "ScheduledRunStarted"},
                                                    {14, "ScheduledRunLost"},
                                                    {15, "ScheduledRunStopped"},
                                                    {16, "ScheduledRunEnded"}},
                                              "ScheduleState");
    default:
      return std::make_unique<BareDescriber>(kind);
  }
}

}  // namespace sandglass::replay_tools::replay
