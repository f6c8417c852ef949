#include "sandbox-runtime/host/host.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "engine/base/socket_path.h"
#include "sandbox-runtime/host/convert.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;
using engine::base::fail;
using engine::base::log;
using engine::base::LogLevel;
using engine::base::Status;
using engine::base::UniqueFd;

namespace {
constexpr std::int64_t kBeatMs = 1'000;
constexpr std::int64_t kPatienceMs = 10'000;
constexpr std::size_t kMaxConnections = 16;
constexpr std::size_t kMaxFrame = std::size_t{4} << 20;
constexpr std::size_t kMaxQueued = std::size_t{64} << 20;
}  // namespace

Host::Host(frames::Loop& loop, engine::base::TaskRunner& pool, provider::Launcher& launcher,
           HostOptions options)
    : loop_(loop),
      pool_(pool),
      launcher_(launcher),
      options_(std::move(options)),
      egress_(loop, options_.egress_socket, [this](const frame::v1::NetworkVerdict& verdict) {
        frame::v1::HostMessage message;
        *message.mutable_verdict() = verdict;
        announce(std::move(message));
      }) {}

Host::~Host() {
  for (auto& [number, connection] : connections_) {
    loop_.unwatch(connection.watch);
    loop_.cancel(connection.patience);
  }
  loop_.unwatch(listener_watch_);
  for (frames::Loop::TimerId timer : {beat_timer_, grace_timer_}) loop_.cancel(timer);
  if (listener_) ::unlink(options_.socket_path.c_str());
}

Status Host::start() {
  auto records = RecordFiles::open(options_.record_folder);
  if (!records) return std::unexpected(records.error());
  records_ = std::move(*records);
  if (auto status = adopt(); !status) return status;
  if (auto status = listen(); !status) return status;
  arm_grace();
  return {};
}

/// Sandboxes that still live are taken over with their record; anything without one, and records without a
/// sandbox, are ended.
Status Host::adopt() {
  auto held = launcher_.adopt();
  if (!held) return std::unexpected(held.error());
  std::map<std::string, frame::v1::HostSandboxRecord> records;
  for (auto& record : records_->all()) records[record.create().id()] = std::move(record);
  for (provider::Launched& launched : *held) {
    const std::string id = launched.id;
    auto record = records.extract(id);
    auto spec = record
                    ? spec_of(record.mapped().create())
                    : engine::base::Result<provider::SandboxSpec>(fail(Code::not_found, "it has no record"));
    if (!spec || record.mapped().create().id() != id) {
      log(LogLevel::warning, "sandbox_not_adopted", {{"sandbox", id}});
      launched = {};
      (void)launcher_.destroy(id);
      continue;
    }
    log(LogLevel::info, "sandbox_adopted", {{"sandbox", id}});
    make(record.mapped(), std::move(*spec))->adopt(std::move(launched));
    SG_CRASH_POINT("host.adopted");
  }
  for (const auto& [id, record] : records) {
    (void)launcher_.destroy(id);
    records_->forget(id);
  }
  auto swept = launcher_.sweep();
  if (!swept) log(LogLevel::error, "sweep_failed", {{"reason", swept.error().message}});
  if (swept && !swept->empty()) log(LogLevel::info, "swept", {{"count", swept->size()}});
  return {};
}

Status Host::listen() {
  const auto address = engine::base::SocketPath::make(options_.socket_path);
  if (!address) return std::unexpected(address.error());
  ::unlink(options_.socket_path.c_str());
  listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const mode_t mask = umask(0177);
  const bool bound = listener_ && bind(listener_.get(), address->address(), address->size()) == 0;
  const int error = errno;
  umask(mask);
  if (!bound) return fail(Code::address_in_use, options_.socket_path + ": " + std::strerror(error));
  const bool given = options_.engine_uid == geteuid() ||
                     lchown(options_.socket_path.c_str(), options_.engine_uid, static_cast<gid_t>(-1)) == 0;
  if (!given || ::listen(listener_.get(), 8) != 0) {
    return fail(Code::io_error, options_.socket_path + ": " + std::strerror(errno));
  }
  listener_watch_ = loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
  return {};
}

void Host::accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != options_.engine_uid && peer.uid != geteuid() && peer.uid != 0)) {
    log(LogLevel::warning, "caller_refused", {{"uid", peer.uid}});
    return;
  }
  // whoever does not say hello takes the place of nobody
  if (connections_.size() >= kMaxConnections) {
    const auto idle =
        std::ranges::find_if(connections_, [&](const auto& item) { return item.first != engine_; });
    close_connection(idle->first, "too many connections");
  }
  const std::uint64_t number = ++last_connection_;
  EngineConnection& connection = connections_[number];
  connection.number = number;
  connection.socket = std::move(socket);
  connection.reader = frames::FrameReader(kMaxFrame);
  connection.writer = frames::FrameWriter(kMaxFrame, kMaxQueued);
  connection.watch = loop_.watch(connection.socket.get(), EPOLLIN,
                                 [this, number](std::uint32_t events) { on_ready(number, events); });
  connection.patience =
      loop_.after(kPatienceMs, [this, number] { close_connection(number, "it said no hello"); });
}

