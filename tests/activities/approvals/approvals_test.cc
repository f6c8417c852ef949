#include "activities/approvals/approvals.h"

#include "activities/approvals/codec/codec.h"
#include "tests/support/decider_stream.h"

namespace sandglass::activities::approvals {
namespace {

using base::Code;
using tests::received;
using tests::sent;

const core::StreamId kRun = core::StreamId::named(core::StreamKind::run, "r");
const core::ContentDigest kArguments{base::sha256("arguments")};
constexpr std::int64_t kDeadline = 10'000;

struct Approvals : tests::Stream<ApprovalsDecider, codec::ApprovalsCodec> {
  Approvals() { id = approvals_stream(); }

  std::string ask(std::uint32_t level = 2, std::uint32_t approvers = 1, std::string path = "approve#0") {
    core::ApprovalRequested body{.tenant = "t",
                                 .user = "ann",
                                 .tool = "http_request",
                                 .level = level,
                                 .arguments = kArguments,
                                 .expires_ms = kDeadline,
                                 .approvers = approvers};
    EXPECT_TRUE(apply(received(kRun, path, body), 1000));
    return approval_id(kRun, path);
  }
  Code decide(const std::string& approval, bool approve, std::string who = "bob", std::int64_t now = 2000,
              core::ContentDigest arguments = kArguments) {
    const auto decided =
        apply(Decide{.id = approval,
                     .arguments = arguments,
                     .approve = approve,
                     .tenant = "t",
                     .who = std::move(who),
                     .role = "approver",
                     .reason = core::DigestKey().make(core::Encoding::json, R"({"why":"ok"})")},
              now);
    return decided ? Code::ok : decided.error().code;
  }
  ApprovalStatus status(const std::string& approval) const { return state.approvals.at(approval).status; }
};

TEST(Approvals, AnApprovalReachesItsRunWithWhoAndWhy) {
  Approvals stream;
  const std::string id = stream.ask();
  EXPECT_EQ(stream.decide(id, true), Code::ok);
  const auto told = sent<core::ApprovalDecided>(stream.last, kRun);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].code, Code::ok);
  EXPECT_EQ(told[0].arguments, kArguments);
  EXPECT_TRUE(stream.last.messages[0].payload);
  const Verdict& verdict = stream.state.approvals.at(id).verdicts.at(0);
  EXPECT_EQ(verdict.who, "bob");
  EXPECT_EQ(verdict.role, "approver");
  EXPECT_EQ(verdict.at_ms, 2000);
}

TEST(Approvals, ADecisionAboutOtherArgumentsIsRefusedInEveryState) {  // ADV-G7, FR-107, FR-14
  Approvals stream;
  const std::string id = stream.ask();
  const core::ContentDigest other{base::sha256("other")};
  EXPECT_EQ(stream.decide(id, true, "bob", 2000, other), Code::approval_mismatch);
  EXPECT_EQ(stream.status(id), ApprovalStatus::waiting);
  EXPECT_EQ(stream.decide(id, true), Code::ok);
  EXPECT_EQ(stream.decide(id, true, "bob", 2000, other), Code::approval_mismatch);
}

TEST(Approvals, TheFirstDecisionIsFinalAndItsRepeatIsASuccess) {  // FR-108, FR-112, FR-113, ADV-G10
  for (const bool first : {true, false}) {
    Approvals stream;
    const std::string id = stream.ask();
    EXPECT_EQ(stream.decide(id, first), Code::ok);
    const std::uint64_t records = stream.seq;
    EXPECT_EQ(stream.decide(id, first, "carol"), Code::ok);
    EXPECT_TRUE(stream.events().empty());
    EXPECT_TRUE(stream.last.messages.empty());
    EXPECT_EQ(stream.decide(id, !first, "carol"), Code::approval_decided);
    EXPECT_EQ(stream.seq, records + 1);
    EXPECT_EQ(stream.state.approvals.at(id).verdicts.size(), 1U);
  }
}

