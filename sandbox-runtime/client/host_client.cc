#include "sandbox-runtime/client/host_client.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <thread>

#include "engine/base/log.h"
#include "engine/base/socket_path.h"
#include "engine/base/system_ports.h"
#include "sandbox-runtime/client/call.h"
#include "sandbox-runtime/frames/frame.h"
#include "sandbox-runtime/frames/loop.h"

namespace sandglass::sandbox_runtime::client {

using engine::base::Code;
using engine::base::Error;
using engine::base::log;
using engine::base::LogLevel;
using engine::base::Result;
using frame::v1::HostMessage;
using frame::v1::HostRequest;

namespace {
constexpr std::int64_t kFirstRetryMs = 20;
constexpr std::int64_t kLastRetryMs = 200;
constexpr std::int64_t kLookMs = 500;
constexpr std::size_t kMaxFrame = std::size_t{4} << 20;
constexpr std::size_t kMaxQueued = std::size_t{256} << 20;
}  // namespace

/// Everything behind the thread boundary.
class HostClient::Impl {
 public:
  Impl(HostClientOptions options, HostEvents events)
      : options_(std::move(options)), events_(std::move(events)), loop_(clock_) {
    thread_ = std::thread([this] {
      connect();
      look();
      loop_.run();
    });
  }

  ~Impl() {
    loop_.post([this] { loop_.stop(); });
    thread_.join();
    loop_.unwatch(watch_);
    for (auto& [number, open] : std::exchange(calls_, {})) {
      open.call->fail({Code::cancelled, "the client of the sandbox host was closed"});
    }
  }

  /// Thread rule: any thread.
  void start(std::unique_ptr<Call> call) {
    loop_.post([this, call = std::move(call)]() mutable { open(std::move(call)); });
  }

 private:
  struct Open {
    std::unique_ptr<Call> call;
    frames::MonotonicNs since = 0;  // without a connection
    bool sent = false;
  };

  void open(std::unique_ptr<Call> call) {
    const std::uint64_t number = ++last_call_;
    calls_[number] = Open{std::move(call), loop_.now(), false};
    if (ready_) send_open(number);
  }

  void send_open(std::uint64_t number) {
    const auto found = calls_.find(number);
    if (found == calls_.end()) return;
    found->second.sent = true;
    send(number, found->second.call->request());
    // sending may have lost the connection and with it the call
    if (const auto still = calls_.find(number); still != calls_.end() && ready_) {
      if (still->second.call->opened(
              [this, number](HostRequest request) { send(number, std::move(request)); }))
        calls_.erase(number);
    }
  }

  void connect() {
    retry_ = 0;
    const auto address = engine::base::SocketPath::make(options_.socket_path);
    socket_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!address || !socket_ || ::connect(socket_.get(), address->address(), address->size()) != 0) {
      socket_.reset();
      return retry();
    }
    reader_ = frames::FrameReader(kMaxFrame);
    writer_ = frames::FrameWriter(kMaxFrame, kMaxQueued);
    heard_ = loop_.now();
    stuck_ = false;
    watch_ = loop_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
    HostRequest hello;
    hello.mutable_hello()->set_version(1);
    send(++last_call_, std::move(hello));
  }

  void retry() {
    if (retry_ != 0) return;
    retry_ = loop_.after(retry_ms_, [this] { connect(); });
    retry_ms_ = std::min(2 * retry_ms_, kLastRetryMs);
  }

  void lose(const std::string& why) {
    if (!socket_) return;
    log(LogLevel::warning, "sandbox_host_lost", {{"reason", why}});
    loop_.unwatch(std::exchange(watch_, 0));
    socket_.reset();
    ready_ = false;
    std::vector<std::uint64_t> broken;
    for (auto& [number, open] : calls_) {
      if (open.sent && !open.call->repeatable()) broken.push_back(number);
      open.sent = false;
      open.since = loop_.now();
    }
    for (std::uint64_t number : broken) {
      finish(number,
             {Code::unavailable, "the connection to the sandbox host broke during the transfer; retry it"});
    }
    retry();
  }

