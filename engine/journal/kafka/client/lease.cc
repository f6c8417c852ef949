#include "engine/journal/kafka/client/lease.h"

#include <array>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/log.h"
#include "engine/journal/kafka/cluster/trouble.h"

namespace sandglass::engine::journal::kafka::client {
namespace {

constexpr std::int64_t kAskEveryMs = 500;
constexpr int kAnswerMs = 5'000;
/// A question to a coordinator that is gone must not end by its own limit: when another coordinator is found
/// afterwards, an assertion of the library ends the program (2.0.2). It ends with its client, before that.
constexpr int kQuestionMs = 12 * kAnswerMs;
constexpr int kListenMs = 100;
constexpr std::int64_t kHeartbeats = 4;  // in a session
constexpr std::string_view kName = "sandglass";

using cluster::Freed;
using AdminOptions = std::unique_ptr<rd_kafka_AdminOptions_t, Freed<rd_kafka_AdminOptions_destroy>>;
using Partitions =
    std::unique_ptr<rd_kafka_topic_partition_list_t, Freed<rd_kafka_topic_partition_list_destroy>>;

bool has_first(const rd_kafka_topic_partition_list_t* list) {
  for (int i = 0; list != nullptr && i < list->cnt; ++i) {
    if (list->elems[i].partition == 0) return true;
  }
  return false;
}

std::string text_of(const char* text) {
  return text == nullptr ? "" : text;
}

bool is_hopeless(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ||
         error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
}

}  // namespace

std::string LeaseHolder::encode() const {
  std::string name(kName);
  for (const std::string* part : {&host, &process, &folder, &blobs, &key, &place}) name += "/" + *part;
  return name;
}

LeaseHolder LeaseHolder::decode(std::string_view name) {
  std::array<std::string, 7> parts;
  for (std::string& part : parts) {
    const std::size_t end = name.find('/');
    part = name.substr(0, end);
    name = end == std::string_view::npos ? std::string_view() : name.substr(end + 1);
  }
  return {.host = parts[1],
          .process = parts[2],
          .folder = parts[3],
          .blobs = parts[4],
          .key = parts[5],
          .place = parts[6]};
}

std::string LeaseHolder::text() const {
  return "the engine on " + host + " (process " + process + ", data folder " + folder + ")";
}

base::Result<std::unique_ptr<Lease>> Lease::open(LeaseOptions options) {
  std::unique_ptr<Lease> lease(new Lease(std::move(options)));
  if (auto made = lease->make_asker(); !made) return std::unexpected(made.error());
  lease->thread_ = std::thread([lease = lease.get()] { lease->work(); });
  return lease;
}

Lease::~Lease() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Lease::Standing Lease::wait(std::int64_t ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(ms), [&] { return change_; });
  change_ = false;
  return standing_;
}

void Lease::take() {
  {
    const std::lock_guard lock(mutex_);
    taking_ = true;
    standing_.state = State::asking;  // what was known before is not looked at again
  }
  wanted_.notify_all();
}

// ---- the thread

void Lease::set(State state, LeaseHolder holder) {
  {
    const std::lock_guard lock(mutex_);
    if (standing_.state == state && standing_.holder.encode() == holder.encode()) return;
    standing_.state = state;
    standing_.holder = std::move(holder);
    change_ = true;
  }
  changed_.notify_all();
}

void Lease::fail(base::Error error) {
  {
    const std::lock_guard lock(mutex_);
    standing_.error = std::move(error);
    change_ = true;
  }
  changed_.notify_all();
}

bool Lease::stopping(std::int64_t wait_ms) {
  std::unique_lock lock(mutex_);
  if (wait_ms > 0)
    wanted_.wait_for(lock, std::chrono::milliseconds(wait_ms), [&] { return stopping_ || taking_; });
  return stopping_;
}

