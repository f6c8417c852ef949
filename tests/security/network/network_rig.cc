#include "tests/security/network/network_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "engine/base/system_ports.h"
#include "tests/support/plain_user.h"

namespace sandglass::tests::security {

namespace {

constexpr unsigned kPlainUid = 54322;  // nobody's
std::unique_ptr<NetworkRig> the_rig;

/// SANDGLASS_TEST_PLAIN=1: everything of this program happens as a user without privilege.
class World final : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("SANDGLASS_TEST_PLAIN") != nullptr && ::geteuid() == 0) become_plain();
    the_rig = std::make_unique<NetworkRig>();
  }
  void TearDown() override {
    the_rig.reset();
    programs_.reset();
  }

 private:
  void become_plain() {
    programs_ = std::make_unique<support::PlainPrograms>(
        kPlainUid, std::initializer_list<const char*>{"sandglass-keeper", "sandglass-init", "sandglass-host",
                                                      "sandglass-egress"});
    ::setenv("SANDGLASS_BUILD", programs_->path().c_str(), 1);
    support::become_plain(kPlainUid);
  }
  std::unique_ptr<support::PlainPrograms> programs_;
};
const auto* const kWorld = testing::AddGlobalTestEnvironment(new World);

UniqueFd bound(int type, const char* address, std::uint16_t& port) {
  UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &place.sin_addr);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  socklen_t length = sizeof place;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&place), &length);
  port = ntohs(place.sin_port);
  return fd;
}

