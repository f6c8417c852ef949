#include "sandbox-runtime/provider/linux/jail.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "sandbox-runtime/provider/launcher.h"
#include "sandbox-runtime/provider/linux/listener.h"
#include "sandbox-runtime/provider/linux/mounts.h"
#include "sandbox-runtime/provider/linux/namespaces.h"
#include "sandbox-runtime/provider/linux/packet.h"
#include "sandbox-runtime/provider/linux/privileges.h"
#include "sandbox-runtime/provider/linux/proc_masks.h"
#include "sandbox-runtime/provider/linux/seccomp_filter.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::UniqueFd;

struct Jail {
  const PlanView& plan;
  JailFds fds;
  UniqueFd root;      // mount of the new root, until it is "/"
  UniqueFd listener;  // if the host has opened it
};

/// What the host has made meanwhile, in the order of kOrder: so many descriptors.
int take_parts(const Jail& jail, std::size_t count, std::vector<UniqueFd>& parts) {
  char word = 0;
  const bool came = receive_packet(jail.fds.gate, &word, sizeof word, parts) == sizeof word;
  return came && parts.size() == count ? 0 : ENODEV;
}

int await_maps(Jail& jail) {
  // A keeper that is not root may write the maps of a dumpable child only.
  if (::prctl(PR_SET_DUMPABLE, jail.plan.has(kPlanRootless) ? 1 : 0, 0, 0, 0) != 0) return errno;
  const Talk ask{TalkKind::need_maps};
  if (!send_packet(jail.fds.talk, &ask, sizeof ask, {})) return errno;
  char answer = 0;
  if (::recv(jail.fds.talk, &answer, 1, 0) != 1) return EOWNERDEAD;
  return ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : errno;
}

int set_up_network(Jail& jail) {
  if (jail.fds.gate < 0) return raise_loopback();
  std::vector<UniqueFd> parts;
  const bool listens = jail.plan.has(kPlanNetwork);
  if (const int error = take_parts(jail, listens ? 2 : 1, parts)) return error;
  if (listens) jail.listener = std::move(parts[1]);
  return enter_network(parts[0].get());
}

int hand_out_listener(Jail& jail) {
  if (!jail.plan.has(kPlanNetwork)) return 0;
  if (!jail.listener) {
    if (const int error = open_listener(jail.listener)) return error;
  }
  const Talk give{TalkKind::listener};
  const int fds[] = {jail.listener.get()};
  return send_packet(jail.fds.talk, &give, sizeof give, fds) ? 0 : errno;
}

int make_root(Jail& jail) {
  if (jail.fds.base >= 0) return hang_up_base(jail.fds.base, jail.root);
  return build_root(jail.plan, jail.fds.etc, jail.root);
}

int make_usr(Jail& jail) {
  return jail.fds.base >= 0 ? 0 : bind_usr(jail.plan, jail.root.get());
}

int make_dev(Jail& jail) {
  if (jail.fds.base < 0) {
    if (const int error = make_devices(jail.plan, jail.root.get())) return error;
  }
  return mount_terminals(jail.root.get());
}

int make_work(Jail& jail) {
  if (jail.fds.gate < 0) return mount_work(jail.plan, jail.root.get(), -1);
  std::vector<UniqueFd> disk;
  if (const int error = take_parts(jail, 1, disk)) return error;
  return mount_work(jail.plan, jail.root.get(), disk.front().get());
}

/// 0-2 are /dev/null, 3 control, 4 barrier, 5 the keeper; everything else closes when init is executed.
int arrange_descriptors(Jail& jail) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return errno;
  // Out of the way first: a source may sit on a number that another one needs.
  const int control = ::fcntl(jail.fds.control, F_DUPFD_CLOEXEC, 64);
  const int barrier = ::fcntl(jail.fds.barrier, F_DUPFD_CLOEXEC, 64);
  const int init = ::fcntl(jail.fds.init, F_DUPFD_CLOEXEC, 64);
  const int talk = ::fcntl(jail.fds.talk, F_DUPFD_CLOEXEC, 64);
  const int keeper = ::fcntl(jail.fds.keeper, F_DUPFD_CLOEXEC, 64);
  if (control < 0 || barrier < 0 || init < 0 || talk < 0 || keeper < 0) return errno;
  jail.fds.init = init;
  jail.fds.talk = talk;
  jail.fds.keeper = keeper;
  for (int fd = 0; fd <= 2; ++fd) {
    if (::dup2(null, fd) < 0) return errno;
  }
  if (::dup2(control, kControlFd) < 0 || ::dup2(barrier, kBarrierFd) < 0) return errno;
  if (::dup2(keeper, kKeeperFd) < 0) return errno;
  return ::syscall(__NR_close_range, kKeeperFd + 1, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) == 0 ? 0 : errno;
}

