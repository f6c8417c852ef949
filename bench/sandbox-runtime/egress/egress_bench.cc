// What the proxy adds (goal: at most 0.3 ms a request): the same request to the same server on loopback,
// directly and through the proxy, in turns in the same run; and a round trip of one byte in an open tunnel.
#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <thread>

#include "bench/measure.h"
#include "engine/base/check.h"
#include "sandbox-runtime/egress/egress.h"
#include "sandbox-runtime/frames/frame.h"
#include "schemas/sandglass/frame/v1/egress.pb.h"
#include "tests/support/raw_server.h"
#include "tests/support/temp_folder.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

namespace pb = ::sandglass::frame::v1;
using bench::percentile;
using bench::since_us;
using bench::SteadyClock;
using engine::base::UniqueFd;
using tests::support::Peer;

const std::string name = "bench.example.com";

/// A proxy with one sandbox that may reach `origin`.
class Bench {
 public:
  explicit Bench(std::uint16_t origin) : authority(name + ":" + std::to_string(origin)) {
    pb::NetworkConfig config;
    config.add_resolvers("127.0.0.1");
    auto* host = config.add_hosts();
    host->set_name(name);
    host->add_addresses("127.0.0.1");
    auto* internal = config.add_internal();
    internal->set_host(name);
    internal->set_port(origin);
    internal->set_range("127.0.0.1/32");
    const std::string path = folder_.file("control");
    egress_ = std::move(Egress::make(config, std::move(listen_on_path(path).value()), {::getuid()}).value());
    loop_ = std::thread([this] { egress_->run(); });
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    control_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SG_CHECK(::connect(control_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
             "connect");

    const UniqueFd listener = tests::support::listen_on_loopback(port);
    pb::EgressRequest add;
    add.mutable_add_listener()->set_sandbox("s");
    send(add, {listener.get()});
    pb::EgressRequest begin;
    begin.mutable_begin_lease()->set_sandbox("s");
    begin.mutable_begin_lease()->set_token(1);
    auto* rule = begin.mutable_begin_lease()->add_rules();
    rule->set_host(name);
    rule->add_ports(origin);
    rule->set_raw_tunnel(true);
    send(begin, {});
    reader_ = std::thread([this] {  // takes the verdicts, as a host does
      char bytes[65536];
      while (::recv(control_.get(), bytes, sizeof bytes, 0) > 0) {
      }
    });
  }
  ~Bench() {
    egress_->stop();
    loop_.join();
    ::shutdown(control_.get(), SHUT_RDWR);
    reader_.join();
  }

  const std::string authority;
  std::uint16_t port = 0;

 private:
  void send(const pb::EgressRequest& request, const std::vector<int>& descriptors) {
    frames::FrameWriter writer;
    SG_CHECK(writer.push(request.SerializeAsString(), descriptors).has_value(), "push");
    SG_CHECK(writer.flush(control_.get()).has_value(), "flush");
  }

  tests::support::TempFolder folder_;
  std::unique_ptr<Egress> egress_;
  UniqueFd control_;
  std::thread loop_;
  std::thread reader_;
};

void report(benchmark::State& state, const std::vector<double>& direct, const std::vector<double>& proxied) {
  state.counters["direct_p50_us"] = percentile(direct, 0.5);
  state.counters["p50_us"] = percentile(proxied, 0.5);
  state.counters["p99_us"] = percentile(proxied, 0.99);
  state.counters["added_p50_us"] = percentile(proxied, 0.5) - percentile(direct, 0.5);
  state.counters["ratio_to_direct"] = percentile(proxied, 0.5) / percentile(direct, 0.5);
}

void plain_request(benchmark::State& state) {
  tests::support::RawServer origin([](Peer& peer) {
    peer.read_until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  Bench bench(origin.port());
  const std::string proxied_request =
      "GET http://" + bench.authority + "/ HTTP/1.1\r\nHost: " + bench.authority + "\r\n\r\n";
  const std::string direct_request = "GET / HTTP/1.1\r\nHost: " + bench.authority + "\r\n\r\n";
  std::vector<double> direct;
  std::vector<double> proxied;
  for (auto _ : state) {
    auto start = SteadyClock::now();
    {
      Peer client = tests::support::connect_to(origin.port());
      client.send(direct_request);
      SG_CHECK(client.read_until("ok").ends_with("ok"), "direct");
    }
    direct.push_back(since_us(start));
    start = SteadyClock::now();
    {
      Peer client = tests::support::connect_to(bench.port);
      client.send(proxied_request);
      SG_CHECK(client.read_until("ok").ends_with("ok"), "proxied");
    }
    proxied.push_back(since_us(start));
    state.SetIterationTime(proxied.back() / 1e6);
  }
  report(state, direct, proxied);
  state.SetLabel("a connection and a GET each time, both ways");
}
BENCHMARK(plain_request)->UseManualTime()->Iterations(1000)->Unit(benchmark::kMicrosecond);

void tunnel_round_trip(benchmark::State& state) {
  tests::support::RawServer origin([](Peer& peer) {
    for (std::string byte; !(byte = peer.read_exactly(1)).empty();) peer.send(byte);
  });
  Bench bench(origin.port());
  Peer tunnel = tests::support::connect_to(bench.port);
  tunnel.send("CONNECT " + bench.authority + " HTTP/1.1\r\n\r\n");
  SG_CHECK(tunnel.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"), "tunnel");
  Peer straight = tests::support::connect_to(origin.port());
  std::vector<double> direct;
  std::vector<double> proxied;
  for (auto _ : state) {
    auto start = SteadyClock::now();
    straight.send("x");
    straight.read_exactly(1);
    direct.push_back(since_us(start));
    start = SteadyClock::now();
    tunnel.send("x");
    tunnel.read_exactly(1);
    proxied.push_back(since_us(start));
    state.SetIterationTime(proxied.back() / 1e6);
  }
  report(state, direct, proxied);
  state.SetLabel("one byte there and back in an open tunnel");
}
BENCHMARK(tunnel_round_trip)->UseManualTime()->Iterations(3000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sandglass::sandbox_runtime::egress

BENCHMARK_MAIN();