std::string hex(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

Trap::Trap(const char* address, std::uint16_t port) : port_(port) {
  tcp_ = bound(SOCK_STREAM, address, port_);
  ::listen(tcp_.get(), 16);
  udp_ = bound(SOCK_DGRAM, address, port_);
}

bool Trap::sprung() {
  bool any = false;
  while (UniqueFd(::accept4(tcp_.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid()) any = true;
  char buffer[16];
  while (::recv(udp_.get(), buffer, sizeof buffer, MSG_DONTWAIT) >= 0) any = true;
  return any;
}

NetworkRig& NetworkRig::get() {
  return *the_rig;
}

NetworkRig::NetworkRig()
    : origin([this](Peer& peer) { serve(peer); }),
      trap("0.0.0.0"),
      beside_origin("127.0.0.2", origin.port()) {
  dns.on(name, {"127.0.0.1"});
  host.start_egress(config().SerializeAsString());
  // The host finds the proxy by itself; the first sandbox's rules are judged there once it has.
  open_ = make("open", usual_rules());
  closed_ = make("closed", {});
}

frame::v1::NetworkConfig NetworkRig::config() const {
  frame::v1::NetworkConfig config;
  config.add_resolvers(dns.endpoint().text());
  for (const char* each : {name, "rebind.example.com", "mixed.example.com", "alias.example.com",
                           "many.example.com", "spoof.example.com", "big.example.com", "dead.example.com"}) {
    auto* internal = config.add_internal();
    internal->set_host(each);
    internal->set_port(origin.port());
    // Nobody listens at 127.0.0.3.
    internal->set_range(std::string_view(each) == "dead.example.com" ? "127.0.0.3/32" : "127.0.0.1/32");
  }
  auto* resolver = config.add_internal();
  resolver->set_host("resolver.example.com");
  resolver->set_port(dns.port());
  resolver->set_range("127.0.0.1/32");
  auto& egress = *config.mutable_egress();
  egress.set_max_connections(max_connections);
  egress.set_head_timeout_ms(head_timeout_ms);
  egress.set_idle_timeout_ms(10'000);
  egress.set_max_host_bytes(max_host_bytes);
  config.set_resolve_timeout_ms(1000);
  config.set_connect_timeout_ms(2000);
  return config;
}

std::vector<provider::AllowedDestination> NetworkRig::usual_rules() const {
  std::vector<provider::AllowedDestination> rules = {
      {"listed", name, {origin.port()}, {}},
      {"", "resolver.example.com", {dns.port()}, {}},
      // Rules never lift the refusal of addresses.
      {"", "*.targets.example.com", {80, 443, origin.port(), trap.port()}, {}},
      {"", "127.0.0.0/8", {80, 443, origin.port(), trap.port(), dns.port()}, {}},
      {"", "localhost", {80, 443, origin.port(), trap.port()}, {}}};
  for (const char* each : {"rebind", "mixed", "alias", "many", "spoof", "big", "dead"}) {
    rules.push_back({"", std::string(each) + ".example.com", {origin.port()}, {}});
  }
  return rules;
}

provider::SandboxRef NetworkRig::make(const std::string& id, std::vector<provider::AllowedDestination> allow,
                                      std::uint64_t fence) {
  provider::CreateRequest request;
  request.spec.id = id;
  request.spec.tmpl = sandbox_runtime::host::HostRig::small_template();
  request.spec.tmpl.network = true;
  request.fence = fence;
  request.run = "run-of-" + id;
  request.expires_at_ms = engine::base::SystemClock().monotonic_ns() / 1'000'000 + 600'000;
  request.allow = std::move(allow);
  const auto created = host.create(std::move(request));
  EXPECT_TRUE(created.has_value()) << created.error().message;
  return {id, fence};
}

void NetworkRig::serve(Peer& peer) {
  const std::string head = peer.read_until("\r\n\r\n");
  if (head.empty()) return;
  ++origin_requests_;
  {
    const std::lock_guard lock(mutex_);
    saw_ = head;
  }
  if (head.starts_with("GET ")) {
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    return;
  }
  const bool plain = head.starts_with("PUT ") || head.starts_with("POST ");
  const std::size_t length = head.find("Content-Length: ");
  std::string rest;
  if (plain && length != std::string::npos) {
    rest = peer.read_exactly(std::strtoul(head.c_str() + length + 16, nullptr, 10));
  } else if (plain) {
    rest = peer.read_until("\r\n\r\n");
  } else {
    rest = peer.read_all();  // a tunnel's bytes
  }
  {
    const std::lock_guard lock(mutex_);
    saw_ += rest;
  }
  if (plain) peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

std::string NetworkRig::origin_saw() {
  const std::lock_guard lock(mutex_);
  return saw_;
}

bool NetworkRig::traps_sprung() {
  const bool first = trap.sprung();
  return beside_origin.sprung() || first;
}

std::string NetworkRig::program(const std::string& code) const {
  return "import socket,sys,os,errno,time,json,threading\n"
         "PORT=" +
         std::to_string(origin.port()) + "\nTRAP=" + std::to_string(trap.port()) +
         "\nDNS=" + std::to_string(dns.port()) +
         R"py(
PROXY=('127.0.0.1',3128)
def read_all(s):
    out=b''
    try:
        while True:
            part=s.recv(65536)
            if not part: return out
            out+=part
    except socket.timeout: return out+b'<open>'
    except OSError: return out
def ask(data,end=True,wait=15):
    s=socket.create_connection(PROXY,15); s.settimeout(wait)
    try:
        s.sendall(data)
        if end: s.shutdown(socket.SHUT_WR)
    except OSError: pass
    out=read_all(s); s.close(); return out
def status(answer):
    if answer.startswith(b'HTTP/1.'): return answer.split(b' ')[1].decode()
    return 'closed' if answer==b'' else repr(answer[:80])
def tunnel(target):
    s=socket.create_connection(PROXY,15); s.settimeout(15)
    s.sendall(b'CONNECT '+target.encode()+b' HTTP/1.1\r\nHost: '+target.encode()+b'\r\n\r\n')
    head=b''
    while not head.endswith(b'\r\n\r\n'):
        part=s.recv(1)
        if not part: break
        head+=part
    return s,status(head)
)py" + code;
}

std::string NetworkRig::python(const provider::SandboxRef& sandbox, const std::string& code) {
  auto request = host.shell("");
  request.argv = {"python3", "-c", program(code)};
  const auto done = host.exec(sandbox, std::move(request));
  if (!done) return "no exec: " + done.error().message;
  return done->out + done->err;
}

std::future<engine::base::Result<provider::ExecResult>> NetworkRig::background(
    const provider::SandboxRef& sandbox, const std::string& code) {
  auto request = host.shell("");
  request.argv = {"python3", "-c", program(code)};
  return host.begin(sandbox, std::move(request));
}

std::vector<std::string> NetworkRig::statuses(const provider::SandboxRef& sandbox,
                                              const std::vector<std::string>& requests) {
  std::string code = "for r in [";
  for (const std::string& request : requests) code += "'" + hex(request) + "',";
  const auto lines = lines_of(python(sandbox, code + "]: print(status(ask(bytes.fromhex(r))))\n"));
  EXPECT_EQ(lines.size(), requests.size()) << testing::PrintToString(lines);
  return lines;
}

std::string NetworkRig::shell(const provider::SandboxRef& sandbox, const std::string& script) {
  const auto done = host.exec(sandbox, host.shell(script));
  return done ? done->out : "no exec: " + done.error().message;
}

void NetworkAttack::expect_refused(const provider::SandboxRef& sandbox,
                                   const std::vector<std::string>& requests) {
  const int looked_up = rig.dns.queries();
  const int requested = rig.origin_requests();
  const auto got = rig.statuses(sandbox, requests);
  for (std::size_t i = 0; i < std::min(got.size(), requests.size()); ++i) {
    EXPECT_TRUE(got[i] == "403" || got[i] == "400")
        << got[i] << " for " << testing::PrintToString(requests[i]);
  }
  EXPECT_EQ(rig.dns.queries(), looked_up) << "a refused name was looked up";
  EXPECT_EQ(rig.origin_requests(), requested);
}

}  // namespace sandglass::tests::security
