// Every event of every kind of the product is shown with its name; an event that is new in a codec and
// forgotten in describer_for() would be shown bare.
#include "replay-tools/replay/describer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "activities/approvals/codec/codec.h"
#include "engine/identity/codec/codec.h"
#include "engine/identity/decider.h"
#include "replay-tools/replay/proto_describer.h"
#include "sandbox-runtime/scheduler/codec/codec.h"

namespace sandglass::replay_tools::replay {
namespace {

namespace core = engine::core;
namespace fold = engine::fold;
namespace approvals = activities::approvals;
namespace scheduler = sandbox_runtime::scheduler;

template <class Variant>
struct AllOf;
template <class... Each>
struct AllOf<std::variant<Each...>> {
  static core::Events<std::variant<Each...>> events() {
    core::Events<std::variant<Each...>> batch;
    (batch.items.push_back(Each{}), ...);
    return batch;
  }
};

template <class Decider>
void expect_all_named(std::shared_ptr<const fold::AnyKind> kind) {
  const auto describer = describer_for(kind);
  for (const DescribedEvent& event : describer->events(AllOf<typename Decider::Event>::events())) {
    EXPECT_FALSE(event.what.name.starts_with("event "))
        << event.what.name << " of " << core::name_of(kind->kind());
  }
  const Facts state = describer->state(core::StateOf<typename Decider::State>{});
  EXPECT_TRUE(state.empty() || state[0].path != "bytes") << "a state is shown bare";
}

TEST(Describers, NameEveryEventOfEveryKind) {
  expect_all_named<approvals::ApprovalsDecider>(approvals::codec::make_approvals_kind());
  expect_all_named<scheduler::AdmissionDecider>(scheduler::codec::make_admission_kind());
  expect_all_named<scheduler::PoolDecider>(scheduler::codec::make_pool_kind());
  expect_all_named<engine::identity::Decider>(std::make_shared<engine::identity::codec::IdentityKind>());
}

TEST(Describers, ShowFieldsByNameAndStreamsAndCodesAsPeopleKnowThem) {
  const core::StreamId run = core::StreamId::named(core::StreamKind::run, "a");
  core::Events<approvals::ApprovalsDecider::Event> batch;
  // As long as a stream's id, and none.
  const std::string correlation = "0/open.approval#0";
  batch.items.push_back(approvals::ApprovalAsked{
      .id = "x", .run = run, .correlation = correlation, .tool = "http", .level = 3});
  const auto shown = describer_for(approvals::codec::make_approvals_kind())->events(batch);
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].what.name, "ApprovalAsked");
  const auto value = [&](std::string_view path) {
    const auto found = std::ranges::find(shown[0].what.fields, path, &Fact::path);
    return found == shown[0].what.fields.end() ? std::string() : found->value;
  };
  EXPECT_EQ(value("run"), run.text());
  EXPECT_EQ(value("correlation"), correlation);
  EXPECT_EQ(value("tool"), "http");
  EXPECT_EQ(value("level"), "3");
}

}  // namespace
}  // namespace sandglass::replay_tools::replay
