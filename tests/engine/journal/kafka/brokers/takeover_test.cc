// Takeovers on a real broker, with readers from outside watching (J25, J27).
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "engine/base/check.h"
#include "engine/base/crash_point.h"
#include "engine/base/draw.h"
#include "tests/engine/journal/kafka/brokers/kafka_store.h"
#include "tests/engine/journal/kafka/brokers/topic_readers.h"
#include "tests/support/program.h"
#include "tests/support/seeded_random.h"

namespace sandglass::engine::journal::kafka {
namespace {

const std::string& bootstrap() {
  return KafkaStore::bootstrap();
}

using Acknowledged = std::map<core::Sequence, base::Hash256>;

/// Everything acknowledged is in the history that all see, with the same hash.
void check_history(const TopicReaders& readers, const Acknowledged& acknowledged) {
  ASSERT_GE(readers.everything().size(), readers.published().size());
  for (std::size_t i = 0; i < readers.published().size(); ++i)
    ASSERT_EQ(readers.published()[i], readers.everything()[i]);
  for (const auto& [sequence, chain] : acknowledged) {
    ASSERT_LE(sequence, readers.published().size()) << "an acknowledged record is lost";
    ASSERT_EQ(readers.published()[sequence - 1], chain) << "sequence " << sequence;
  }
}

/// kafka_writer as a child.
class WriterProcess {
 public:
  WriterProcess(const std::string& topic, const std::string& folder, const std::string& crash_at = {}) {
    int fds[2];
    SG_CHECK(pipe2(fds, O_CLOEXEC) == 0, "pipe");
    child_ = fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(fds[1], STDOUT_FILENO);
      if (!crash_at.empty()) setenv("SANDGLASS_CRASH_AT", crash_at.c_str(), 1);
      const std::string program = tests::support::program_path("kafka_writer");
      execl(program.c_str(), program.c_str(), bootstrap().c_str(), topic.c_str(), folder.c_str(), nullptr);
      _exit(127);
    }
    ::close(fds[1]);
    said_ = fdopen(fds[0], "r");
  }
  ~WriterProcess() {
    if (child_ > 0) end();
    std::fclose(said_);
  }
  WriterProcess(const WriterProcess&) = delete;
  WriterProcess& operator=(const WriterProcess&) = delete;

  /// One line; false: it has ended.
  bool listen() {
    char line[4096];
    if (std::fgets(line, sizeof line, said_) == nullptr) return false;
    char hash[128];
    unsigned long long sequence = 0;
    if (std::sscanf(line, "ack %llu %127s", &sequence, hash) == 2) {
      acknowledged_[sequence] = *base::Hash256::from_hex(hash);
    } else {
      last_ = line;
    }
    return true;
  }
  void listen_for(std::size_t acknowledged) {
    while (acknowledged_.size() < acknowledged && listen()) {
    }
  }
  void signal(int number) { ::kill(child_, number); }
  /// Kills it and hears the rest.
  void end() {
    signal(SIGKILL);
    wait();
  }
  int wait() {
    while (listen()) {
    }
    int status = 0;
    SG_CHECK(waitpid(child_, &status, 0) == child_, "waitpid");
    child_ = -1;
    return status;
  }
  const Acknowledged& acknowledged() const { return acknowledged_; }
  const std::string& last() const { return last_; }  // what it said that is no acknowledgement

