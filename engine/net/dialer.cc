#include "engine/net/dialer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/base/check.h"
#include "engine/net/name_lookup.h"
#include "engine/net/resolv_conf.h"

namespace sandglass::engine::net {
namespace {

using base::Code;
using base::fail;
using base::UniqueFd;

constexpr std::size_t max_jobs = 1024;
constexpr base::MonotonicNs ms = 1'000'000;
constexpr base::MonotonicNs second_family_grace = 500 * ms;  // some name servers never answer AAAA

struct Job {
  NameDecision decision;
  DialDone done;
  base::MonotonicNs resolve_until = 0;
  base::MonotonicNs until = 0;
  std::shared_ptr<Lookup> lookup;
  base::MonotonicNs grace_until = 0;  // set once one family has addresses and the other has not answered
  AddressDecision addresses;          // once resolved
  std::size_t next = 0;               // index of the address to try next
  UniqueFd socket;                    // being connected
  base::MonotonicNs socket_until = 0;
  std::size_t poll_index = 0;  // 0: not polled in this turn
  std::string last_fault;
};

}  // namespace

struct Dialer::Loop {
  Loop(const Gate& the_gate, base::Clock& the_clock, UniqueFd changes)
      : gate(the_gate),
        clock(the_clock),
        resolver_changes(std::move(changes)),
        resolvers(the_gate.settings().resolvers),
        lookup(std::make_unique<NameLookup>(resolvers)) {
    wake = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    SG_CHECK(static_cast<bool>(wake), "no eventfd");
  }

  void run();
  void turn();
  void admit();
  void take_resolvers();
  /// True when the job has been answered.
  bool advance(Job& job, base::MonotonicNs now);
  bool resolved(Job& job, base::MonotonicNs now);
  bool connect_next(Job& job, base::MonotonicNs now);
  bool finish_connect(Job& job, base::MonotonicNs now, short events);
  bool give(Job& job);
  bool give_up(Job& job, Code code, std::string message);
  int wait_ms(base::MonotonicNs now) const;
  void signal() {
    const std::uint64_t one = 1;
    // Full means that a wake-up is pending already.
    [[maybe_unused]] const auto written = ::write(wake.get(), &one, sizeof one);
  }

  const Gate& gate;
  base::Clock& clock;
  // Loop thread only:
  UniqueFd resolver_changes;
  std::vector<Endpoint> resolvers;
  std::unique_ptr<NameLookup> lookup;
  std::list<Job> jobs;
  std::vector<pollfd> fds;

  UniqueFd wake;
  std::mutex mutex;  // guards what follows
  std::vector<Job> incoming;
  std::size_t open = 0;
  bool stopping = false;
  std::thread thread;  // last: starts when all else stands
};

Dialer::Dialer(const Gate& gate, base::Clock& clock, UniqueFd resolver_changes)
    : loop_(std::make_unique<Loop>(gate, clock, std::move(resolver_changes))) {
  loop_->thread = std::thread([loop = loop_.get()] { loop->run(); });
}

Dialer::~Dialer() {
  {
    const std::lock_guard lock(loop_->mutex);
    loop_->stopping = true;
  }
  loop_->signal();
  loop_->thread.join();
}

void Dialer::dial(NameDecision decision, std::int64_t timeout_ms, DialDone done) {
  SG_CHECK(decision.verdict.allowed, "a refused name must never be looked up or dialled");
  const NetworkSettings& settings = loop_->gate.settings();
  const base::MonotonicNs now = loop_->clock.monotonic_ns();
  Job job{.decision = std::move(decision), .done = std::move(done)};
  job.until = now + (settings.resolve_timeout_ms + settings.connect_timeout_ms) * ms;
  if (timeout_ms > 0) job.until = std::min(job.until, now + timeout_ms * ms);
  job.resolve_until = std::min(job.until, now + settings.resolve_timeout_ms * ms);
  {
    const std::lock_guard lock(loop_->mutex);
    if (!loop_->stopping && loop_->open < max_jobs) {
      ++loop_->open;
      loop_->incoming.push_back(std::move(job));
      job.done = nullptr;
    }
  }
  if (job.done) {
    job.decision.verdict.code = Code::overloaded;
    job.done(
        {fail(Code::overloaded, "too many connections are being made; retry later"), job.decision.verdict});
    return;
  }
  loop_->signal();
}

DialResult Dialer::dial_blocking(NameDecision decision, std::int64_t timeout_ms) {
  auto promise = std::make_shared<std::promise<DialResult>>();
  auto future = promise->get_future();
  dial(std::move(decision), timeout_ms,
       [promise](DialResult result) { promise->set_value(std::move(result)); });
  return future.get();
}

void Dialer::Loop::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      if (stopping) break;
    }
    turn();
  }
  admit();
  for (Job& job : jobs) give_up(job, Code::cancelled, "the dialler is shutting down");
  jobs.clear();
}

