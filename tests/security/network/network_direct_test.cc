// Ways round the proxy, tried from inside: there are none.
#include <arpa/inet.h>
#include <netdb.h>

#include <set>

#include "tests/security/network/network_rig.h"

namespace sandglass::tests::security {
namespace {

/// Every address of this machine that is not loopback.
std::vector<std::string> own_addresses() {
  std::set<std::string> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(entry->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const std::string address = std::string(text).substr(0, std::string_view(text).find('%'));
    if (address != "::1" && !address.starts_with("127.")) found.insert(address);
  }
  ::freeifaddrs(list);
  return {found.begin(), found.end()};
}

std::string as_python(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += "'" + text + "',";
  return out + "]";
}

// ADV-C1, ADV-C11, ADV-C26, ADV-C34, FR-163: by every transport, to every kind of address.
TEST_F(NetworkAttack, NothingLeavesDirectly) {
  std::vector<std::string> addresses = {
      "1.1.1.1",         "8.8.8.8",     "10.0.0.1",        "100.64.0.1",    "169.254.169.254", "172.16.0.1",
      "192.0.2.1",       "192.168.0.1", "198.18.0.1",      "203.0.113.80",  "224.0.0.1",       "224.0.0.251",
      "255.255.255.255", "240.0.0.1",   "2606:4700::1111", "2001:db8::1",   "fe80::1",         "fd00::1",
      "ff02::1",         "ff02::fb",    "64:ff9b::7f00:1", "::ffff:8.8.8.8"};
  for (const std::string& own : own_addresses()) addresses.push_back(own);
  const std::string code = "for a in " + as_python(addresses) + R"py(:
  family=socket.AF_INET6 if ':' in a else socket.AF_INET
  for kind,proto,name in ((socket.SOCK_STREAM,0,'tcp'),(socket.SOCK_DGRAM,0,'udp'),(socket.SOCK_STREAM,132,'sctp'),
                          (socket.SOCK_SEQPACKET,132,'sctp'),(socket.SOCK_DGRAM,1,'ping'),(socket.SOCK_RAW,1,'icmp'),
                          (socket.SOCK_DGRAM,136,'udplite'),(6,33,'dccp')):
    for port in (53,80,443,853,5353,TRAP):
      try:
        s=socket.socket(family,kind,proto)
        s.setsockopt(socket.SOL_SOCKET,socket.SO_BROADCAST,1) if kind==socket.SOCK_DGRAM else None
        s.settimeout(2)
        if kind==socket.SOCK_STREAM or kind==socket.SOCK_SEQPACKET: s.connect((a,port))
        else: s.sendto(b'x',(a,port))
        print('LEFT',name,a,port)
      except socket.timeout: print('SILENT',name,a,port)
      except OSError as e:
        if e.errno not in (errno.ENETUNREACH,errno.EHOSTUNREACH,errno.EPERM,errno.EACCES,errno.EAFNOSUPPORT,
                           errno.EPROTONOSUPPORT,errno.ESOCKTNOSUPPORT,errno.EADDRNOTAVAIL,errno.EINVAL):
          print('ODD',name,a,port,errno.errorcode[e.errno])
)py";
  EXPECT_EQ(rig.python(rig.open_sandbox(), code), "");
}

// ADV-C34, FR-164: what listens on this machine's loopback is not the sandbox's loopback; the name server and
// the proxy's own addresses are not there either.
TEST_F(NetworkAttack, TheMachinesLoopbackIsNotTheSandboxes) {
  const int looked_up = rig.dns.queries();
  const std::string code = R"py(
for a in ('127.0.0.1','127.0.0.2','127.1.2.3','0.0.0.0','::1','::'):
  for port in (TRAP,PORT,DNS,22,53,7233):
    s=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET)
    s.settimeout(3)
    try: s.connect((a,port)); print('LEFT',a,port)
    except OSError as e:
      if e.errno not in (errno.ECONNREFUSED,errno.ENETUNREACH,errno.EADDRNOTAVAIL,errno.EAFNOSUPPORT): print('ODD',a,port,e)
    u=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET,socket.SOCK_DGRAM)
    try: u.sendto(b'x'*20,(a,port))
    except OSError: pass
# Only the proxy's listener is there.
found=[]
for port in range(1,65536):
  s=socket.socket(); s.settimeout(1)
  # A port that the kernel has just chosen for this very socket answers itself.
  if s.connect_ex(('127.0.0.1',port))==0 and s.getsockname()!=s.getpeername(): found.append(port)
  s.close()
print(found)
)py";
  EXPECT_EQ(rig.python(rig.open_sandbox(), code), "[3128]\n");
  EXPECT_EQ(rig.dns.queries(), looked_up);
}