 private:
  pid_t child_ = -1;
  FILE* said_ = nullptr;
  Acknowledged acknowledged_;
  std::string last_;
};

TEST(KafkaTakeovers, AStandbyHasAppliedEverythingAndTakesOver) {
  const std::string topic = make_test_topic(bootstrap());
  Node first(bootstrap(), topic);
  Node second(bootstrap(), topic);
  const auto owner = first.journal();
  const auto standby = second.journal();
  Writer writer(0, *owner->own(0));
  standby->stand_by(0);
  for (int i = 0; i < 50; ++i) owner->submit(writer.batch(4));
  wait_for(*owner, 50);
  while (standby->standing(0).head.sequence < writer.at().last_sequence) {
    ASSERT_FALSE(standby->standing(0).error) << standby->standing(0).error->message;
    std::this_thread::yield();
  }
  EXPECT_EQ(standby->standing(0).head.chain, writer.at().chain);
  const auto owned = standby->own(0);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_EQ(owned->last_sequence, writer.at().last_sequence + 1);
  EXPECT_EQ(owned->epoch, 2u);
  owner->submit(writer.batch(1));
  EXPECT_EQ(wait_for(*owner, 1).front().completion, Completion::fenced);
}

TEST(KafkaTakeovers, ReadersSeeOneHistoryThroughManyTakeoversWithRecordsInFlight) {
  const int takeovers = std::getenv("SANDGLASS_LONG") != nullptr ? 50 : 15;
  const std::string topic = make_test_topic(bootstrap());
  tests::support::SeededRandom random(5);
  TopicReaders readers(bootstrap(), topic);
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<KafkaJournal>> journals(3);
  for (std::size_t i = 0; i < journals.size(); ++i)
    nodes.push_back(std::make_unique<Node>(bootstrap(), topic));
  Acknowledged acknowledged;
  core::Sequence last = 0;
  for (int round = 0; round < takeovers; ++round) {
    const auto number = static_cast<std::size_t>(round) % journals.size();
    journals[number].reset();  // the one that was fenced two rounds ago
    if (base::draw_chance(random, 300)) nodes[number]->reopen();
    journals[number] = nodes[number]->journal();
    const auto owned = journals[number]->own(0);
    ASSERT_TRUE(owned) << owned.error().message;
    ASSERT_GT(owned->last_sequence, last);
    Writer writer(0, *owned);
    std::map<Ticket, std::pair<core::Sequence, base::Hash256>> under_way;
    const std::uint64_t batches = 5 + base::draw_below(random, 200);
    for (std::uint64_t i = 0; i < batches; ++i) {
      Batch batch = writer.batch(1 + i % 3, 200);
      const core::OrderLink link = batch.records.back().link;
      under_way.emplace(journals[number]->submit(std::move(batch)), std::pair(link.sequence, link.chain));
    }
    // The next takes over while some of these are under way.
    std::vector<Completed> completed;
    const std::size_t enough = base::draw_below(random, batches);
    while (completed.size() < enough) {
      journals[number]->poll(completed);
      readers.poll();
    }
    for (const Completed& each : completed) {
      ASSERT_EQ(each.completion, Completion::durable) << each.message;
      const auto& [sequence, chain] = under_way.at(each.ticket);
      acknowledged[sequence] = chain;
      last = sequence;
    }
    ASSERT_FALSE(HasFatalFailure());
  }
  Node node(bootstrap(), topic);
  const auto journal = node.journal();
  const auto owned = journal->own(0);
  ASSERT_TRUE(owned) << owned.error().message;
  readers.wait_for(owned->last_sequence);
  check_history(readers, acknowledged);
  EXPECT_GT(readers.skipped(), 0) << "nothing was published again: no takeover met records in flight";
}

// FR-99: readers of what is committed see nothing behind a transaction that another producer holds open.
TEST(KafkaTakeovers, ATransactionThatHangsInTheTopicIsNamed) {
  const std::string topic = make_test_topic(bootstrap());
  const base::UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  auto client = client::KafkaClient::open(
      {.settings = {.bootstrap = bootstrap()}, .topic = topic, .journal_id = topic + "-of-another"});
  ASSERT_TRUE(client) << client.error().message;
  auto hanging = (*client)->broker(0, event.get());
  ASSERT_TRUE(hanging) << hanging.error().message;
  std::vector<BrokerEvent> events;
  const auto wait_until_it_says = [&](BrokerEvent::What wanted) {
    while (true) {
      events.clear();
      (*hanging)->poll(events);
      for (const BrokerEvent& each : events) {
        if (each.what == wanted) return;
        ASSERT_NE(each.what, BrokerEvent::What::failed) << each.why;
      }
      std::this_thread::yield();
    }
  };
  (*hanging)->init();
  wait_until_it_says(BrokerEvent::What::initialised);
  ASSERT_TRUE((*hanging)->begin());
  ASSERT_EQ((*hanging)->produce(encode_filler(topic + "-of-another"), 0), Taken::yes);
  wait_until_it_says(BrokerEvent::What::delivered);

  Node node(bootstrap(), topic);
  {
    const auto journal = node.journal({.published_deadline_ms = 1'000});
    const auto owned = journal->own(0);
    ASSERT_FALSE(owned);
    EXPECT_EQ(owned.error().code, base::Code::timed_out) << owned.error().message;
    for (const char* said :
         {"a transaction of another producer hangs", "our fence at offset", "find-hanging"})
      EXPECT_NE(owned.error().message.find(said), std::string::npos) << owned.error().message;
  }
  hanging->reset();  // its transaction ends with its producer's id
  auto again = (*client)->broker(0, event.get());
  ASSERT_TRUE(again) << again.error().message;
  hanging = std::move(again);
  (*hanging)->init();
  wait_until_it_says(BrokerEvent::What::initialised);
  const auto owned = node.journal()->own(0);
  EXPECT_TRUE(owned) << owned.error().message;
}

// FR-97, FR-104: a rival with the same id is told from a failure, and ends the owner.
TEST(KafkaTakeovers, AStoppedOwnerStepsDownWithItsNextProduceAndNothingOfItIsSeen) {
  const std::string topic = make_test_topic(bootstrap());
  tests::support::TempFolder folder;
  TopicReaders readers(bootstrap(), topic);
  Acknowledged acknowledged;
  for (int round = 0; round < 3; ++round) {
    WriterProcess stopped(topic, folder.file("stopped" + std::to_string(round)));
    stopped.listen_for(200);
    ASSERT_EQ(stopped.acknowledged().size(), 200u) << stopped.last();
    stopped.signal(SIGSTOP);
    Node node(bootstrap(), topic);
    const auto journal = node.journal();
    const auto owned = journal->own(0);
    ASSERT_TRUE(owned) << owned.error().message;
    Writer writer(0, *owned);
    journal->submit(writer.batch(3));
    EXPECT_EQ(wait_for(*journal, 1).front().completion, Completion::durable);
    acknowledged[writer.at().last_sequence] = writer.at().chain;
    stopped.signal(SIGCONT);
    stopped.wait();
    EXPECT_TRUE(stopped.last().starts_with("fenced")) << stopped.last();
    for (const auto& [sequence, chain] : stopped.acknowledged()) {
      EXPECT_LT(sequence, owned->last_sequence) << "acknowledged after its successor's barrier";
      acknowledged[sequence] = chain;
    }
    journal->submit(writer.batch(3));
    EXPECT_EQ(wait_for(*journal, 1).front().completion, Completion::durable);
  }
  Node node(bootstrap(), topic);
  const auto journal = node.journal();
  const auto owned = journal->own(0);
  ASSERT_TRUE(owned) << owned.error().message;
  readers.wait_for(owned->last_sequence);
  check_history(readers, acknowledged);
}

TEST(KafkaTakeovers, AKillAtEveryStageIsAnsweredByTheSameProcedure) {
  const std::string topic = make_test_topic(bootstrap());
  tests::support::TempFolder folder;
  TopicReaders readers(bootstrap(), topic);
  Acknowledged acknowledged;
  const auto let_write = [&](const std::string& crash_at, std::size_t enough) {
    WriterProcess writer(topic, folder.file("view"), crash_at);
    writer.listen_for(enough);
    if (crash_at.empty()) writer.signal(SIGKILL);
    const int status = writer.wait();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << crash_at << ": " << writer.last();
    for (const auto& [sequence, chain] : writer.acknowledged()) acknowledged[sequence] = chain;
    readers.poll();
  };
  int points = 0;
  const int running = std::getenv("SANDGLASS_LONG") != nullptr ? 3 : 1;
  let_write("", 50);
  for (const std::string_view point : base::crash_points()) {
    if (!point.starts_with("kafka.")) continue;
    ++points;
    for (int again = 0; again < running; ++again) let_write(std::string(point), ~0ULL);
    let_write("", 50);
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_GE(points, 11);
  Node node(bootstrap(), topic);
  const auto journal = node.journal();
  const auto owned = journal->own(0);
  ASSERT_TRUE(owned) << owned.error().message;
  readers.wait_for(owned->last_sequence);
  check_history(readers, acknowledged);
}

}  // namespace
}  // namespace sandglass::engine::journal::kafka
