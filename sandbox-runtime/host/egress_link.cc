#include "sandbox-runtime/host/egress_link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "engine/base/log.h"
#include "engine/base/socket_path.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;
using engine::base::fail;
using engine::base::log;
using engine::base::LogLevel;
using engine::base::Status;
using engine::base::UniqueFd;

namespace {
constexpr std::int64_t kRetryMs = 200;
constexpr std::int64_t kAnswerMs = 3'000;
}  // namespace

EgressLink::EgressLink(frames::Loop& loop, std::string socket_path, OnVerdict on_verdict)
    : loop_(loop), path_(std::move(socket_path)), on_verdict_(std::move(on_verdict)) {
  if (!path_.empty()) connect();
}

EgressLink::~EgressLink() {
  loop_.unwatch(watch_);
  loop_.cancel(retry_);
  for (auto& [id, waiting] : waiting_) loop_.cancel(waiting.timer);
}

void EgressLink::connect() {
  retry_ = 0;
  const auto address = engine::base::SocketPath::make(path_);
  socket_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!address || !socket_ || ::connect(socket_.get(), address->address(), address->size()) != 0) {
    socket_.reset();
    return retry();
  }
  reader_ = frames::FrameReader();
  writer_ = frames::FrameWriter();
  stuck_ = false;
  watch_ = loop_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
  for (const auto& [id, known] : known_) announce(known, [](Status) {});
}

void EgressLink::retry() {
  if (retry_ == 0) retry_ = loop_.after(kRetryMs, [this] { connect(); });
}

/// The connection is over; whoever waits for an answer gets what holds without a proxy: nothing passes.
void EgressLink::drop(const std::string& why) {
  log(LogLevel::warning, "egress_lost", {{"reason", why}});
  loop_.unwatch(watch_);
  watch_ = 0;
  socket_.reset();
  std::vector<std::uint64_t> ids;
  for (const auto& [id, waiting] : waiting_) ids.push_back(id);
  for (const std::uint64_t id : ids) answer(id, {});
  retry();
}

void EgressLink::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if (!socket_ || (events & ~EPOLLOUT) == 0) return;
  auto io = reader_.fill(socket_.get());
  if (!io) return drop(io.error().message);
  if (*io == frames::Io::closed) return drop("it closed the connection");
  while (socket_) {
    auto frame = reader_.next();
    if (!frame) return drop(frame.error().message);
    if (!*frame) return;
    frame::v1::EgressMessage message;
    if (!message.ParseFromArray((*frame)->data(), static_cast<int>((*frame)->size()))) {
      return drop("it sent a malformed message");
    }
    on_message(message);
  }
}

void EgressLink::on_message(const frame::v1::EgressMessage& message) {
  if (message.has_verdict()) on_verdict_(message.verdict());
  if (!message.has_reply()) return;
  const auto& reply = message.reply();
  answer(reply.id(), reply.code() == 0 ? Status{} : fail(static_cast<Code>(reply.code()), reply.message()));
}

void EgressLink::answer(std::uint64_t id, Status status) {
  auto found = waiting_.extract(id);
  if (!found) return;
  loop_.cancel(found.mapped().timer);
  found.mapped().done(std::move(status));
}

void EgressLink::flush() {
  auto out = writer_.flush(socket_.get());
  if (!out) return drop(out.error().message);
  if (stuck_ == !*out) return;
  stuck_ = !*out;
  loop_.change(watch_, EPOLLIN | (stuck_ ? static_cast<std::uint32_t>(EPOLLOUT) : 0u));
}

void EgressLink::request(frame::v1::EgressRequest request, int descriptor, Done done,
                         bool lives_without_proxy) {
  const std::uint64_t id = ++last_id_;
  request.set_id(id);
  if (!socket_) return done({});
  const frames::Loop::TimerId timer = loop_.after(kAnswerMs, [this, id, lives_without_proxy] {
    answer(id, lives_without_proxy ? Status{} : fail(Code::unavailable, "the proxy does not answer"));
  });
  waiting_[id] = Waiting{std::move(done), timer, !lives_without_proxy};
  const std::string bytes = request.SerializeAsString();
  const Status status = descriptor < 0 ? writer_.push(bytes) : writer_.push(bytes, {descriptor});
  if (!status) return drop(status.error().message);
  flush();
}

void EgressLink::announce(const Known& known, Done done) {
  frame::v1::EgressRequest add;
  add.mutable_add_listener()->set_sandbox(known.lease.sandbox);
  request(std::move(add), known.listener.get(), [](Status) {}, true);
  frame::v1::EgressRequest begin;
  auto& lease = *begin.mutable_begin_lease();
  lease.set_sandbox(known.lease.sandbox);
  lease.set_token(known.lease.token);
  lease.set_run(known.lease.run);
  for (const auto& rule : known.lease.allow) *lease.add_rules() = rule;
  request(std::move(begin), -1, std::move(done), false);
}

void EgressLink::begin(EgressLease lease, UniqueFd listener, Done done) {
  if (path_.empty())
    return done(fail(Code::unavailable, "this host has no proxy; the template asks for a network"));
  const std::string id = lease.sandbox;
  Known& known = known_[id];
  known = Known{std::move(lease), std::move(listener)};
  announce(known, std::move(done));
}

void EgressLink::change(const std::string& sandbox, std::uint64_t token, Done done) {
  const auto found = known_.find(sandbox);
  if (found == known_.end()) return done({});
  found->second.lease = {.sandbox = sandbox, .token = token, .run = {}, .allow = {}};
  frame::v1::EgressRequest begin;
  begin.mutable_begin_lease()->set_sandbox(sandbox);
  begin.mutable_begin_lease()->set_token(token);
  request(std::move(begin), -1, std::move(done), false);
}

void EgressLink::allow(const std::string& sandbox, std::vector<frame::v1::AllowRule> rules, Done done) {
  const auto found = known_.find(sandbox);
  if (found == known_.end())
    return done(fail(Code::invalid_argument,
                     "the sandbox's template has no network; use the template network or network-rootless"));
  found->second.lease.allow = std::move(rules);
  frame::v1::EgressRequest set;
  set.mutable_set_rules()->set_sandbox(sandbox);
  set.mutable_set_rules()->set_token(found->second.lease.token);
  for (const auto& rule : found->second.lease.allow) *set.mutable_set_rules()->add_rules() = rule;
  request(std::move(set), -1, std::move(done), false);
}

void EgressLink::end(const std::string& sandbox, Done done) {
  const auto found = known_.find(sandbox);
  if (found == known_.end()) return done({});
  frame::v1::EgressRequest end;
  end.mutable_end_lease()->set_sandbox(sandbox);
  end.mutable_end_lease()->set_token(found->second.lease.token);
  known_.erase(found);
  request(std::move(end), -1, [](Status) {}, true);
  frame::v1::EgressRequest remove;
  remove.mutable_remove_listener()->set_sandbox(sandbox);
  request(std::move(remove), -1, std::move(done), true);
}

}  // namespace sandglass::sandbox_runtime::host
