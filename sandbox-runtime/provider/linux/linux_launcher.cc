#include "sandbox-runtime/provider/linux/linux_launcher.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/provider/linux/aside.h"
#include "sandbox-runtime/provider/linux/files.h"
#include "sandbox-runtime/provider/linux/linux_launcher_impl.h"
#include "sandbox-runtime/provider/linux/listener.h"
#include "sandbox-runtime/provider/linux/machine_base.h"
#include "sandbox-runtime/provider/linux/mounts.h"
#include "sandbox-runtime/provider/linux/packet.h"
#include "sandbox-runtime/provider/linux/seccomp_filter.h"
#include "sandbox-runtime/provider/linux/support.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;
using engine::base::UniqueFd;

namespace {

constexpr std::uint64_t kTmpMost = 512u << 20;
constexpr std::uint64_t kShmMost = 64u << 20;
/// As the probe of find_support, so that one template image serves both.
constexpr std::uint64_t kProbeDisk = 8u << 20;
constexpr std::uint64_t kProbeInodes = 256;

bool is_folder_id(const std::string& id) {
  return !id.empty() && id.size() <= 12 &&
         std::ranges::all_of(id, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

/// The program as a sealed memory file: what runs inside cannot be changed from outside and has no path.
Result<UniqueFd> load_program(const std::string& path) {
  constexpr std::size_t kMost = 256u << 20;
  const auto bytes = read_file(path, kMost);
  if (!bytes || bytes->empty()) {
    return fail(Code::provider_failed, "cannot read the program " + path + ": " + error_text(errno));
  }
  UniqueFd fd(::memfd_create("sandglass-init", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || !write_all(fd.get(), *bytes) || ::fchmod(fd.get(), 0555) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return fail(Code::provider_failed, "loading " + path + ": " + error_text(errno));
  }
  // Reopened for reading: a file that somebody holds for writing cannot be executed.
  UniqueFd readable(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!readable) return fail(Code::provider_failed, "loading " + path + ": " + error_text(errno));
  return readable;
}

/// V7: as many processors as the limit allows, other ones for other sandboxes. All zero: all of them.
void choose_processors(const SandboxSpec& spec, std::uint64_t (&mask)[16]) {
  const std::uint64_t wanted = (spec.tmpl.limits.cpu.value + 999) / 1000;
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  if (wanted >= processors.size()) return;
  const std::size_t first = std::hash<std::string>{}(spec.id);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const auto number = static_cast<unsigned>(processors[(first + i) % processors.size()]);
    mask[number / 64] |= std::uint64_t{1} << number % 64;
  }
}

}  // namespace

struct LinuxLauncher::Making {
  SandboxRecord record;
  UniqueFd image;
  LoopDisk disk;
  UniqueFd control_inside, barrier_inside;
  UniqueFd gate, gate_inside;  // by which disk and network come to the child
  Network network;
  UniqueFd base;
  bool recorded = false;
  bool grouped = false;
};

LinuxLauncher::LinuxLauncher(LauncherOptions options, bool rootless)
    : options_(std::move(options)),
      rootless_(rootless),
      prefix_("sandglass-" + options_.data_folder_id + "-"),
      groups_(Cgroups::find(!rootless)),
      disks_(options_.folder, prefix_, rootless ? 0 : options_.blank_images),
      uids_(static_cast<std::uint32_t>(std::hash<std::string>{}(options_.data_folder_id))),
      filter_(build_filter()) {}

Status LinuxLauncher::open() {
  Result<UniqueFd> init = load_program(options_.init_program);
  if (!init) return std::unexpected(init.error());
  init_ = std::move(*init);
  Result<std::unique_ptr<KeeperLink>> link = KeeperLink::open(
      {options_.keeper_program, options_.folder + "/" + prefix_ + "keeper.sock", options_.adopt_grace_ms});
  if (!link) return std::unexpected(link.error());
  keeper_ = std::move(*link);
  support();  // looks through /usr: better now than in the first create
  return {};
}

const std::vector<LimitSupport>& LinuxLauncher::support() {
  std::call_once(looked_, [this] {
    hidden_ = hidden_in_usr();
    etc_ = machine_etc();
    if (!rootless_) shared_etc_ = shared_etc(etc_);
    if (shared_etc_) etc_.clear();
    support_ = find_support(rootless_, groups_, disks_);
  });
  return support_;
}

/// V18: not by looking but by doing.
Feature LinuxLauncher::try_sandbox() {
  SandboxSpec spec{"probe-" + std::to_string(::getpid()), {}};
  Limits& limits = spec.tmpl.limits;
  limits.disk.value = kProbeDisk;
  limits.inodes.value = kProbeInodes;
  for (const LimitKind kind : kAllLimits) limits.of(kind).need = Need::best_effort;
  spec.tmpl.network = true;
  timespec start{};
  timespec end{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  const Result<Launched> made = make(spec);
  const Status gone = made ? destroy(spec.id) : Status{};
  ::clock_gettime(CLOCK_MONOTONIC, &end);
  const auto ms = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1'000'000;
  if (made && gone)
    return {"sandbox", Strength::works, "made and destroyed in " + std::to_string(ms) + " ms", ""};
  return {"sandbox", Strength::missing, made ? gone.error().message : made.error().message,
          "allow user namespaces (sysctl user.max_user_namespaces=10000) and see the message"};
}

std::vector<Feature> LinuxLauncher::features() {
  std::vector<Feature> features = find_protections(rootless_, groups_);
  features.push_back(try_sandbox());
  for (const LimitSupport& each : support()) {
    features.push_back({"limit " + std::string(name_of(each.kind)), each.strength, each.detail, each.remedy});
  }
  return features;
}

Status LinuxLauncher::reserve_disk(const std::string& id, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (held_.contains(id) || !busy_.insert(id).second) {
    return fail(Code::already_exists, "sandbox " + id + " exists already");
  }
  if (rootless_) return {};
  // What the others were promised and have not used yet is as good as used (V11).
  std::uint64_t promised = promised_;
  for (const auto& [other, held] : held_) {
    struct stat about{};
    const std::uint64_t used = held->image && ::fstat(held->image.get(), &about) == 0
                                   ? static_cast<std::uint64_t>(about.st_blocks) * 512
                                   : 0;
    promised += held->record.disk - std::min(used, held->record.disk);
  }
  const std::uint64_t free = disks_.host_free_bytes();
  if (promised + bytes + options_.disk_floor_bytes > free) {
    busy_.erase(id);
    return fail(Code::disk_full, "sandbox disk of " + std::to_string(bytes) + " bytes: " + options_.folder +
                                     " has " + std::to_string(free) + " free, of which " +
                                     std::to_string(promised) + " are promised and " +
                                     std::to_string(options_.disk_floor_bytes) +
                                     " are kept; free some space or lower the template's disk limit");
  }
  promised_ += bytes;
  return {};
}

Result<UniqueFd> LinuxLauncher::plan_for(const SandboxSpec& spec, const Making& making) {
  const Limits& limits = spec.tmpl.limits;
  PlanHeader header{};
  header.flags = (rootless_ ? kPlanRootless : 0u) | (spec.tmpl.network ? kPlanNetwork : 0u);
  header.uid_base = making.record.uid_base;
  header.open_files = limits.open_files.value;
  header.processes = rootless_ ? limits.pids.value : 0;
  header.work_bytes = limits.disk.value;
  header.work_inodes = limits.inodes.value;
  header.tmp_bytes = std::min(kTmpMost, limits.memory.value / 2);
  header.shm_bytes = std::min(kShmMost, limits.memory.value / 4);
  choose_processors(spec, header.cpu_mask);
  if (making.base) return seal_plan(header, filter_, {});
  std::vector<BaseEntry> entries = machine_base(spec.tmpl);
  entries.insert(entries.end(), etc_.begin(), etc_.end());
  entries.insert(entries.end(), hidden_.begin(), hidden_.end());
  return seal_plan(header, filter_, entries);
}

Status LinuxLauncher::make_sockets(Making& making, Launched& launched) const {
  const auto pair = [](UniqueFd& ours, UniqueFd& inside) {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return false;
    ours.reset(fds[0]);
    inside.reset(fds[1]);
    return true;
  };
  const int on = 1;
  if (!pair(launched.control, making.control_inside) || !pair(launched.barrier, making.barrier_inside) ||
      (!rootless_ && !pair(making.gate, making.gate_inside)) ||
      ::setsockopt(launched.barrier.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return fail(Code::provider_failed, "sockets of the sandbox: " + error_text(errno));
  }
  return {};
}

/// The record names the device before anything can use it.
Result<LoopDisk> LinuxLauncher::make_disk(int image, SandboxRecord record, const std::string& record_path) {
  Result<LoopDisk> disk = DiskImages::mount(image, record.uid_base + kCommandUid);
  if (!disk) return disk;
  record.loop = disk->loop;
  record.image_inode = disk->image_inode;
  if (Status done = write_record(record_path, record); !done) return std::unexpected(done.error());
  return disk;
}

Status LinuxLauncher::hand_over_disk(Making& making, Result<LoopDisk> disk) {
  if (!disk) return std::unexpected(disk.error());
  making.disk = std::move(*disk);
  making.record.loop = making.disk.loop;
  making.record.image_inode = making.disk.image_inode;
  const int mount = making.disk.mount.get();
  // a child that has ended meanwhile is the keeper's to report
  (void)send_packet(making.gate.get(), "d", 1, {&mount, 1});
  making.disk.mount.reset();
  return {};
}

Status LinuxLauncher::hand_over_network(Making& making, int error) {
  if (error != 0) return fail(Code::provider_failed, "network namespace: " + error_text(error));
  const Network network = std::move(making.network);
  const int parts[] = {network.space.get(), network.listener.get()};
  (void)send_packet(making.gate.get(), "n", 1, {parts, network.listener ? 2u : 1u});
  return {};
}

Result<KeptJail> LinuxLauncher::launch(const SandboxSpec& spec, Making& making, const Launched& launched,
                                       const std::function<void()>& meanwhile) {
  Result<UniqueFd> plan = plan_for(spec, making);
  if (!plan) return std::unexpected(plan.error());
  Result<std::vector<UniqueFd>> procs = groups_.init_groups(group_of(spec.id));
  if (!procs) return std::unexpected(procs.error());
  const UniqueFd leaf = groups_.init_leaf(group_of(spec.id));
  const UniqueFd etc = shared_etc_ && !making.base ? clone_detached(shared_etc_.get()) : UniqueFd();
  if (shared_etc_ && !making.base && !etc)
    return fail(Code::provider_failed, "cloning the shared /etc: " + error_text(errno));
  std::vector<RoleFd> fds;
  const auto add = [&fds](FdRole role, const UniqueFd& fd) {
    if (fd) fds.push_back({role, fd.get()});
  };
  add(FdRole::plan, *plan);
  add(FdRole::init, init_);
  add(FdRole::control_inside, making.control_inside);
  add(FdRole::barrier_inside, making.barrier_inside);
  add(FdRole::control_host, launched.control);
  add(FdRole::barrier_host, launched.barrier);
  add(FdRole::gate, making.gate_inside);
  add(FdRole::image, making.image);
  add(FdRole::base, making.base);
  add(FdRole::etc, etc);
  add(FdRole::leaf, leaf);
  for (const UniqueFd& group : *procs) add(FdRole::group, group);
  return keeper_->launch(spec.id, fds, meanwhile);
}

/// Namespace and disk are made by other threads while this one makes the groups and the keeper's child the
/// mounts. All of it is there before init is executed: the child waits for it.
Status LinuxLauncher::build(const SandboxSpec& spec, Making& making, Launched& launched) {
  const Limits& limits = spec.tmpl.limits;
  making.record.memory = limits.memory.value;
  making.record.pids = limits.pids.value;
  making.record.disk = limits.disk.value;
  making.record.network = spec.tmpl.network ? 1 : 0;
  std::optional<Aside<int>> network;
  if (!rootless_) {
    network.emplace(helpers_, [&making, &spec] { return make_network(spec.tmpl.network, making.network); });
    const auto base = uids_.take();
    if (!base) return fail(Code::provider_failed, "no uid range is left");
    making.record.uid_base = *base;
  }
  making.recorded = true;
  if (Status done = write_record(record_path(spec.id), making.record); !done) return done;
  SG_CRASH_POINT("launcher.recorded");
  std::optional<Aside<Result<LoopDisk>>> disk;
  if (!rootless_) {
    Result<UniqueFd> image = disks_.image(spec.id, limits.disk.value, limits.inodes.value);
    if (!image) return std::unexpected(image.error());
    making.image = std::move(*image);
    disk.emplace(helpers_, [image = making.image.get(), record = making.record, path = record_path(spec.id)] {
      return make_disk(image, record, path);
    });
    if (shared_etc_) making.base = bases_.clone(spec.tmpl, hidden_, shared_etc_.get());
  }
  if (Status done = groups_.make(group_of(spec.id), limits); !done) return done;
  making.grouped = true;
  SG_CRASH_POINT("launcher.grouped");
  if (Status done = make_sockets(making, launched); !done) return done;
  Status parts;
  Result<KeptJail> kept = launch(spec, making, launched, [&] {
    making.gate_inside.reset();
    if (disk) parts = hand_over_disk(making, disk->get());
    if (network && parts) parts = hand_over_network(making, network->get());
    making.gate.reset();  // a child that waits for more finds it closed
  });
  if (!parts) return parts;
  if (!kept) return std::unexpected(kept.error());
  SG_CRASH_POINT("launcher.launched");
  launched.pidfd = std::move(kept->pidfd);
  launched.listener = std::move(kept->listener);
  auto held = std::make_shared<Held>();
  held->record = making.record;
  held->pid = kept->pid;
  held->pidfd.reset(::fcntl(launched.pidfd.get(), F_DUPFD_CLOEXEC, 3));
  held->image = std::move(making.image);
  held->barrier.reset(::fcntl(launched.barrier.get(), F_DUPFD_CLOEXEC, 3));
  const std::lock_guard lock(mutex_);
  held_.emplace(spec.id, std::move(held));
  return {};
}

Result<Launched> LinuxLauncher::create(const SandboxSpec& spec) {
  Result<Launched> made = make(spec);
  if (made && !rootless_) disks_.expect(spec.tmpl.limits.disk.value, spec.tmpl.limits.inodes.value);
  return made;
}

Result<Launched> LinuxLauncher::make(const SandboxSpec& spec) {
  if (Status good = check_spec(spec); !good) return std::unexpected(good.error());
  if (Status good = check_support(spec.tmpl.limits, support()); !good) return std::unexpected(good.error());
  const std::uint64_t disk = spec.tmpl.limits.disk.value;
  if (Status reserved = reserve_disk(spec.id, disk); !reserved) return std::unexpected(reserved.error());
  Launched launched;
  launched.id = spec.id;
  launched.support = support();
  Making making;
  const Status built = build(spec, making, launched);
  if (!built) undo(spec.id, making);
  {
    const std::lock_guard lock(mutex_);
    busy_.erase(spec.id);
    if (!rootless_) promised_ -= disk;
  }
  if (!built) return std::unexpected(built.error());
  return launched;
}

void LinuxLauncher::undo(const std::string& id, Making& making) {
  making.disk.mount.reset();
  if (making.grouped) {
    groups_.end(group_of(id));
    groups_.remove(group_of(id));
  }
  if (making.recorded) ::unlink(record_path(id).c_str());
  if (making.record.uid_base != 0) uids_.give_back(making.record.uid_base);
}

Result<std::unique_ptr<Launcher>> make_linux_launcher(LauncherOptions options) {
  if (!is_folder_id(options.data_folder_id)) {
    return fail(Code::invalid_argument, "data folder id: 1 to 12 characters of a-z and 0-9 are needed");
  }
  struct stat about{};
  if (::lstat(options.folder.c_str(), &about) != 0 || !S_ISDIR(about.st_mode) ||
      about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return fail(Code::invalid_argument,
                "sandbox folder " + options.folder + " must be a folder of ours with mode 0700");
  }
  auto launcher = std::make_unique<LinuxLauncher>(std::move(options), ::geteuid() != 0);
  if (Status opened = launcher->open(); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<Launcher>(std::move(launcher));
}

int keeper_pid(const Launcher& launcher) {
  return static_cast<const LinuxLauncher&>(launcher).keeper_pid();
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