  void finish(std::uint64_t number, Error error) {
    auto found = calls_.extract(number);
    if (found) found.mapped().call->fail(std::move(error));
  }

  /// Notices silence, and calls that have waited too long for a connection.
  void look() {
    loop_.after(kLookMs, [this] { look(); });
    const frames::MonotonicNs now = loop_.now();
    if (socket_ && now - heard_ > options_.silence_ms * 1'000'000) lose("nothing was heard for too long");
    if (ready_) return;
    std::vector<std::uint64_t> late;
    for (const auto& [number, open] : calls_) {
      if (now - open.since > options_.give_up_ms * 1'000'000) late.push_back(number);
    }
    for (std::uint64_t number : late) {
      finish(number, {Code::host_unreachable, "the sandbox host does not answer on " + options_.socket_path});
    }
  }

  void send(std::uint64_t number, HostRequest request) {
    if (!socket_) return;
    request.set_call(number);
    const std::string bytes = request.SerializeAsString();
    if (bytes.size() > kMaxFrame) {
      loop_.post(
          [this, number] { finish(number, {Code::invalid_argument, "the request is larger than 4 MiB"}); });
      return;
    }
    if (auto status = writer_.push(bytes); !status) {
      loop_.post([this, why = status.error().message] { lose(why); });
      return;
    }
    flush();
  }

  void flush() {
    if (!socket_) return;
    auto out = writer_.flush(socket_.get());
    // a host that has gone is noticed when it is read from
    const bool stuck = out && !*out;
    if (stuck == std::exchange(stuck_, stuck)) return;
    loop_.change(watch_, EPOLLIN | (stuck ? static_cast<std::uint32_t>(EPOLLOUT) : 0u));
  }

  void on_ready(std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush();
    if ((events & ~EPOLLOUT) == 0) return;
    auto io = reader_.fill(socket_.get());
    if (!io) return lose(io.error().message);
    if (*io == frames::Io::closed) return lose("it closed the connection");
    heard_ = loop_.now();
    while (socket_) {
      auto frame = reader_.next();
      if (!frame) return lose(frame.error().message);
      if (!*frame) return;
      HostMessage message;
      if (!message.ParseFromArray((*frame)->data(), static_cast<int>((*frame)->size()))) {
        return lose("it sent a malformed message");
      }
      on_message(message);
    }
  }

  void on_message(const HostMessage& message) {
    if (message.has_welcome()) return greeted(message.welcome());
    if (message.call() == 0) return on_event(message);
    const std::uint64_t number = message.call();
    const auto found = calls_.find(number);
    if (found == calls_.end()) return;
    if (message.has_failed()) {
      return finish(number, {static_cast<Code>(message.failed().code()), message.failed().message()});
    }
    // the call stays alive while it works, and out of the books once it is over
    std::unique_ptr<Call> call = std::move(found->second.call);
    const bool over =
        call->on(message, [this, number](HostRequest request) { send(number, std::move(request)); });
    if (over) {
      calls_.erase(number);
    } else if (const auto still = calls_.find(number); still != calls_.end()) {
      still->second.call = std::move(call);
    }
  }

  void on_event(const HostMessage& message) {
    if (message.has_sandbox_ended() && events_.sandbox_ended) {
      const auto& ended = message.sandbox_ended();
      events_.sandbox_ended({ended.id(), ended.fence()}, {static_cast<Code>(ended.code()), ended.reason()});
    }
    if (message.has_verdict() && events_.network_verdict) {
      events_.network_verdict(message.verdict().SerializeAsString());
    }
  }

  void greeted(const frame::v1::HostWelcome& welcome) {
    if (welcome.version() != 1) return lose("it speaks another version of the protocol");
    ready_ = true;
    retry_ms_ = kFirstRetryMs;
    std::vector<std::uint64_t> waiting;
    for (const auto& [number, open] : calls_) {
      if (!open.sent) waiting.push_back(number);
    }
    for (std::uint64_t number : waiting) send_open(number);
    rootless_ = welcome.rootless();
    provider_ = welcome.provider();
  }

