#include "sandbox-runtime/provider/linux/server_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <utility>

#include "engine/base/log.h"
#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::UniqueFd;

namespace {

/// Of this process in the hierarchy of `controller` (v1) or the unified tree (""), from /proc/self/cgroup:
/// "4:cpu,cpuacct:/a/b", "0::/a/b".
std::string own_group(std::string_view controller) {
  std::istringstream lines(read_file("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == "," + std::string(controller) + "," ||
        (!controller.empty() && controllers.find("," + std::string(controller) + ",") != std::string::npos)) {
      return line.substr(second + 1);
    }
  }
  return "";
}

}  // namespace

Result<UniqueFd> Cgroups::make_server_group(const std::string& name) const {
  const Root* root = root_of(Controller::cpu);
  if (root == nullptr) return UniqueFd();
  const std::string path = root->path + "/" + name;
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    return fail(Code::provider_failed, "control group " + path + ": " + error_text(errno));
  if (auto favoured = set_cpu_factor(name, kServerFactor); !favoured)
    return std::unexpected(favoured.error());
  // A process with one thread enters v1 by `tasks`, which costs no lock over the whole machine.
  UniqueFd door(::open((path + (root->unified ? "/cgroup.procs" : "/tasks")).c_str(), O_WRONLY | O_CLOEXEC));
  if (!door) return fail(Code::provider_failed, "control group " + path + ": " + error_text(errno));
  return door;
}

bool Cgroups::remove_server_group(const std::string& name) const {
  const Root* root = root_of(Controller::cpu);
  return root == nullptr || ::rmdir((root->path + "/" + name).c_str()) == 0 || errno != EBUSY;
}

std::uint64_t Cgroups::own_cpu_factor() const {
  const Root* root = root_of(Controller::cpu);
  if (root == nullptr) return 0;
  const std::string group = own_group(root->unified ? "" : "cpu");
  std::uint64_t value = 0;
  std::istringstream(
      read_file(root->path + group + (root->unified ? "/cpu.weight" : "/cpu.shares")).value_or("")) >>
      value;
  return value / (root->unified ? kSandboxWeight : kSandboxShares);
}

ServerGroup ServerGroup::make(const std::string& data_folder_id) {
  ServerGroup made;
  made.groups_ = Cgroups::find(::geteuid() == 0);
  made.name_ = "sandglass-" + data_folder_id + "-" + kServerGroup;
  auto door = made.groups_.make_server_group(made.name_);
  if (door) {
    made.door_ = std::move(*door);
  } else {
    engine::base::log(engine::base::LogLevel::warning, "server_group_missing",
                      {{"reason", door.error().message}});
  }
  return made;
}

void ServerGroup::remove() {
  if (!door_) return;
  door_.reset();
  // The keeper, nobody's child any more, ends a moment after the host.
  constexpr int kTries = 200;
  constexpr timespec kPause{0, 5'000'000};
  for (int i = 0; i < kTries && !groups_.remove_server_group(name_); ++i) ::nanosleep(&kPause, nullptr);
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
