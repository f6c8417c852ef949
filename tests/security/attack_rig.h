// One real host for the whole program, and the attack program in every sandbox.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <initializer_list>
#include <string>

#include "tests/support/host/host_rig.h"

namespace sandglass::tests {

using engine::base::Result;
using sandbox_runtime::host::HostRig;
using sandbox_runtime::host::MemoryTree;
namespace provider = sandbox_runtime::provider;
using provider::ExecResult;
using provider::LimitKind;

/// Word that was planted all over the machine before the first test (V6).
const std::string& canary();
inline bool is_root() {
  return ::geteuid() == 0;
}
inline bool is_long() {
  return ::getenv("SANDGLASS_LONG") != nullptr;
}

/// "exit 0 signal 0 [pids: …] out '…'", for messages.
std::string describe(const Result<ExecResult>& result);
/// The kinds of limits that were hit, by name, sorted: "memory pids".
std::string hits(const Result<ExecResult>& result);

/// A folder with host, keeper and this program as init; it goes with the object.
class ProgramFolder {
 public:
  explicit ProgramFolder(const std::string& init);
  ~ProgramFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class AttackTest : public testing::Test {
 protected:
  void TearDown() override { (void)rig().destroy(box_); }
  static HostRig& rig();
  /// A sandbox with /workspace/attack in it.
  static provider::SandboxRef make(provider::Template tmpl = HostRig::small_template());
  static provider::ExecRequest request(const std::vector<std::string>& attack,
                                       provider::ExecLimits limits = {});
  Result<ExecResult> attack(const std::vector<std::string>& attack, provider::ExecLimits limits = {}) {
    return rig().exec(box_, request(attack, limits));
  }
  Result<ExecResult> shell(const std::string& script) { return rig().exec(box_, rig().shell(script)); }
  /// The attack got nothing, and the sandbox is as usable as before.
  void expect_held(const std::vector<std::string>& attack);

  provider::SandboxRef box_ = make();
};

}  // namespace sandglass::tests