// ADV-C2: a client that is told to use no proxy gets nowhere.
TEST_F(NetworkAttack, ClientsThatIgnoreTheProxyGetNowhere) {
  for (const std::string& command :
       {"curl -s -m 5 --noproxy '*' http://" + rig.authority() + "/",
        "env -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy curl -s -m 5 http://" +
            rig.authority() + "/",
        std::string("env -u http_proxy -u HTTP_PROXY curl -s -m 5 http://127.0.0.1:") +
            std::to_string(rig.trap.port()) + "/",
        std::string("NO_PROXY='*' no_proxy='*' curl -s -m 5 http://198.51.100.7/")}) {
    const auto done = rig.host.exec(rig.open_sandbox(), rig.host.shell(command));
    ASSERT_TRUE(done.has_value());
    EXPECT_NE(done->exit_code, 0) << command;
    EXPECT_EQ(done->out, "") << command;
  }
  EXPECT_EQ(rig.shell(rig.open_sandbox(),
                      "echo \"[$NO_PROXY$no_proxy]\"; curl -s -m 10 http://" + rig.authority() + "/"),
            "[]\nhello");
}

// ADV-C34, ADV-B21, FR-166: two sandboxes have no way to each other, and no socket of the machine is in view.
TEST_F(NetworkAttack, SandboxesDoNotMeetAndNoSocketOfTheMachineIsInView) {
  auto listening = rig.background(rig.closed_sandbox(), R"py(
s=socket.socket(); s.bind(('0.0.0.0',5555)); s.listen()
u=socket.socket(socket.AF_UNIX); u.bind('\0meeting'); u.listen()
w=socket.socket(socket.AF_UNIX); w.bind('/tmp/meeting'); w.listen()
open('/tmp/ready','w').close()
s.settimeout(20)
try: s.accept(); print('MET')
except socket.timeout: print('alone')
)py");
  ASSERT_TRUE(sandbox_runtime::host::HostRig::eventually(
      [&] { return rig.shell(rig.closed_sandbox(), "ls /tmp/ready 2>/dev/null") == "/tmp/ready\n"; }));
  const std::string code = R"py(
for a in ('127.0.0.1','10.0.0.1','198.18.0.1'):
  s=socket.socket(); s.settimeout(3)
  try: s.connect((a,5555)); print('MET',a)
  except OSError: pass
for path in ('\0meeting','/tmp/meeting'):
  u=socket.socket(socket.AF_UNIX)
  try: u.connect(path); print('MET',path)
  except OSError: pass
for target in ('127.0.0.1:5555','localhost:5555'):
  print(status(ask(b'CONNECT '+target.encode()+b' HTTP/1.1\r\n\r\n')))
for line in open('/proc/net/unix').read().splitlines()[1:]:
  name=line.split()[7:]
  if not name: continue
  u=socket.socket(socket.AF_UNIX)
  try: u.connect(name[0].replace('@','\0',1)); print('SOCKET',name)
  except OSError: pass
)py";
  EXPECT_EQ(rig.python(rig.open_sandbox(), code), "403\n403\n");
  EXPECT_EQ(rig.shell(rig.open_sandbox(), "find / -path /proc -prune -o -type s -print 2>/dev/null"), "");
  rig.shell(rig.closed_sandbox(), "pkill -f meeting; true");
  const auto ended = listening.get();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->out.find("MET"), std::string::npos) << ended->out;
}

// ADV-B23, V8: no netlink, packet, vsock or key sockets; what getaddrinfo and curl need works without them.
TEST_F(NetworkAttack, OnlyInternetAndUnixSocketsExist) {
  const std::string code = R"py(
for family in (4,5,9,10,15,16,17,29,30,31,38,40,44):  # IPX … netlink 16, packet 17, CAN, TIPC, Bluetooth, ALG, vsock, XDP
  if family==10: continue
  for kind in (1,2,3,5):
    try: socket.socket(family,kind,0); print('OPEN',family,kind)
    except OSError as e:
      if e.errno not in (errno.EAFNOSUPPORT,errno.EPERM,errno.EACCES): print('ODD',family,kind,errno.errorcode[e.errno])
print(socket.getaddrinfo('localhost',80,socket.AF_INET,socket.SOCK_STREAM)[0][4])
try: socket.if_nameindex(); print('interfaces are listed')
except OSError: print('interfaces are not listed')
)py";
  EXPECT_EQ(rig.python(rig.open_sandbox(), code), "('127.0.0.1', 80)\ninterfaces are not listed\n");
}

}  // namespace
}  // namespace sandglass::tests::security