int execute_init(Jail& jail) {
  char name[] = "sandglass-init";
  char* const argv[] = {name, nullptr};
  char mode[] = "SANDGLASS_INIT_MODE=root";
  char mode_rootless[] = "SANDGLASS_INIT_MODE=rootless";
  char* const envp[] = {jail.plan.has(kPlanRootless) ? mode_rootless : mode, nullptr};
  if (::chdir("/workspace") != 0) return errno;
  ::syscall(__NR_execveat, jail.fds.init, "", argv, envp, AT_EMPTY_PATH);
  return errno;
}

enum class When { always, root, rootless };

struct Step {
  Stage stage;
  When when;
  int (*run)(Jail&);
};

/// The whole order. Root: every mount as the machine's root, the user namespace afterwards. Rootless: the
/// user namespace comes with the clone, its map first of all. Nothing of the host is reachable after `pivot`.
constexpr Step kOrder[] = {
    {Stage::maps, When::rootless, await_maps},
    {Stage::groups, When::always, [](Jail& jail) { return enter_groups(jail.fds.groups); }},
    {Stage::namespaces, When::always,
     [](Jail& jail) { return leave_host_names(jail.plan.has(kPlanRootless)); }},
    {Stage::private_mounts, When::always, [](Jail&) { return make_mounts_private(); }},
    {Stage::root, When::always, make_root},
    {Stage::usr, When::always, make_usr},
    {Stage::devices, When::always, make_dev},
    {Stage::proc, When::always, [](Jail& jail) { return mount_proc(jail.root.get()); }},
    {Stage::proc_masks, When::always, [](Jail& jail) { return mask_proc(jail.root.get()); }},
    {Stage::tmp, When::always, [](Jail& jail) { return mount_temporary(jail.plan, jail.root.get()); }},
    {Stage::work, When::always, make_work},
    {Stage::pivot, When::always, [](Jail& jail) { return leave_host_root(jail.root.get()); }},
    {Stage::network, When::always, set_up_network},
    {Stage::listener, When::always, hand_out_listener},
    {Stage::rlimits, When::always, [](Jail& jail) { return set_rlimits(jail.plan); }},
    {Stage::user_namespace, When::root,
     [](Jail& jail) { return enter_user_namespace(jail.plan.header().uid_base); }},
    {Stage::maps, When::root, await_maps},
    {Stage::identity, When::root, [](Jail& jail) { return take_identity(jail.plan); }},
    {Stage::capabilities, When::always, [](Jail& jail) { return drop_capabilities(jail.plan); }},
    {Stage::descriptors, When::always, arrange_descriptors},
    {Stage::landlock, When::always, [](Jail&) { return restrict_by_landlock(); }},
    {Stage::parent_watch, When::always, [](Jail& jail) { return die_with_keeper(jail.fds.keeper); }},
    {Stage::seccomp, When::always, [](Jail& jail) { return load_filter(jail.plan.filter()); }},
    {Stage::exec_init, When::always, execute_init},
};

}  // namespace

void become_init(const PlanView& plan, const JailFds& fds) {
  Jail jail{plan, fds, {}, {}};
  const When mode = plan.has(kPlanRootless) ? When::rootless : When::root;
  for (const Step& step : kOrder) {
    if (step.when != When::always && step.when != mode) continue;
    const int error = step.run(jail);
    if (error == 0) continue;
    const Talk report{TalkKind::failed, step.stage, error};
    send_packet(jail.fds.talk, &report, sizeof report, {});
    ::_exit(1);
  }
  ::_exit(1);
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