EngineConnection* Host::find_connection(std::uint64_t number) {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : &found->second;
}

void Host::close_connection(std::uint64_t number, const std::string& why) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  loop_.unwatch(found->second.watch);
  loop_.cancel(found->second.patience);
  connections_.erase(found);
  if (number != engine_) {
    log(LogLevel::warning, "caller_dropped", {{"reason", why}});
    return;
  }
  log(LogLevel::info, "engine_disconnected", {{"reason", why}});
  engine_ = 0;
  call_sandbox_.clear();
  for (const auto& [id, sandbox] : sandboxes_) sandbox->forget_calls();
  arm_grace();
}

void Host::hello(const frame::v1::HostHello& hello, CallRef call) {
  if (hello.version() != 1)
    return close_connection(call.connection, "it speaks another version of the protocol");
  if (engine_ != call.connection) {
    if (engine_ != 0) close_connection(engine_, "another engine has connected");
    engine_ = call.connection;
    loop_.cancel(std::exchange(grace_timer_, 0));
    loop_.cancel(std::exchange(beat_timer_, 0));
    beat();
  }
  frame::v1::HostMessage message;
  message.mutable_welcome()->set_version(1);
  message.mutable_welcome()->set_provider("namespace");
  message.mutable_welcome()->set_rootless(geteuid() != 0);
  send(call, std::move(message));
}

/// Without an engine, sandboxes live on for a while only.
void Host::arm_grace() {
  loop_.cancel(grace_timer_);
  grace_timer_ = loop_.after(options_.grace_ms, [this] {
    grace_timer_ = 0;
    shut_down("no engine came back in time");
  });
}

void Host::shut_down(const std::string& why) {
  if (shutting_down_) return;
  shutting_down_ = true;
  log(LogLevel::info, "shutting_down", {{"reason", why}, {"sandboxes", sandboxes_.size()}});
  loop_.unwatch(std::exchange(listener_watch_, 0));
  const auto all = sandboxes_;
  for (const auto& [id, sandbox] : all) sandbox->end({Code::sandbox_lost, why}, {});
  if (sandboxes_.empty()) loop_.stop();
}

void Host::on_ready(std::uint64_t number, std::uint32_t events) {
  EngineConnection* connection = find_connection(number);
  if (connection != nullptr && (events & EPOLLOUT) != 0) flush(*connection);
  if ((events & ~EPOLLOUT) != 0) read_frames(number);
}

void Host::read_frames(std::uint64_t number) {
  EngineConnection* connection = find_connection(number);
  if (connection == nullptr) return;
  auto io = connection->reader.fill(connection->socket.get());
  if (!io) return close_connection(number, io.error().message);
  if (*io == frames::Io::closed) return close_connection(number, "it closed the connection");
  // each request may end the connection
  while ((connection = find_connection(number)) != nullptr) {
    auto frame = connection->reader.next();
    if (!frame) return close_connection(number, frame.error().message);
    if (!*frame) break;
    frame::v1::HostRequest request;
    if (!request.ParseFromArray((*frame)->data(), static_cast<int>((*frame)->size())) ||
        request.body_case() == frame::v1::HostRequest::BODY_NOT_SET) {
      return close_connection(number, "it sent a malformed message");
    }
    dispatch(request, {number, request.call()});
  }
  if (connection == nullptr || number != engine_) return;
  loop_.cancel(std::exchange(connection->patience, 0));
  if (!connection->reader.partial()) return;
  connection->patience =
      loop_.after(kPatienceMs, [this, number] { close_connection(number, "it did not finish a frame"); });
}

void Host::send(CallRef call, frame::v1::HostMessage message) {
  EngineConnection* connection = find_connection(call.connection);
  if (connection == nullptr) return;
  message.set_call(call.call);
  if (auto status = connection->writer.push(message.SerializeAsString()); !status) {
    // from within a sandbox's work: the connection goes once that is done
    loop_.post(
        [this, number = call.connection, why = status.error().message] { close_connection(number, why); });
    return;
  }
  flush(*connection);
}

void Host::announce(frame::v1::HostMessage message) {
  if (engine_ != 0) send({engine_, 0}, std::move(message));
}

void Host::flush(EngineConnection& connection) {
  auto out = connection.writer.flush(connection.socket.get());
  // a peer that has gone is noticed when it is read from
  const bool stuck = out && !*out;
  if (stuck == connection.stuck) return;
  connection.stuck = stuck;
  loop_.change(connection.watch, EPOLLIN | (stuck ? static_cast<std::uint32_t>(EPOLLOUT) : 0u));
}

void Host::beat() {
  frame::v1::HostMessage message;
  message.mutable_beat();
  announce(std::move(message));
  beat_timer_ = engine_ != 0 ? loop_.after(kBeatMs, [this] { beat(); }) : 0;
}

}  // namespace sandglass::sandbox_runtime::host
