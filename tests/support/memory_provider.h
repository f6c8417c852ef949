// Sandboxes in memory: files, fences, and commands that the test plays. Answers come at once, on the caller's
// thread.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sandbox-runtime/provider/provider.h"

namespace sandglass::tests {

namespace provider = sandbox_runtime::provider;

class MemoryProvider final : public provider::Provider {
 public:
  struct File {
    bool executable = false;
    bool symlink = false;
    std::string content;
  };
  using Files = std::map<std::string, File>;  // by path below /workspace
  struct Sandbox {
    std::uint64_t fence = 0;
    Files files;
    std::map<std::string, provider::ExecResult> execs;  // by key
    std::int64_t expires_ms = 0;
    std::vector<provider::AllowedDestination> allow;
  };
  /// Plays a command.
  using Command = std::function<provider::ExecResult(Files&, const provider::ExecRequest&)>;

  explicit MemoryProvider(Command command = {}) : command_(std::move(command)) {}

  std::map<std::string, Sandbox> sandboxes;
  std::vector<std::string> calls;  // "create", "exec ls", …
  engine::base::Error create_error{engine::base::Code::ok, ""};
  std::string created_provider = "memory";

  void create(provider::CreateRequest request, provider::Answer<provider::Created> answer) override {
    calls.push_back("create");
    if (create_error.code != engine::base::Code::ok) return answer(std::unexpected(create_error));
    Sandbox& sandbox = sandboxes[request.spec.id];
    sandbox.fence = std::max(sandbox.fence, request.fence);
    sandbox.expires_ms = request.expires_at_ms;
    answer(provider::Created{.id = request.spec.id, .provider = created_provider});
  }
  void renew(provider::SandboxRef ref, std::int64_t expires, provider::Answer<void> answer) override {
    calls.push_back("renew");
    auto* sandbox = find(ref);
    if (sandbox == nullptr) return answer(lost(ref));
    sandbox->expires_ms = expires;
    answer({});
  }
  void destroy(provider::SandboxRef ref, provider::Answer<void> answer) override {
    calls.push_back("destroy");
    sandboxes.erase(ref.id);
    answer({});
  }
  void allow(provider::SandboxRef ref, std::vector<provider::AllowedDestination> destinations,
             provider::Answer<void> answer) override {
    calls.push_back("allow");
    auto* sandbox = find(ref);
    if (sandbox == nullptr) return answer(lost(ref));
    sandbox->allow = std::move(destinations);
    answer({});
  }
  void inventory(provider::Answer<std::vector<provider::InventoryItem>> answer) override {
    std::vector<provider::InventoryItem> items;
    for (const auto& [id, sandbox] : sandboxes)
      items.push_back({id, sandbox.fence, true, sandbox.expires_ms});
    answer(std::move(items));
  }
  void features(provider::Answer<std::vector<provider::Feature>> answer) override { answer({}); }

  void exec(provider::SandboxRef ref, provider::ExecRequest request, provider::OutputCallback on_output,
            provider::Answer<provider::ExecResult> answer) override {
    calls.push_back("exec " + request.argv.at(0));
    auto* sandbox = find(ref);
    if (sandbox == nullptr) return answer(lost(ref));
    auto known = sandbox->execs.find(request.key);
    if (known == sandbox->execs.end()) {
      known = sandbox->execs.emplace(request.key, command_(sandbox->files, request)).first;
    }
    const provider::ExecResult& result = known->second;
    if (on_output && !result.out.empty()) on_output({provider::OutputStream::out, 0, result.out});
    if (on_output && !result.err.empty()) on_output({provider::OutputStream::err, 0, result.err});
    provider::ExecResult given = result;
    given.out_total = std::max<std::uint64_t>(given.out_total, given.out.size());
    given.err_total = std::max<std::uint64_t>(given.err_total, given.err.size());
    answer(std::move(given));
  }
  void kill_exec(provider::SandboxRef, std::string key, provider::Answer<void> answer) override {
    calls.push_back("kill " + key);
    answer({});
  }

  void put_tree(provider::SandboxRef ref, std::string path, std::shared_ptr<provider::TreeSource> source,
                provider::Answer<provider::TreeResult> answer) override {
    calls.push_back("put " + path);
    auto* sandbox = find(ref);
    if (sandbox == nullptr) return answer(lost(ref));
    provider::TreeResult result;
    for (;;) {
      auto entry = source->next();
      if (!entry) return answer(std::unexpected(entry.error()));
      if (!*entry) break;
      File file{.executable = (*entry)->executable};
      std::array<char, 4096> buffer{};
      for (;;) {
        auto count = source->read(buffer);
        if (!count) return answer(std::unexpected(count.error()));
        if (*count == 0) break;
        file.content.append(buffer.data(), *count);
      }
      result.bytes += file.content.size();
      if ((*entry)->type == provider::EntryType::symlink) {
        file.symlink = true;
        file.content = (*entry)->target;
      }
      if ((*entry)->type != provider::EntryType::folder) {
        sandbox->files[path.empty() ? (*entry)->path : path + "/" + (*entry)->path] = file;
      }
      result.manifest.entries.push_back({**entry, {}});
    }
    answer(std::move(result));
  }
  void get_tree(provider::SandboxRef ref, std::string path, std::shared_ptr<provider::TreeSink> sink,
                provider::Answer<provider::TreeResult> answer) override {
    calls.push_back("get " + path);
    auto* sandbox = find(ref);
    if (sandbox == nullptr) return answer(lost(ref));
    for (const auto& [name, file] : sandbox->files) {
      if (name != path && !name.starts_with(path + "/")) continue;
      provider::TreeEntry entry{.path = name.substr(name.rfind('/') + 1),
                                .executable = file.executable,
                                .size = file.content.size()};
      auto status = sink->begin(entry);
      if (status) status = sink->data(file.content);
      if (status) status = sink->end();
      if (!status) return answer(std::unexpected(status.error()));
    }
    answer(provider::TreeResult{});
  }
  void list_tree(provider::SandboxRef ref, std::string path,
                 provider::Answer<provider::Manifest> answer) override {
    calls.push_back("list " + path);
    auto* sandbox = find(ref);
    if (sandbox == nullptr) return answer(lost(ref));
    provider::Manifest manifest;
    for (const auto& [name, file] : sandbox->files) {
      if (!path.empty() && !name.starts_with(path + "/")) continue;
      provider::ManifestEntry entry;
      entry.entry.path = path.empty() ? name : name.substr(path.size() + 1);
      entry.entry.type = file.symlink ? provider::EntryType::symlink : provider::EntryType::file;
      if (file.symlink) {
        entry.entry.target = file.content;
      } else {
        entry.entry.executable = file.executable;
        entry.entry.size = file.content.size();
        entry.digest = engine::base::sha256(file.content);
      }
      manifest.entries.push_back(std::move(entry));
    }
    answer(std::move(manifest));
  }

 private:
  Sandbox* find(const provider::SandboxRef& ref) {
    const auto found = sandboxes.find(ref.id);
    return found == sandboxes.end() || ref.fence < found->second.fence ? nullptr : &found->second;
  }
  static std::unexpected<engine::base::Error> lost(const provider::SandboxRef& ref) {
    return engine::base::fail(engine::base::Code::sandbox_lost, "no sandbox " + ref.id);
  }

  Command command_;
};

}  // namespace sandglass::tests