 public:
  // of the host that is connected; the client's thread only
  bool rootless_ = false;
  std::string provider_;

 private:
  const HostClientOptions options_;
  HostEvents events_;
  const engine::base::SystemClock clock_;
  frames::Loop loop_;
  engine::base::UniqueFd socket_;
  frames::Loop::WatchId watch_ = 0;
  frames::Loop::TimerId retry_ = 0;
  std::int64_t retry_ms_ = kFirstRetryMs;
  frames::FrameReader reader_;
  frames::FrameWriter writer_;
  bool stuck_ = false;  // the host does not read as fast as is written
  frames::MonotonicNs heard_ = 0;
  bool ready_ = false;
  std::map<std::uint64_t, Open> calls_;
  std::uint64_t last_call_ = 0;
  std::thread thread_;
};

namespace {

template <class T, class Convert>
std::unique_ptr<Call> plain(HostRequest request, provider::Answer<T> answer, Convert convert) {
  return std::make_unique<PlainCall<T>>(std::move(request), std::move(answer), std::move(convert));
}

std::optional<Result<void>> as_done(const HostMessage& message) {
  if (!message.has_done()) return std::nullopt;
  return Result<void>();
}

void fill(const provider::AllowedDestination& destination, frame::v1::AllowRule& rule) {
  rule.set_id(destination.id);
  rule.set_host(destination.host);
  for (std::uint32_t port : destination.ports) rule.add_ports(port);
  for (const std::string& method : destination.methods) rule.add_methods(method);
}

HostRequest create_request(const provider::CreateRequest& create) {
  HostRequest request;
  auto& out = *request.mutable_create();
  out.set_id(create.spec.id);
  out.set_fence(create.fence);
  out.set_expires_at_ms(create.expires_at_ms);
  out.set_run(create.run);
  auto& tmpl = *out.mutable_template_();
  tmpl.set_name(create.spec.tmpl.name);
  tmpl.set_network(create.spec.tmpl.network);
  for (const std::string& name : create.spec.tmpl.env_allow) tmpl.add_env_allow(name);
  for (const provider::LimitKind kind : provider::kAllLimits) {
    const provider::Limit& limit = create.spec.tmpl.limits.of(kind);
    auto& item = *tmpl.add_limits();
    item.set_kind(static_cast<std::uint32_t>(kind));
    item.set_value(limit.value);
    item.set_best_effort(limit.need == provider::Need::best_effort);
    item.set_on_limit(static_cast<std::uint32_t>(limit.on_limit));
  }
  for (const provider::AllowedDestination& destination : create.allow) fill(destination, *out.add_allow());
  return request;
}

}  // namespace

HostClient::HostClient(HostClientOptions options, HostEvents events)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(events))) {}

HostClient::~HostClient() = default;

void HostClient::create(provider::CreateRequest request, provider::Answer<provider::Created> answer) {
  const auto convert = [impl = impl_.get(), id = request.spec.id](
                           const HostMessage& message) -> std::optional<Result<provider::Created>> {
    if (!message.has_created()) return std::nullopt;
    provider::Created created{id, impl->provider_, impl->rootless_, {}};
    for (const auto& item : message.created().support()) {
      created.support.push_back({static_cast<provider::LimitKind>(item.kind()),
                                 static_cast<provider::Strength>(item.strength()), item.detail(),
                                 item.remedy()});
    }
    return created;
  };
  impl_->start(plain<provider::Created>(create_request(request), std::move(answer), convert));
}

void HostClient::renew(provider::SandboxRef sandbox, std::int64_t expires_at_ms,
                       provider::Answer<void> answer) {
  HostRequest request;
  request.mutable_renew()->set_id(std::move(sandbox.id));
  request.mutable_renew()->set_fence(sandbox.fence);
  request.mutable_renew()->set_expires_at_ms(expires_at_ms);
  impl_->start(plain<void>(std::move(request), std::move(answer), as_done));
}

