// Real Apache Kafka brokers on the loopback interface, for the tests of one program: made by scripts/kafka,
// started by this process, and ended with it, however it ends. What they store is deleted.
//
// Where no jars are and SANDGLASS_NO_REGISTRY is set, the program ends with status 77, which ctest shows as
// skipped. Thread rule: one thread at a time.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"

namespace sandglass::tests::support {

class Brokers {
 public:
  /// Those that all tests of a program share: started at the first call, ended with the program.
  static Brokers& one();
  static Brokers& three();

  /// `settings`: lines of server.properties that win over those of scripts/kafka, which says what {folder},
  /// {number}, {client}, {controller} and {secure} stand for in them. `version`: another release of Kafka
  /// than scripts/kafka has.
  explicit Brokers(int count, const std::string& settings = {}, const std::string& version = {});
  ~Brokers();
  Brokers(const Brokers&) = delete;
  Brokers& operator=(const Brokers&) = delete;

  int count() const { return static_cast<int>(brokers_.size()); }
  /// host:port,…
  const std::string& bootstrap() const { return bootstrap_; }
  /// host:port of one broker's plain listener, and of the ports for the listeners that `settings` may make.
  const std::string& address(int number) const { return at(number).address; }
  const std::string& tls_address(int number) const { return at(number).tls; }
  const std::string& sasl_address(int number) const { return at(number).sasl; }
  /// The folder of a broker: `server.properties`, `log`, `data`. Without a number: where all of them are.
  std::string folder(int number) const { return folder_ + "/" + std::to_string(number); }
  const std::string& folder() const { return folder_; }

  /// Numbers begin with 1 and are the broker ids. All of these wait until it is so.
  void start(int number);      // after kill or terminate: ready to serve
  void kill(int number);       // SIGKILL
  void terminate(int number);  // SIGTERM, in good order
  void pause(int number);      // SIGSTOP: its connections stay open and nothing answers
  void resume(int number);     // SIGCONT
  bool runs(int number) const { return at(number).pid > 0; }
  /// Kills all, then starts all: in a cluster of three none gets ready alone.
  void restart_all();
  /// Every broker runs and is not paused: for the beginning of a test that shares them.
  void heal();

 private:
  struct Broker {
    std::string address;
    std::string tls;
    std::string sasl;
    pid_t pid = -1;
    engine::base::UniqueFd pidfd;
    bool paused = false;
  };

  const Broker& at(int number) const { return brokers_.at(static_cast<std::size_t>(number - 1)); }
  Broker& at(int number) { return brokers_.at(static_cast<std::size_t>(number - 1)); }
  void launch(int number);
  void wait_ready(int number);
  void reap(int number);

  class Launcher;
  std::unique_ptr<Launcher> launcher_;
  std::string folder_;
  std::string bootstrap_;
  std::vector<Broker> brokers_;
};

}  // namespace sandglass::tests::support
