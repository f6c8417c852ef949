// A real sandglass-host process on a data folder of its own, and a client that waits for its answers. The
// destructor stops the host in order and looks that nothing of its sandboxes is left on the machine.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sandbox-runtime/client/host_client.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Result;
using engine::base::Status;

/// A tree in memory, as source and as sink.
class MemoryTree final : public provider::TreeSource, public provider::TreeSink {
 public:
  struct Item {
    provider::TreeEntry entry;
    std::string content;
  };
  void file(const std::string& path, std::string content, bool executable = false);
  void folder(const std::string& path);
  void link(const std::string& path, const std::string& target);
  std::map<std::string, Item> items;

  Result<std::optional<provider::TreeEntry>> next() override;
  Result<std::size_t> read(std::span<char> out) override;
  Status begin(const provider::TreeEntry& entry) override;
  Status data(std::string_view bytes) override;
  Status end() override { return {}; }

 private:
  std::map<std::string, Item>::iterator at_;
  bool started_ = false;
  std::size_t read_ = 0;
  Item* writing_ = nullptr;
};

class HostRig {
 public:
  explicit HostRig(std::int64_t grace_ms = 30'000);
  ~HostRig();

  void start_host();
  void kill_host();  // SIGKILL
  /// A real proxy on the place where the host looks for it; `config`: a serialized NetworkConfig.
  void start_egress(const std::string& config);
  void kill_egress();
  /// Waits for the end of a proxy that has a crash point; true if it was a crash.
  bool egress_was_killed();
  /// Kills hosts and proxies that are started from here on at this crash point; empty: none.
  void crash_at(const std::string& point) { crash_at_ = point; }
  /// Waits for its end by itself; its exit status.
  int wait_host();
  pid_t host_pid() const { return host_; }
  pid_t egress_pid() const { return egress_; }
  client::HostClient& client() { return *client_; }
  void connect();
  void disconnect() { client_.reset(); }
  const std::string& data() const { return data_; }
  std::string socket() const { return data_ + "/host/host.sock"; }

  /// 256 MiB, 64 pids, 32 MiB disk; what cannot be enforced here is best effort.
  static provider::Template small_template();
  provider::SandboxRef make(provider::Template tmpl = small_template(), std::int64_t life_ms = 300'000);
  Result<provider::Created> create(provider::CreateRequest request);
  Result<provider::ExecResult> exec(provider::SandboxRef sandbox, provider::ExecRequest request);
  std::future<Result<provider::ExecResult>> begin(provider::SandboxRef sandbox, provider::ExecRequest request,
                                                  provider::OutputCallback on_output = {});
  provider::ExecRequest shell(const std::string& script, const std::string& key = {});
  Status destroy(provider::SandboxRef sandbox);
  Status allow(provider::SandboxRef sandbox, std::vector<provider::AllowedDestination> destinations);
  /// Every verdict of the proxy so far, as a line of JSON each.
  std::vector<std::string> verdicts();
  Status kill_exec(provider::SandboxRef sandbox, const std::string& key);
  Result<provider::TreeResult> put(provider::SandboxRef sandbox, const std::string& path,
                                   std::shared_ptr<MemoryTree> tree);
  Result<provider::TreeResult> get(provider::SandboxRef sandbox, const std::string& path,
                                   std::shared_ptr<MemoryTree> tree);
  Result<provider::Manifest> list(provider::SandboxRef sandbox, const std::string& path);
  Result<std::vector<provider::InventoryItem>> inventory();

  /// Processes of this machine whose command line contains the text.
  static std::size_t processes_with(const std::string& text);
  static std::size_t resident_kib(pid_t pid);
  static std::size_t open_descriptors(pid_t pid);
  /// What carries this data folder's name: control groups, mounts.
  std::vector<std::string> left_on_machine() const;
  /// Host process id of the first process of the newest sandbox.
  pid_t init_pid() const;
  static bool eventually(const std::function<bool()>& done, int ms = 10'000);

 private:
  std::string data_;
  std::string id_;
  std::int64_t grace_ms_;
  pid_t host_ = -1;
  pid_t egress_ = -1;
  std::string crash_at_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::string> verdicts_;
  std::unique_ptr<client::HostClient> client_;
  int count_ = 0;
};

}  // namespace sandglass::sandbox_runtime::host
