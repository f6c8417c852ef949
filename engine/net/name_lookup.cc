#include "engine/net/name_lookup.h"

#include <ares.h>
#include <sys/time.h>

#include <algorithm>
#include <map>

#include "engine/base/check.h"
#include "engine/net/dns_message.h"

namespace sandglass::engine::net {
namespace {

constexpr int class_in = 1;
constexpr int type_a = 1;
constexpr int type_aaaa = 28;
constexpr int edns_payload = 1232;  // larger answers come by TCP

/// Lives until c-ares has called back, which it does for every query, at the latest in ares_destroy.
struct Query {
  std::weak_ptr<Lookup> lookup;
  bool v6 = false;
};

void answered(void* argument, int status, int /*timeouts*/, unsigned char* bytes, int length) {
  const std::unique_ptr<Query> query(static_cast<Query*>(argument));
  const auto lookup = query->lookup.lock();
  if (!lookup) return;
  Lookup::Family& family = query->v6 ? lookup->v6 : lookup->v4;
  family.finished = true;
  if (status == ARES_SUCCESS) {
    const std::string_view message(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
    family.addresses = read_dns_answer(message, lookup->name, query->v6);
  } else if (status != ARES_ENODATA) {
    family.addresses = base::fail(base::Code::resolve_failed, ares_strerror(status));
  }
}

}  // namespace

struct NameLookup::Impl {
  ares_channel channel = nullptr;
  std::map<int, short> sockets;

  static void socket_state(void* self, ares_socket_t socket, int readable, int writable) {
    auto& sockets = static_cast<Impl*>(self)->sockets;
    const auto events = static_cast<short>((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));
    if (events == 0) {
      sockets.erase(socket);
    } else {
      sockets[socket] = events;
    }
  }
};

NameLookup::NameLookup(const std::vector<Endpoint>& resolvers) : impl_(std::make_unique<Impl>()) {
  static const int library = ares_library_init(ARES_LIB_INIT_ALL);
  SG_CHECK(library == ARES_SUCCESS, "c-ares does not start");
  char nothing[] = "/dev/null";
  ares_options options{};
  options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
  options.timeout = 1500;
  options.tries = 2;
  options.ednspsz = edns_payload;
  options.resolvconf_path = nothing;
  options.sock_state_cb = &Impl::socket_state;
  options.sock_state_cb_data = impl_.get();
  const int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
                   ARES_OPT_RESOLVCONF | ARES_OPT_SOCK_STATE_CB;
  int status = ares_init_options(&impl_->channel, &options, mask);
  SG_CHECK(status == ARES_SUCCESS, ares_strerror(status));
  std::string servers;
  for (const Endpoint& resolver : resolvers) servers += (servers.empty() ? "" : ",") + resolver.text();
  status = ares_set_servers_ports_csv(impl_->channel, servers.c_str());
  SG_CHECK(status == ARES_SUCCESS, ares_strerror(status));
}

NameLookup::~NameLookup() {
  ares_destroy(impl_->channel);
}

std::shared_ptr<Lookup> NameLookup::start(std::string name) {
  auto lookup = std::make_shared<Lookup>();
  lookup->name = std::move(name);
  for (const bool v6 : {false, true}) {
    auto query = std::make_unique<Query>(lookup, v6);
    ares_query(impl_->channel, lookup->name.c_str(), class_in, v6 ? type_aaaa : type_a, &answered,
               query.release());
  }
  return lookup;
}

void NameLookup::prepare(std::vector<pollfd>& fds, int& timeout_ms) const {
  for (const auto& [socket, events] : impl_->sockets) fds.push_back({socket, events, 0});
  timeval longest{3600, 0};
  timeval wanted{};
  const timeval* left = ares_timeout(impl_->channel, &longest, &wanted);
  if (left == &longest || left == nullptr) return;
  const auto milliseconds = static_cast<int>(left->tv_sec * 1000 + left->tv_usec / 1000 + 1);
  timeout_ms = timeout_ms < 0 ? milliseconds : std::min(timeout_ms, milliseconds);
}

void NameLookup::process(const pollfd* fds, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const short got = fds[i].revents;
    if (got == 0 || !impl_->sockets.contains(fds[i].fd)) continue;  // closed by an earlier turn of this loop
    const bool broken = (got & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    ares_process_fd(impl_->channel, broken || (got & POLLIN) ? fds[i].fd : ARES_SOCKET_BAD,
                    got & POLLOUT ? fds[i].fd : ARES_SOCKET_BAD);
  }
  ares_process_fd(impl_->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

}  // namespace sandglass::engine::net