void Dialer::Loop::turn() {
  fds.clear();
  fds.push_back({wake.get(), POLLIN, 0});
  fds.push_back({resolver_changes.get(), POLLIN, 0});  // none: a negative number, which poll passes over
  for (Job& job : jobs) {
    job.poll_index = 0;
    if (!job.socket) continue;
    job.poll_index = fds.size();
    fds.push_back({job.socket.get(), POLLOUT, 0});
  }
  const std::size_t ours = fds.size();
  int timeout = wait_ms(clock.monotonic_ns());
  lookup->prepare(fds, timeout);
  ::poll(fds.data(), fds.size(), timeout);
  if (fds[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(wake.get(), &count, sizeof count);
  }
  lookup->process(fds.data() + ours, fds.size() - ours);
  if (fds[1].revents != 0) take_resolvers();
  admit();
  const base::MonotonicNs now = clock.monotonic_ns();
  std::size_t answered = 0;
  for (auto job = jobs.begin(); job != jobs.end();) {
    if (advance(*job, now)) {
      job = jobs.erase(job);
      ++answered;
    } else {
      ++job;
    }
  }
  const std::lock_guard lock(mutex);
  open -= answered;
}

void Dialer::Loop::admit() {
  std::vector<Job> fresh;
  {
    const std::lock_guard lock(mutex);
    fresh.swap(incoming);
  }
  for (Job& job : fresh) jobs.push_back(std::move(job));
}

/// Other name servers: what is being looked up is looked up anew, there.
void Dialer::Loop::take_resolvers() {
  std::array<char, 16384> text;
  const ssize_t got = ::recv(resolver_changes.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return resolver_changes.reset();
  auto named = resolvers_of({text.data(), static_cast<std::size_t>(got)});
  if (named == resolvers) return;
  resolvers = std::move(named);
  for (Job& job : jobs) {
    job.lookup = nullptr;
    job.grace_until = 0;
  }
  lookup = std::make_unique<NameLookup>(resolvers);
}

int Dialer::Loop::wait_ms(base::MonotonicNs now) const {
  base::MonotonicNs first = -1;
  const auto consider = [&first](base::MonotonicNs when) {
    first = first < 0 ? when : std::min(first, when);
  };
  for (const Job& job : jobs) {
    consider(job.until);
    if (job.lookup) consider(job.resolve_until);
    if (job.lookup && job.grace_until != 0) consider(job.grace_until);
    if (job.socket) consider(job.socket_until);
  }
  if (first < 0) return -1;
  return static_cast<int>(std::clamp<base::MonotonicNs>((first - now) / ms + 1, 0, 60'000));
}

bool Dialer::Loop::advance(Job& job, base::MonotonicNs now) {
  if (job.socket) {
    const short events = job.poll_index != 0 ? fds[job.poll_index].revents : short{0};
    return finish_connect(job, now, events);
  }
  if (now >= job.until) return give_up(job, Code::timed_out, "no connection in time");
  if (!job.lookup) {
    const Host& host = job.decision.target.host;
    const auto listed = gate.settings().hosts.find(host.text);
    if (host.literal || listed != gate.settings().hosts.end()) {
      job.addresses =
          gate.check(job.decision, host.literal ? std::vector{*host.literal} : listed->second, resolvers);
      return connect_next(job, now);
    }
    job.lookup = lookup->start(host.text);
  }
  return resolved(job, now);
}

bool Dialer::Loop::resolved(Job& job, base::MonotonicNs now) {
  const Lookup::Family& v4 = job.lookup->v4;
  const Lookup::Family& v6 = job.lookup->v6;
  if (!v4.finished || !v6.finished) {
    const Lookup::Family& first = v4.finished ? v4 : v6;
    const bool usable = first.finished && first.addresses && !first.addresses->empty();
    if (usable && job.grace_until == 0)
      job.grace_until = std::min(job.resolve_until, now + second_family_grace);
    if (!usable && now >= job.resolve_until) {
      return give_up(job, Code::resolve_failed, "the name servers did not answer in time");
    }
    if (!usable || now < job.grace_until) return false;
  }
  std::vector<Address> found;
  for (const Lookup::Family* family : {&v4, &v6}) {
    if (!family->finished || !family->addresses) continue;
    found.insert(found.end(), family->addresses->begin(), family->addresses->end());
  }
  if (found.empty()) {
    const auto& fault = !v4.addresses ? v4.addresses : v6.addresses;
    return give_up(job, Code::resolve_failed, fault ? "the name has no address" : fault.error().message);
  }
  job.lookup = nullptr;
  job.addresses = gate.check(job.decision, found, resolvers);
  return connect_next(job, now);
}

bool Dialer::Loop::connect_next(Job& job, base::MonotonicNs now) {
  Verdict& verdict = job.decision.verdict;
  if (job.addresses.allowed.empty()) {
    verdict.allowed = false;
    verdict.rule = job.addresses.refused_rule;
    verdict.address = job.addresses.refused ? job.addresses.refused->text() : "";
    return give_up(job, Code::address_refused,
                   "its address " + verdict.address + " is refused (" + verdict.rule +
                       "); an operator may name host, port and range under network.internal");
  }
  while (job.next < job.addresses.allowed.size()) {
    const std::size_t index = job.next++;
    const Address& address = job.addresses.allowed[index];
    verdict.address = address.text();
    verdict.internal = job.addresses.internal[index];
    sockaddr_storage storage;
    const unsigned length = address.to_sockaddr(job.decision.target.port, storage);
    job.socket =
        UniqueFd(::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (job.socket && ::connect(job.socket.get(), reinterpret_cast<sockaddr*>(&storage), length) == 0) {
      return give(job);
    }
    if (job.socket && errno == EINPROGRESS) {
      const auto left = static_cast<base::MonotonicNs>(job.addresses.allowed.size() - index);
      job.socket_until =
          left == 1 ? job.until : now + std::max<base::MonotonicNs>((job.until - now) / left, 250 * ms);
      job.poll_index = 0;
      return false;
    }
    job.last_fault = std::strerror(errno);
    job.socket.reset();
  }
  return give_up(job, Code::connect_failed, job.last_fault);
}

bool Dialer::Loop::finish_connect(Job& job, base::MonotonicNs now, short events) {
  if (events != 0) {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(job.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0) return give(job);
    job.last_fault = std::strerror(error);
  } else if (now >= job.until) {
    return give_up(job, Code::connect_failed, "the target did not accept in time");
  } else if (now < job.socket_until) {
    return false;
  } else {
    job.last_fault = "the target did not accept in time";
  }
  job.socket.reset();
  return connect_next(job, now);
}

bool Dialer::Loop::give(Job& job) {
  const int one = 1;
  ::setsockopt(job.socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (job.addresses.refused) {
    job.decision.verdict.reason = "another of its addresses, " + job.addresses.refused->text() +
                                  ", is refused (" + job.addresses.refused_rule + ") and was not used";
  }
  job.done({std::move(job.socket), std::move(job.decision.verdict)});
  return true;
}

bool Dialer::Loop::give_up(Job& job, Code code, std::string message) {
  job.socket.reset();
  job.decision.verdict.code = code;
  job.decision.verdict.reason = job.decision.target.text() + ": " + message;
  DialResult result{fail(code, job.decision.verdict.reason), std::move(job.decision.verdict)};
  job.done(std::move(result));
  return true;
}

}  // namespace sandglass::engine::net