TEST(Approvals, AConflictNamesWhoDecidedAndHow) {
  Approvals stream;
  const std::string id = stream.ask();
  EXPECT_EQ(stream.decide(id, false, "bob"), Code::ok);
  const auto refused =
      stream.apply(Decide{.id = id, .arguments = kArguments, .approve = true, .who = "carol"}, 3000);
  EXPECT_NE(refused.error().message.find("denied by bob"), std::string::npos) << refused.error().message;
}

TEST(Approvals, TheDeadlineIsPartOfTheDecisionEvenBeforeItsTimerFires) {  // FR-109
  const std::pair<std::int64_t, Code> cases[] = {{kDeadline - 1, Code::ok},
                                                 {kDeadline, Code::approval_expired},
                                                 {kDeadline + 1, Code::approval_expired},
                                                 {kDeadline + 3'600'000, Code::approval_expired}};
  for (const auto& [now, expected] : cases) {
    Approvals stream;
    EXPECT_EQ(stream.decide(stream.ask(), true, "bob", now), expected) << now;
  }
}

TEST(Approvals, NobodyDecidingInTimeIsExpiredAndNotDenied) {  // ADV-G9, FR-121
  Approvals stream;
  const std::string id = stream.ask();
  const core::TimerChange timer = stream.last.timers_started.at(0);
  ASSERT_TRUE(stream.apply(core::TimerFired{timer.key, timer.due_ms}, kDeadline));
  EXPECT_EQ(sent<core::ApprovalDecided>(stream.last, kRun).at(0).code, Code::approval_expired);
  EXPECT_EQ(stream.status(id), ApprovalStatus::expired);
  EXPECT_EQ(stream.decide(id, true, "bob", kDeadline + 5), Code::approval_expired);
  ASSERT_TRUE(stream.apply(core::TimerFired{timer.key, timer.due_ms}, kDeadline + 6));
  EXPECT_TRUE(stream.last.messages.empty());
}

TEST(Approvals, AWithdrawnApprovalCannotBeGivenAndAnUnusedOneLapses) {  // FR-122
  Approvals stream;
  const std::string waiting = stream.ask();
  ASSERT_TRUE(stream.apply(received(kRun, "approve#0", core::ApprovalWithdrawn{}), 1500));
  EXPECT_EQ(stream.decide(waiting, true), Code::approval_withdrawn);
  EXPECT_EQ(stream.status(waiting), ApprovalStatus::withdrawn);
  const std::string unused = stream.ask(2, 1, "approve#1");
  EXPECT_EQ(stream.decide(unused, true), Code::ok);
  ASSERT_TRUE(stream.apply(received(kRun, "approve#1", core::ApprovalWithdrawn{}), 2500));
  EXPECT_EQ(stream.status(unused), ApprovalStatus::lapsed);
}

TEST(Approvals, SeveralApproversMustAllApproveAndOneDenialIsEnough) {  // H1
  Approvals stream;
  const std::string id = stream.ask(2, 2);
  EXPECT_EQ(stream.decide(id, true, "bob"), Code::ok);
  EXPECT_EQ(stream.decide(id, true, "bob"), Code::ok);
  EXPECT_EQ(stream.status(id), ApprovalStatus::waiting) << "one person counts once";
  EXPECT_EQ(stream.decide(id, true, "carol"), Code::ok);
  EXPECT_EQ(stream.status(id), ApprovalStatus::approved);
  const std::string denied = stream.ask(2, 3, "approve#1");
  EXPECT_EQ(stream.decide(denied, true, "bob"), Code::ok);
  EXPECT_EQ(stream.decide(denied, false, "bob"), Code::ok);
  EXPECT_EQ(stream.status(denied), ApprovalStatus::denied);
}