void HostClient::destroy(provider::SandboxRef sandbox, provider::Answer<void> answer) {
  HostRequest request;
  request.mutable_destroy()->set_id(std::move(sandbox.id));
  request.mutable_destroy()->set_fence(sandbox.fence);
  impl_->start(plain<void>(std::move(request), std::move(answer), as_done));
}

void HostClient::allow(provider::SandboxRef sandbox, std::vector<provider::AllowedDestination> destinations,
                       provider::Answer<void> answer) {
  HostRequest request;
  auto& out = *request.mutable_allow();
  out.set_id(std::move(sandbox.id));
  out.set_fence(sandbox.fence);
  for (const provider::AllowedDestination& destination : destinations) fill(destination, *out.add_allow());
  impl_->start(plain<void>(std::move(request), std::move(answer), as_done));
}

void HostClient::inventory(provider::Answer<std::vector<provider::InventoryItem>> answer) {
  HostRequest request;
  request.mutable_inventory();
  const auto convert =
      [](const HostMessage& message) -> std::optional<Result<std::vector<provider::InventoryItem>>> {
    if (!message.has_inventory()) return std::nullopt;
    std::vector<provider::InventoryItem> items;
    for (const auto& item : message.inventory().items()) {
      items.push_back({item.id(), item.fence(), item.alive(), item.expires_at_ms()});
    }
    return items;
  };
  impl_->start(plain<std::vector<provider::InventoryItem>>(std::move(request), std::move(answer), convert));
}

void HostClient::features(provider::Answer<std::vector<provider::Feature>> answer) {
  HostRequest request;
  request.mutable_features();
  const auto convert =
      [](const HostMessage& message) -> std::optional<Result<std::vector<provider::Feature>>> {
    if (!message.has_features()) return std::nullopt;
    std::vector<provider::Feature> features;
    for (const auto& item : message.features().features()) {
      features.push_back(
          {item.name(), static_cast<provider::Strength>(item.strength()), item.detail(), item.remedy()});
    }
    return features;
  };
  impl_->start(plain<std::vector<provider::Feature>>(std::move(request), std::move(answer), convert));
}

void HostClient::exec(provider::SandboxRef sandbox, provider::ExecRequest request,
                      provider::OutputCallback on_output, provider::Answer<provider::ExecResult> answer) {
  impl_->start(exec_call(std::move(sandbox), std::move(request), std::move(on_output), std::move(answer)));
}

void HostClient::kill_exec(provider::SandboxRef sandbox, std::string key, provider::Answer<void> answer) {
  HostRequest request;
  request.mutable_kill_exec()->set_id(std::move(sandbox.id));
  request.mutable_kill_exec()->set_fence(sandbox.fence);
  request.mutable_kill_exec()->set_key(std::move(key));
  impl_->start(plain<void>(std::move(request), std::move(answer), as_done));
}

void HostClient::put_tree(provider::SandboxRef sandbox, std::string path,
                          std::shared_ptr<provider::TreeSource> source,
                          provider::Answer<provider::TreeResult> answer) {
  impl_->start(put_call(std::move(sandbox), std::move(path), std::move(source), std::move(answer)));
}

void HostClient::get_tree(provider::SandboxRef sandbox, std::string path,
                          std::shared_ptr<provider::TreeSink> sink,
                          provider::Answer<provider::TreeResult> answer) {
  impl_->start(get_call(std::move(sandbox), std::move(path), std::move(sink), std::move(answer)));
}

void HostClient::list_tree(provider::SandboxRef sandbox, std::string path,
                           provider::Answer<provider::Manifest> answer) {
  impl_->start(get_call(std::move(sandbox), std::move(path), nullptr,
                        [answer = std::move(answer)](Result<provider::TreeResult> result) mutable {
                          if (!result) return answer(std::unexpected(result.error()));
                          answer(std::move(result->manifest));
                        }));
}

}  // namespace sandglass::sandbox_runtime::client
