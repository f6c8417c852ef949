#include "replay-tools/replay/describer.h"

#include "replay-tools/replay/fields.h"
#include "replay-tools/replay/proto_describer.h"

namespace sandglass::replay_tools::replay {

namespace core = engine::core;
namespace run = engine::run;

std::string text_of(core::FailureSide value) {
  return value == core::FailureSide::user ? "user" : "platform";
}

std::string text_of(core::Outcome value) {
  switch (value) {
    case core::Outcome::done:
      return "done";
    case core::Outcome::not_done:
      return "not done";
    case core::Outcome::unknown:
      return "unknown";
  }
  return "?";
}

std::string text_of(run::ExchangeKind value) {
  switch (value) {
    case run::ExchangeKind::other:
      return "other";
    case run::ExchangeKind::lease:
      return "lease";
    case run::ExchangeKind::approval:
      return "approval";
  }
  return "?";
}

std::string text_of(const core::PayloadRef& value) {
  if (value.empty()) return "";
  return "record " + std::to_string(value.seq) + " slot " + std::to_string(value.slot) + ", " +
         std::to_string(value.size) + " bytes";
}

Described describe(const core::MessageBody& body) {
  return std::visit([](const auto& each) { return described(each); }, body);
}

std::string describe(const core::Action& action) {
  static constexpr const char* kNames[] = {"start", "cancel", "effect", "reserve"};
  std::string text = kNames[static_cast<std::size_t>(action.kind)];
  text += " " + action.name + " " + action.path + " attempt " + std::to_string(action.token.attempt);
  if (action.not_before_ms > 0) text += " not before " + std::to_string(action.not_before_ms);
  return text;
}

std::vector<DescribedEvent> BareDescriber::events(const core::EventBatch& batch) const {
  std::vector<DescribedEvent> described;
  for (const auto& event : kind_->encode(batch)) {
    described.push_back({.what = {.name = "event " + std::to_string(event.type),
                                  .fields = {{"bytes", std::to_string(event.body.size())}}},
                         .marks = {}});
  }
  return described;
}

Facts BareDescriber::state(const core::StreamState& state) const {
  return {{"bytes", std::to_string(kind_->encode_state(state).size())}};
}

void Kinds::add(std::shared_ptr<const engine::fold::AnyKind> kind,
                std::unique_ptr<const Describer> describer) {
  Entry& entry = entries_[static_cast<std::size_t>(kind->kind())];
  entry.describer = describer ? std::move(describer) : describer_for(kind);
  entry.kind = std::move(kind);
}

const engine::fold::AnyKind* Kinds::kind(core::StreamKind kind) const {
  return entries_[static_cast<std::size_t>(kind)].kind.get();
}

const Describer* Kinds::describer(core::StreamKind kind) const {
  return entries_[static_cast<std::size_t>(kind)].describer.get();
}

}  // namespace sandglass::replay_tools::replay