TEST(Approvals, AtLevelThreeSomebodyElseMustApprove) {  // ADV-G10
  Approvals stream;
  const std::string low = stream.ask(2);
  EXPECT_EQ(stream.decide(low, true, "ann"), Code::ok);
  EXPECT_TRUE(stream.state.approvals.at(low).verdicts.at(0).own_request);
  const std::string high = stream.ask(3, 1, "approve#1");
  EXPECT_EQ(stream.decide(high, true, "ann"), Code::permission_denied);
  EXPECT_EQ(stream.decide(high, true, "bob"), Code::ok);
}

TEST(Approvals, AnotherTenantsApprovalIsNotFound) {  // ADV-E30
  Approvals stream;
  const std::string id = stream.ask();
  const auto refused =
      stream.apply(Decide{.id = id, .arguments = kArguments, .approve = true, .tenant = "x"}, 2000);
  EXPECT_EQ(refused.error().code, Code::not_found);
}

TEST(Approvals, ARepeatedQuestionGetsTheAnswerThatWasGiven) {  // O8
  Approvals stream;
  const std::string id = stream.ask();
  stream.ask();
  EXPECT_EQ(stream.state.approvals.size(), 1U);
  EXPECT_TRUE(stream.events().empty());
  EXPECT_EQ(stream.decide(id, false), Code::ok);
  stream.ask();
  EXPECT_EQ(sent<core::ApprovalDecided>(stream.last, kRun).at(0).code, Code::approval_denied);
}

// ADV-E9: the engine's time is 2 h behind, or ahead of, a clock that somebody has set. What a person was told
// counts.
TEST(Approvals, TheDeadlineIsByTheCalendar) {
  for (const std::int64_t off : {7'200'000LL, -7'200'000LL}) {
    Approvals stream;
    stream.calendar_off_ms = off;
    const std::string id = stream.ask();  // asked at 1000, for 9000 ms
    const std::int64_t due = stream.state.approvals.at(id).expires_ms;
    EXPECT_EQ(due, kDeadline + off);
    ASSERT_EQ(stream.last.timers_started.size(), 1U);
    EXPECT_TRUE(core::is_calendar_timer(stream.last.timers_started[0].key));
    EXPECT_EQ(stream.last.timers_started[0].due_ms, due);
    EXPECT_EQ(stream.decide(id, true, "bob", kDeadline - 1), Code::ok);
  }
}

TEST(Approvals, AClockSetForwardExpiresAndSetBackDoesNotReopen) {
  Approvals stream;
  const std::string id = stream.ask();
  const core::TimerChange timer = stream.last.timers_started.at(0);
  stream.calendar_off_ms = 7'200'000;
  EXPECT_EQ(stream.decide(id, true, "bob", 2000), Code::approval_expired);
  ASSERT_TRUE(stream.apply(core::TimerFired{timer.key, timer.due_ms}, 2001));
  stream.calendar_off_ms = 0;
  EXPECT_EQ(stream.decide(id, true, "bob", 2002), Code::approval_expired);
  EXPECT_EQ(stream.status(id), ApprovalStatus::expired);
}

/// A question about an effect of unknown outcome.
struct Questions : Approvals {
  std::string ask_outcome(std::uint32_t level = 2, std::uint32_t attempt = 1) {
    const std::string path = "0/send#0?ask#" + std::to_string(attempt);
    const core::OutcomeAsked body{.tenant = "t",
                                  .user = "ann",
                                  .tool = "http_request",
                                  .level = level,
                                  .path = "0/send#0",
                                  .target = "https://example.org",
                                  .key = "k",
                                  .attempt = attempt,
                                  .code = Code::timed_out,
                                  .sent_ms = 500,
                                  .unknown_ms = 900,
                                  .input = {.seq = 3, .slot = 1, .size = 9, .digest = kArguments}};
    EXPECT_TRUE(apply(received(kRun, path, body), 1000));
    return approval_id(kRun, path);
  }
  Code settle(const std::string& id, core::OutcomeVerdict outcome, std::string who = "bob",
              core::ContentDigest arguments = kArguments) {
    const auto said = apply(Decide{.id = id,
                                   .arguments = arguments,
                                   .tenant = "t",
                                   .who = std::move(who),
                                   .role = "approver",
                                   .outcome = outcome,
                                   .result = core::DigestKey().make(core::Encoding::json, "7")},
                            2000);
    return said ? Code::ok : said.error().code;
  }
};