void Lease::work() {
  while (!stopping(member_ ? 0 : kAskEveryMs)) {
    State state = State::asking;
    bool taking = false;
    {
      const std::lock_guard lock(mutex_);
      state = standing_.state;
      taking = taking_;
    }
    if (state == State::lost) continue;
    if (member_) {
      listen();
    } else if (taking) {
      join();
    } else {
      ask();
    }
  }
  leave();
}

base::Status Lease::make_asker() {
  answers_.reset();
  asker_.reset();
  auto conf = cluster::client_conf(options_.settings);
  if (!conf) return std::unexpected(conf.error());
  auto asker = cluster::new_client(RD_KAFKA_PRODUCER, std::move(*conf));
  if (!asker) return std::unexpected(asker.error());
  asker_ = std::move(*asker);
  answers_.reset(rd_kafka_queue_new(asker_.get()));
  return {};
}

/// Who is in the group, as its coordinator says.
void Lease::ask() {
  const AdminOptions admin(rd_kafka_AdminOptions_new(asker_.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS));
  char problem[256];
  rd_kafka_AdminOptions_set_request_timeout(admin.get(), kQuestionMs, problem, sizeof problem);
  const char* groups[] = {options_.group.c_str()};
  rd_kafka_DescribeConsumerGroups(asker_.get(), groups, 1, admin.get(), answers_.get());
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
  while (!stopping(0)) {
    rd_kafka_poll(asker_.get(), 0);
    {
      const cluster::Event event(rd_kafka_queue_poll(answers_.get(), kListenMs));
      if (event) return take_answer(event.get());
    }
    if (std::chrono::steady_clock::now() < until) continue;
    base::log(base::LogLevel::info, "kafka_lease_waits",
              {{"reason", "no answer of the group's coordinator"}});
    if (auto made = make_asker(); !made) fail(made.error());
    return;
  }
}

void Lease::take_answer(const rd_kafka_event_t* event) {
  rd_kafka_event_t* answer = const_cast<rd_kafka_event_t*>(event);
  rd_kafka_resp_err_t error = rd_kafka_event_error(answer);
  const rd_kafka_ConsumerGroupDescription_t* group = nullptr;
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    std::size_t count = 0;
    const auto** described = rd_kafka_DescribeConsumerGroups_result_groups(
        rd_kafka_event_DescribeConsumerGroups_result(answer), &count);
    if (count == 1) group = described[0];
    if (group == nullptr) return;
    if (const auto* refused = rd_kafka_ConsumerGroupDescription_error(group))
      error = rd_kafka_error_code(refused);
  }
  if (is_hopeless(error)) return fail(cluster::error_of(error, "ask who owns group " + options_.group));
  if (error == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND) return join();
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    base::log(base::LogLevel::info, "kafka_lease_waits", {{"reason", rd_kafka_err2str(error)}});
    return;
  }
  std::optional<LeaseHolder> holder;
  for (std::size_t i = 0; i < rd_kafka_ConsumerGroupDescription_member_count(group); ++i) {
    const auto* member = rd_kafka_ConsumerGroupDescription_member(group, i);
    if (text_of(rd_kafka_MemberDescription_group_instance_id(member)) == options_.self.name()) continue;
    const auto* assignment = rd_kafka_MemberDescription_assignment(member);
    const bool first = assignment != nullptr && has_first(rd_kafka_MemberAssignment_partitions(assignment));
    if (first || !holder) holder = LeaseHolder::decode(text_of(rd_kafka_MemberDescription_client_id(member)));
  }
  if (!holder) return join();
  if (is_taking()) return;
  set(State::others, std::move(*holder));
}

