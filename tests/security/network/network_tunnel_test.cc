// Tunnels: what they may carry, how many there may be, and when they end.
#include "tests/security/network/network_rig.h"
#include "tests/support/client_hello.h"

namespace sandglass::tests::security {
namespace {

using sandbox_runtime::host::HostRig;
using support::client_hello;
using support::split_records;
using testing::HasSubstr;

class TunnelAttack : public NetworkAttack {
 protected:
  /// Opens a tunnel to the allowed name, sends the pieces with a pause between, and prints how it ends:
  /// "open" if the proxy still holds it after a second, else "closed".
  std::string send_in_tunnel(const std::vector<std::string>& pieces) {
    std::string code = "s,st=tunnel('" + rig.authority() + "')\nprint(st)\ntry:\n";
    for (const std::string& piece : pieces) {
      code += "  s.sendall(bytes.fromhex('";
      for (const char c : piece) {
        constexpr const char* digits = "0123456789abcdef";
        code += digits[static_cast<unsigned char>(c) >> 4];
        code += digits[static_cast<unsigned char>(c) & 15];
      }
      code += "')); time.sleep(0.05)\n";
    }
    code +=
        "except OSError: pass\ns.settimeout(1)\nprint('open' if read_all(s).endswith(b'<open>') else "
        "'closed')\n";
    return rig.python(rig.open_sandbox(), code);
  }
  std::string hold_tunnel(const std::string& after_open) const {
    const std::string hello = client_hello(NetworkRig::name);
    std::string hex;
    for (const char c : hello) {
      constexpr const char* digits = "0123456789abcdef";
      hex += digits[static_cast<unsigned char>(c) >> 4];
      hex += digits[static_cast<unsigned char>(c) & 15];
    }
    return "s,st=tunnel('" + rig.authority() + "')\ns.sendall(bytes.fromhex('" + hex +
           "'))\nopen('/tmp/open','w').close()\n" + after_open;
  }
  bool tunnel_is_open(const provider::SandboxRef& sandbox) {
    return HostRig::eventually(
        [&] { return rig.shell(sandbox, "ls /tmp/open 2>/dev/null") == "/tmp/open\n"; });
  }
};

TEST_F(TunnelAttack, OnlyTlsForTheNameThatWasAllowedPasses) {  // ADV-C21, ADV-C22, FR-165
  const std::string good = client_hello(NetworkRig::name);
  const int before = rig.origin_requests();
  EXPECT_EQ(send_in_tunnel({good}), "200\nopen\n");
  EXPECT_EQ(send_in_tunnel({client_hello("ALLOWED.example.com")}), "200\nopen\n");
  // In pieces, also of one byte, and in several records.
  EXPECT_EQ(send_in_tunnel({good.substr(0, 3), good.substr(3, 20), good.substr(23)}), "200\nopen\n");
  EXPECT_EQ(send_in_tunnel({split_records(good, 1)}), "200\nopen\n");
  // The origin counts a tunnel when it ends.
  EXPECT_TRUE(HostRig::eventually([&] { return rig.origin_requests() >= before + 4; }));
  const int requested = rig.origin_requests();
  for (const std::string& bad :
       {client_hello("denied.example.com"), client_hello(""),
        client_hello(NetworkRig::name, {.encrypted = true}), client_hello(NetworkRig::name, {.twice = true}),
        split_records(client_hello("denied.example.com"), 5), client_hello("127.0.0.1"),
        client_hello(std::string(NetworkRig::name) + std::string("\0x", 2)), client_hello("*.example.com"),
        std::string("GET / HTTP/1.1\r\nHost: allowed.example.com\r\n\r\n"), std::string("SSH-2.0-x\r\n"),
        std::string("\x16\x03\x01\xff\xff"), std::string("\x80\x2e\x01\x03\x01"), std::string(40'000, '\x16'),
        good.substr(0, 5) + std::string(1, '\x02') + good.substr(6)}) {
    EXPECT_EQ(send_in_tunnel({bad}), "200\nclosed\n") << testing::PrintToString(bad.substr(0, 80));
  }
  EXPECT_EQ(rig.origin_requests(), requested) << "bytes of a refused tunnel reached the origin";
  const auto logged = [&] {
    for (const std::string& verdict : rig.host.verdicts()) {
      if (verdict.find("\"rule\":\"server-name\"") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(HostRig::eventually(logged));
}

TEST_F(TunnelAttack, ConnectIsReadStrictly) {  // ADV-C6, ADV-C23
  const std::string at = rig.authority();
  expect_refused(rig.open_sandbox(),
                 {"CONNECT " + at + " HTTP/1.1\r\nHost: denied.example.com:443\r\n\r\n",
                  "CONNECT " + at + " HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
                  "CONNECT " + at + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                  "CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\nHost: " + at + "\r\n\r\n",
                  "CONNECT http://" + at + "/ HTTP/1.1\r\n\r\n", "CONNECT " + at + "/ HTTP/1.1\r\n\r\n",
                  "CONNECT " + at + " " + at + " HTTP/1.1\r\n\r\n", "CONNECT  HTTP/1.1\r\n\r\n",
                  "CONNECT " + at + " HTTP/1.1\r\nX\r\n\r\n", "CONNECT user:x@" + at + " HTTP/1.1\r\n\r\n",
                  "CONNECT " + at + "#x HTTP/1.1\r\n\r\n", "CONNECT " + at + "?x HTTP/1.1\r\n\r\n"});
}

TEST_F(TunnelAttack, SlowAndHalfOpenClientsEnd) {  // ADV-C29
  const std::string code = R"py(
ends=[]
def one(bytes_of):
  s=socket.create_connection(PROXY,15); s.settimeout(15)
  try:
    for i in range(100 if bytes_of else 0):
      s.sendall(bytes_of(i)); time.sleep(0.1)
  except OSError: pass
  if not read_all(s).endswith(b'<open>'): ends.append(1)
head=b'GET http://allowed.example.com:%d/ HTTP/1.1\r\n'%PORT
kinds=[lambda i: head[i:i+1] or b'X', lambda i: b'X: y\r\n' if i else head, None]
threads=[threading.Thread(target=one,args=(k,)) for k in kinds]
[t.start() for t in threads]
[t.join() for t in threads]
s,st=tunnel('allowed.example.com:%d'%PORT)
print(st, 'closed' if not read_all(s).endswith(b'<open>') else 'open')   # a tunnel in which nothing is said
print(len(ends))
)py";
  EXPECT_EQ(rig.python(rig.open_sandbox(), code), "200 closed\n3\n");
}

TEST_F(TunnelAttack, OneSandboxsManyConnectionsAreCutAndAnotherSandboxIsServed) {  // ADV-C29
  const pid_t proxy = rig.host.egress_pid();
  const std::size_t memory = HostRig::resident_kib(proxy);
  // Fourteen processes, since one may have a thousand descriptors; what is refused is held open as well.
  auto flood = rig.background(rig.open_sandbox(), R"py(
def flood():
  turned=0
  for i in range(800):
    s=socket.create_connection(PROXY,30); held.append(s)
    if i==100: open('/tmp/flooding','w').close()
    s.settimeout(0.02)
    try: turned+=b'503' in s.recv(100)
    except OSError: pass
  return turned
ends=[]; held=[]
until,end=os.pipe()
for i in range(14):
  r,w=os.pipe()
  if os.fork()==0:
    os.close(end); os.write(w,b'%d'%flood()); os.read(until,1); os._exit(0)
  os.close(w); ends.append(r)
turned=sum(int(os.read(r,20)) for r in ends)
print('all' if turned>=10000 else turned)
open('/tmp/held','w').close()
while not os.path.exists('/tmp/enough'): time.sleep(0.01)
)py");
  const auto inside = [&](const std::string& path) {
    return HostRig::eventually(
        [&] { return rig.shell(rig.open_sandbox(), "ls " + path + " 2>/dev/null") == path + "\n"; }, 60'000);
  };
  const auto other_is_served = [&] {
    return rig.statuses(rig.closed_sandbox(), {connect_head(rig.authority())}) ==
           std::vector<std::string>{"403"};
  };
  ASSERT_TRUE(inside("/tmp/flooding"));
  EXPECT_TRUE(other_is_served());
  ASSERT_TRUE(inside("/tmp/held"));
  EXPECT_TRUE(other_is_served());
  EXPECT_LT(HostRig::resident_kib(proxy), memory + (16u << 10));
  if (::geteuid() == 0) EXPECT_LT(HostRig::open_descriptors(proxy), 4 * NetworkRig::max_connections);
  rig.shell(rig.open_sandbox(), "touch /tmp/enough");
  const auto ended = flood.get();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->out, "all\n") << ended->err;
  // What was held is gone with the program, and the sandbox is served again.
  EXPECT_TRUE(HostRig::eventually([&] {
    return rig.statuses(rig.open_sandbox(), {get_head(rig.authority())}) == std::vector<std::string>{"200"};
  }));
}

TEST_F(TunnelAttack, OneHostGetsNoMoreBytesThanItsShare) {  // ADV-C30
  const auto sandbox = rig.make("uploader", rig.usual_rules());
  const std::string code = R"py(
at=b'allowed.example.com:%d'%PORT
half=NETWORK//2+1000
def put(size):
  return status(ask(b'PUT http://'+at+b'/x HTTP/1.1\r\nHost: '+at+b'\r\nContent-Length: %d\r\n\r\n'%size+b'x'*size))
print(put(1000), put(half), put(half), put(10))
)py";
  std::string sized = code;
  sized.replace(sized.find("NETWORK"), 7, std::to_string(NetworkRig::max_host_bytes));
  EXPECT_EQ(rig.python(sandbox, sized), "200 200 closed 403\n");
  const auto logged = [&] {
    for (const std::string& verdict : rig.host.verdicts()) {
      if (verdict.find("host-byte-cap") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(HostRig::eventually(logged));
  EXPECT_TRUE(rig.host.destroy(sandbox));
}

TEST_F(TunnelAttack, NarrowedRulesCloseTheTunnelsThatTheyNoLongerAllow) {  // ADV-C33
  const auto sandbox = rig.make("narrowed", rig.usual_rules());
  auto held = rig.background(sandbox, hold_tunnel("print(st,read_all(s))\n"));
  ASSERT_TRUE(tunnel_is_open(sandbox));
  ASSERT_TRUE(rig.host.allow(sandbox, {{"", "other.example.com", {443}, {}}}));
  const auto ended = held.get();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->out, "200 b''\n") << ended->err;
  EXPECT_EQ(rig.statuses(sandbox, {get_head(rig.authority())}), std::vector<std::string>{"403"});
  EXPECT_TRUE(rig.host.destroy(sandbox));
}

// V15, ADV-E10: the next holder of a sandbox finds no tunnel and no rule of the last one, and the last one's
// token is worth nothing.
TEST_F(TunnelAttack, TunnelsEndWithTheirLeaseBeforeTheNextBegins) {
  const auto first = rig.make("passed-on", rig.usual_rules(), 5);
  auto held = rig.background(first, hold_tunnel("print(st,read_all(s))\n"));
  ASSERT_TRUE(tunnel_is_open(first));
  const provider::SandboxRef second{"passed-on", 6};
  // The first thing that the next holder does: the tunnel is closed by then.
  EXPECT_EQ(rig.statuses(second, {get_head(rig.authority()), connect_head(rig.authority())}),
            (std::vector<std::string>{"403", "403"}));
  const auto ended = held.get();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->out, "200 b''\n") << ended->err;
  const auto fenced = rig.host.exec(first, rig.host.shell("true"));
  ASSERT_FALSE(fenced.has_value());
  EXPECT_EQ(fenced.error().code, Code::lease_fenced);
  const auto late = rig.host.allow(first, rig.usual_rules());
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::lease_fenced);
  EXPECT_TRUE(rig.host.allow(second, rig.usual_rules()));
  EXPECT_EQ(rig.statuses(second, {get_head(rig.authority())}), std::vector<std::string>{"200"});
  const auto logged = [&] {
    for (const std::string& verdict : rig.host.verdicts()) {
      if (verdict.find("\"sandbox\":\"passed-on\",\"token\":6") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(HostRig::eventually(logged));
  EXPECT_TRUE(rig.host.destroy(second));
}

TEST_F(TunnelAttack, TunnelsEndWithTheSandbox) {  // V15
  const auto sandbox = rig.make("ending", rig.usual_rules());
  auto held = rig.background(sandbox, hold_tunnel("time.sleep(60)\n"));
  ASSERT_TRUE(tunnel_is_open(sandbox));
  const int before = rig.origin_requests();
  EXPECT_TRUE(rig.host.destroy(sandbox));
  EXPECT_FALSE(held.get().has_value());
  // The origin's end of the tunnel is closed as well: it counts a tunnel when it has read to the end.
  EXPECT_TRUE(HostRig::eventually([&] { return rig.origin_requests() > before; }));
}

}  // namespace
}  // namespace sandglass::tests::security