TEST(Questions, AWordAboutAnOutcomeReachesItsRunOnce) {  // O2
  for (const auto outcome :
       {core::OutcomeVerdict::done, core::OutcomeVerdict::not_done, core::OutcomeVerdict::again}) {
    Questions stream;
    const std::string id = stream.ask_outcome();
    EXPECT_TRUE(stream.last.timers_started.empty()) << "waiting cannot settle it";
    EXPECT_EQ(stream.state.approvals.at(id).doubt->sent_ms, 500);
    EXPECT_EQ(stream.settle(id, outcome), Code::ok);
    const auto told = sent<core::OutcomeDecided>(stream.last, kRun);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0], (core::OutcomeDecided{kArguments, outcome, "bob"}));
    EXPECT_EQ(stream.last.messages[0].payload.slot->bytes, "7");
    EXPECT_EQ(stream.last.messages[0].correlation, "0/send#0?ask#1");
    EXPECT_EQ(stream.status(id), ApprovalStatus::answered);
    EXPECT_EQ(stream.settle(id, outcome, "carol"), Code::ok) << "the same again";
    EXPECT_TRUE(stream.last.messages.empty());
    const auto other =
        outcome == core::OutcomeVerdict::done ? core::OutcomeVerdict::again : core::OutcomeVerdict::done;
    EXPECT_EQ(stream.settle(id, other, "carol"), Code::approval_decided);
  }
}

TEST(Questions, AYesIsNoAnswerToAQuestionNorAnOutcomeToAnApproval) {
  Questions stream;
  const std::string question = stream.ask_outcome();
  const std::string approval = stream.ask();
  EXPECT_EQ(stream.decide(question, true), Code::invalid_argument);
  EXPECT_EQ(stream.settle(approval, core::OutcomeVerdict::done), Code::invalid_argument);
  EXPECT_EQ(stream.status(question), ApprovalStatus::waiting);
  EXPECT_EQ(stream.status(approval), ApprovalStatus::waiting);
}

TEST(Questions, TheSameChecksHoldAsForApprovals) {  // ADV-G7, ADV-G10, ADV-E30
  Questions stream;
  const std::string id = stream.ask_outcome(3);
  EXPECT_EQ(stream.settle(id, core::OutcomeVerdict::done, "bob", {base::sha256("other")}),
            Code::approval_mismatch);
  EXPECT_EQ(stream.settle(id, core::OutcomeVerdict::again, "ann"), Code::permission_denied);
  EXPECT_EQ(
      stream
          .apply(
              Decide{.id = id, .arguments = kArguments, .tenant = "x", .outcome = core::OutcomeVerdict::done},
              2000)
          .error()
          .code,
      Code::not_found);
  EXPECT_EQ(stream.settle(id, core::OutcomeVerdict::again, "bob"), Code::ok);
  const std::string next = stream.ask_outcome(3, 2);
  EXPECT_NE(next, id) << "the next attempt is another question";
  ASSERT_TRUE(stream.apply(received(kRun, "0/send#0?ask#2", core::ApprovalWithdrawn{}), 3000));
  EXPECT_EQ(stream.settle(next, core::OutcomeVerdict::done), Code::approval_withdrawn);
}

TEST(Approvals, OnlyTheLastEndedOnesStayInTheState) {
  Approvals stream;
  for (std::size_t i = 0; i < kEndedKept + 5; ++i) {
    const std::string id = stream.ask(2, 1, std::to_string(i));
    EXPECT_EQ(stream.decide(id, true), Code::ok);
    if (i % 100 != 0) stream.last = {};
  }
  EXPECT_EQ(stream.state.approvals.size(), kEndedKept);
  EXPECT_EQ(stream.decide(approval_id(kRun, "0"), true), Code::not_found);
}

}  // namespace
}  // namespace sandglass::activities::approvals