void Lease::join() {
  const std::vector<std::pair<const char*, std::string>> settings = {
      {"client.id", options_.self.encode()},
      {"group.id", options_.group},
      {"group.instance.id", options_.self.name()},
      {"partition.assignment.strategy", "range"},
      {"session.timeout.ms", std::to_string(options_.session_ms)},
      {"heartbeat.interval.ms", std::to_string(options_.session_ms / kHeartbeats)},
      {"enable.auto.commit", "false"},
      {"enable.auto.offset.store", "false"},
      {"allow.auto.create.topics", "false"},
      {"reconnect.backoff.ms", "20"},
      {"reconnect.backoff.max.ms", "1000"},
  };
  auto conf = cluster::client_conf(options_.settings);
  if (!conf) return fail(conf.error());
  for (const auto& [name, value] : settings) {
    if (auto status = cluster::set(conf->get(), name, value); !status) return fail(status.error());
  }
  rd_kafka_conf_set_events(conf->get(), RD_KAFKA_EVENT_REBALANCE | RD_KAFKA_EVENT_ERROR);
  auto client = cluster::new_client(RD_KAFKA_CONSUMER, std::move(*conf));
  if (!client) return fail(client.error());
  member_ = std::move(*client);
  rd_kafka_poll_set_consumer(member_.get());
  events_.reset(rd_kafka_queue_get_consumer(member_.get()));
  const Partitions topics(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(topics.get(), options_.topic.c_str(), RD_KAFKA_PARTITION_UA);
  if (const auto error = rd_kafka_subscribe(member_.get(), topics.get());
      error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return fail(cluster::error_of(error, "join group " + options_.group));
  }
  set(State::joining);
}

/// The place in the group stays until the session ends; it is this folder's.
void Lease::leave() {
  events_.reset();
  // Without a last talk to the group: it would wait for somebody to answer a rebalance.
  if (member_) rd_kafka_destroy_flags(member_.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void Lease::listen() {
  const cluster::Event event(rd_kafka_queue_poll(events_.get(), kListenMs));
  if (!event) return;
  if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_REBALANCE) return rebalance(event.get());
  if (rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_ERROR) return;
  const auto error = rd_kafka_event_error(event.get());
  if (error == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_fatal_error(member_.get(), nullptr, 0) != 0)
    return lose(text_of(rd_kafka_event_error_string(event.get())));
  if (is_hopeless(error)) return fail(cluster::error_of(error, "join group " + options_.group));
}

void Lease::rebalance(rd_kafka_event_t* event) {
  if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
    const bool ours = has_first(rd_kafka_event_topic_partition_list(event));
    const Partitions nothing(rd_kafka_topic_partition_list_new(0));
    rd_kafka_assign(member_.get(), nothing.get());  // nothing is read
    return assigned(ours);
  }
  const bool lost = rd_kafka_assignment_lost(member_.get()) != 0;
  rd_kafka_assign(member_.get(), nullptr);
  if (lost)
    return lose("the brokers have heard nothing of it for " + std::to_string(options_.session_ms) + " ms");
  // The group gives its partitions anew because another engine has joined it: one that was told to take over.
  // Whom it gives the first one is decided by names; and who has nothing to write would not meet the fence.
  if (has_it()) lose("another engine has joined its group to take over");
}

bool Lease::is_taking() {
  const std::lock_guard lock(mutex_);
  return taking_;
}

bool Lease::has_it() {
  const std::lock_guard lock(mutex_);
  return standing_.state == State::ours;
}

void Lease::assigned(bool ours) {
  const bool had = has_it();
  bool taking = false;
  {
    const std::lock_guard lock(mutex_);
    taking = taking_ && !ours;
    if (ours) taking_ = false;
  }
  if (ours) return set(State::ours);
  if (had) return lose("another engine has been assigned the journal");
  if (taking) return;  // until the former one's session has ended
  leave();
  set(State::asking);
}

void Lease::lose(const std::string& why) {
  const bool had = has_it();
  {
    const std::lock_guard lock(mutex_);
    taking_ = false;
  }
  leave();
  if (!had) return set(State::asking);
  set(State::lost);
  base::log(base::LogLevel::warning, "kafka_lease_lost", {{"reason", why}});
  if (options_.on_lost)
    options_.on_lost({base::Code::journal_fenced, "the lease of the journal has ended: " + why});
}

}  // namespace sandglass::engine::journal::kafka::client
