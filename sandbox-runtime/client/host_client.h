// Provider over the socket of sandglass-host. Connects by itself, again and again; what was asked for and not
// answered is asked again on a new connection, execs go on at the offset that was reached. A host that stays
// away for `give_up_ms` fails what waits with host_unreachable. Thread rule: every call from any thread;
// answers come on the client's one thread and must not block it for long. Answers still open when the client
// is destroyed come with `cancelled` from the destructor.
#pragma once

#include <memory>
#include <string>

#include "sandbox-runtime/provider/provider.h"

namespace sandglass::sandbox_runtime::client {

struct HostClientOptions {
  std::string socket_path;
  std::int64_t give_up_ms = 30'000;
  /// A connection on which nothing came for so long, beats included, counts as lost (FR-145).
  std::int64_t silence_ms = 10'000;
};

/// What the host says without being asked. Both may be empty; called on the client's thread.
struct HostEvents {
  std::function<void(const provider::SandboxRef& sandbox, const engine::base::Error& why)> sandbox_ended;
  /// One NetworkVerdict, serialized (schemas/sandglass/frame/v1/network.proto).
  std::function<void(const std::string& verdict)> network_verdict;
};

class HostClient final : public provider::Provider {
 public:
  explicit HostClient(HostClientOptions options, HostEvents events = {});
  ~HostClient() override;

  void create(provider::CreateRequest request, provider::Answer<provider::Created> answer) override;
  void renew(provider::SandboxRef sandbox, std::int64_t expires_at_ms,
             provider::Answer<void> answer) override;
  void destroy(provider::SandboxRef sandbox, provider::Answer<void> answer) override;
  void allow(provider::SandboxRef sandbox, std::vector<provider::AllowedDestination> destinations,
             provider::Answer<void> answer) override;
  void inventory(provider::Answer<std::vector<provider::InventoryItem>> answer) override;
  void features(provider::Answer<std::vector<provider::Feature>> answer) override;
  void exec(provider::SandboxRef sandbox, provider::ExecRequest request, provider::OutputCallback on_output,
            provider::Answer<provider::ExecResult> answer) override;
  void kill_exec(provider::SandboxRef sandbox, std::string key, provider::Answer<void> answer) override;
  void put_tree(provider::SandboxRef sandbox, std::string path, std::shared_ptr<provider::TreeSource> source,
                provider::Answer<provider::TreeResult> answer) override;
  void get_tree(provider::SandboxRef sandbox, std::string path, std::shared_ptr<provider::TreeSink> sink,
                provider::Answer<provider::TreeResult> answer) override;
  void list_tree(provider::SandboxRef sandbox, std::string path,
                 provider::Answer<provider::Manifest> answer) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandglass::sandbox_runtime::client
