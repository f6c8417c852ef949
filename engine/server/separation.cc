#include "engine/server/separation.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace sandglass::engine::server {

namespace {

struct Needed {
  unsigned capability;
  const char* name;
};
/// To give the folder away and still work in it, to change uids, and to end what has another one.
constexpr Needed kNeeded[] = {{CAP_CHOWN, "CAP_CHOWN"},    {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
                              {CAP_FOWNER, "CAP_FOWNER"},  {CAP_KILL, "CAP_KILL"},
                              {CAP_SETGID, "CAP_SETGID"},  {CAP_SETUID, "CAP_SETUID"},
                              {CAP_SETPCAP, "CAP_SETPCAP"}};

const char* missing_capability() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return "capabilities that can be read";
  for (const auto& [capability, name] : kNeeded) {
    if ((data[capability / 32].effective >> (capability % 32) & 1) == 0) return name;
  }
  return nullptr;
}

/// Whether this user namespace has all ids of the range.
bool has_ids(const char* map, std::uint64_t first) {
  std::ifstream lines(map);
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  while (lines >> inside >> outside >> count) {
    if (first >= inside && first + kHelpers <= inside + count) return true;
  }
  return false;
}

}  // namespace

uid_t Separation::uid_of(Helper helper) const {
  return by_uid ? first_uid + static_cast<std::uint32_t>(helper) : geteuid();
}

gid_t Separation::gid_of(Helper helper) const {
  return by_uid ? first_uid + static_cast<std::uint32_t>(helper) : getegid();
}

std::vector<std::string> Separation::arguments_for(Helper helper) const {
  if (!by_uid) return {};
  return {"--uid", std::to_string(uid_of(helper)), "--gid", std::to_string(gid_of(helper))};
}

Separation find_separation(const ProcessSettings& settings) {
  Separation found{.first_uid = settings.first_uid};
  if (geteuid() != 0) {
    found.reason = "started as uid " + std::to_string(geteuid());
    found.remedy = "start the server as root";
  } else if (settings.first_uid == 0) {
    found.reason = "processes.first_uid is 0";
    found.remedy = "remove that setting";
  } else if (!has_ids("/proc/self/uid_map", found.first_uid) ||
             !has_ids("/proc/self/gid_map", found.first_uid)) {
    found.reason = "uids from " + std::to_string(found.first_uid) + " do not exist in this user namespace";
    found.remedy = "set processes.first_uid to a range of " + std::to_string(kHelpers) + " that does";
  } else if (const char* missing = missing_capability(); missing != nullptr) {
    found.reason = std::string("this root lacks ") + missing;
    found.remedy = std::string("give it to the server's container");
  } else {
    found.by_uid = true;
  }
  return found;
}

Check separation_check(const Separation& separation, const base::Confinement& confinement) {
  Check check{.name = "process separation"};
  if (!confinement.own_uid) {
    const std::string why = separation.by_uid ? "started without a supervisor" : separation.reason;
    check.verdict = "weaker";
    check.detail = "engine, effect and egress share uid " + std::to_string(geteuid()) + " (" + why +
                   "): only Landlock keeps effect and egress from the data folder, and nothing keeps the "
                   "engine from that user's files";
    if (!separation.remedy.empty()) check.detail += "; " + separation.remedy;
    return check;
  }
  const auto uid = [&](Helper helper) { return std::to_string(separation.uid_of(helper)); };
  const std::string uids = "engine uid " + uid(Helper::engine) + ", effect " + uid(Helper::effect) +
                           ", egress " + uid(Helper::egress) + ", no capabilities";
  check.verdict = confinement.private_root ? "works" : "weaker";
  check.detail =
      confinement.private_root
          ? uids + "; each sees only what it needs, the engine the data folder (private root)"
          : uids + "; but the machine's files are in view: this root may not mount (CAP_SYS_ADMIN)";
  return check;
}

}  // namespace sandglass::engine::server
