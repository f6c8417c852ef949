#include "sandbox-runtime/provider/linux/machine_base.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "engine/base/log.h"
#include "sandbox-runtime/provider/launcher.h"
#include "sandbox-runtime/provider/linux/files.h"
#include "sandbox-runtime/provider/linux/mounts.h"
#include "sandbox-runtime/provider/linux/package_clients.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

using engine::base::UniqueFd;

namespace {

/// THE allow-list: files of the machine whose content is copied in. Everything else below /etc is generated.
/// (package_clients.h has what is taken over from the machine by value.)
struct Copied {
  const char* from;
  const char* to;
};
constexpr Copied kCopied[] = {
    {"/etc/ld.so.cache", "etc/ld.so.cache"},
};
/// Links of this folder are copied if they point below /usr.
constexpr const char* kAlternatives = "/etc/alternatives";
/// Links of the machine's root into /usr, taken over where the machine has them.
constexpr const char* kRootLinks[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/// Covered although they are below /usr.
constexpr const char* kHiddenFolders[] = {"usr/local/etc", "usr/etc", "usr/src"};
constexpr std::string_view kHiddenNames[] = {"npmrc",  ".npmrc",    "pip.conf",   ".pip.conf",       "netrc",
                                             ".netrc", "gitconfig", ".gitconfig", ".git-credentials"};

constexpr const char* kFolders[] = {"usr",       "proc", "sys",          "dev", "dev/pts", "dev/shm",
                                    "workspace", "home", "home/sandbox", "var", "run",     "root",
                                    "srv",       "mnt",  "media",        "opt", "etc"};
constexpr const char* kEtcFolders[] = {"etc/ssl",
                                       "etc/ssl/certs",
                                       "etc/alternatives",
                                       "etc/apt",
                                       "etc/apt/apt.conf.d",
                                       "etc/apt/preferences.d",
                                       "etc/apt/sources.list.d",
                                       "etc/apt/trusted.gpg.d"};

struct Generated {
  const char* path;
  const char* content;
};
constexpr Generated kGenerated[] = {
    {"etc/passwd",
     "root:x:0:0:root:/root:/usr/sbin/nologin\n"
     "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"},
    {"etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
    {"etc/hostname", "sandbox\n"},
    {"etc/host.conf", "multi on\n"},
    {"etc/resolv.conf", "# Names are resolved by the proxy.\n"},
    {"etc/protocols", "ip 0 IP\ntcp 6 TCP\nudp 17 UDP\n"},
    {"etc/services", "ssh 22/tcp\ndomain 53/tcp\ndomain 53/udp\nhttp 80/tcp\nhttps 443/tcp\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
    {"etc/profile", "umask 022\n"},
    {"etc/gitconfig", ""},
    {"etc/wgetrc", ""},
    {"etc/curlrc", ""},
    {"etc/machine-id", ""},
    {"etc/ssl/openssl.cnf", "openssl_conf = init\n[init]\n"},
};
constexpr Generated kEtcLinks[] = {
    {"etc/mtab", "../proc/self/mounts"},
    {"etc/os-release", "../usr/lib/os-release"},
    {"etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
};
constexpr Generated kLinks[] = {
    {"dev/fd", "/proc/self/fd"},       {"dev/stdin", "/proc/self/fd/0"}, {"dev/stdout", "/proc/self/fd/1"},
    {"dev/stderr", "/proc/self/fd/2"}, {"dev/ptmx", "pts/ptmx"},
};

std::string target_of(const std::string& path) {
  std::array<char, 4096> buffer;
  const ssize_t size = ::readlink(path.c_str(), buffer.data(), buffer.size());
  return size > 0 ? std::string(buffer.data(), static_cast<std::size_t>(size)) : "";
}

void add_alternatives(std::vector<BaseEntry>& base) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(kAlternatives), &::closedir);
  if (folder == nullptr) return;
  std::vector<BaseEntry> links;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_type != DT_LNK) continue;
    const std::string target = target_of(std::string(kAlternatives) + "/" + entry->d_name);
    if (!target.starts_with("/usr/")) continue;
    links.push_back({EntryKind::link, 0777, std::string("etc/alternatives/") + entry->d_name, target});
  }
  std::ranges::sort(links, {}, &BaseEntry::path);
  base.insert(base.end(), links.begin(), links.end());
}

/// V7: what JVM, Node and others read to find the machine's size.
std::string memory_info(const Template& tmpl) {
  const std::string kib = std::to_string(tmpl.limits.memory.value / 1024);
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += std::string(name) + ": " + value + " kB\n";
  };
  line("MemTotal", kib);
  line("MemFree", kib);
  line("MemAvailable", kib);
  for (const char* name :
       {"Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Dirty",
        "Writeback", "AnonPages", "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim"}) {
    line(name, "0");
  }
  return text;
}

std::uint64_t processors(const Template& tmpl) {
  return std::max<std::uint64_t>(1, (tmpl.limits.cpu.value + 999) / 1000);
}

std::string processor_info(const Template& tmpl) {
  const std::uint64_t wanted = processors(tmpl);
  const std::string all = read_file("/proc/cpuinfo", 4u << 20).value_or("");
  std::size_t end = 0;
  for (std::uint64_t i = 0; i < wanted && end < all.size(); ++i) {
    const std::size_t next = all.find("\n\n", end);
    end = next == std::string::npos ? all.size() : next + 2;
  }
  return all.substr(0, end);
}

/// A hidden name, or what it links to: a mount cannot cover a link, and a link elsewhere is dangling inside
/// (FR-153).
void hide(const std::string& path, std::vector<BaseEntry>& found) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(("/" + path).c_str(), nullptr), ::free);
  if (real == nullptr) return;
  const std::string target = real.get();
  struct stat about{};
  if (!target.starts_with("/usr/") || ::lstat(target.c_str(), &about) != 0) return;
  const EntryKind kind = S_ISDIR(about.st_mode) ? EntryKind::hide_folder : EntryKind::hide_file;
  found.push_back({kind, 0, target.substr(1), ""});
}

void look_for_hidden(const std::string& path, int depth, std::vector<BaseEntry>& found) {
  constexpr int kMaxDepth = 24;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(("/" + path).c_str()), &::closedir);
  if (folder == nullptr || depth > kMaxDepth) return;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    unsigned type = entry->d_type;
    struct stat about{};
    if (type == DT_UNKNOWN &&
        ::fstatat(::dirfd(folder.get()), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0)
      type = IFTODT(about.st_mode);
    if (type == DT_DIR) look_for_hidden(path + "/" + entry->d_name, depth + 1, found);
    if (type != DT_REG && type != DT_LNK) continue;
    if (std::ranges::find(kHiddenNames, name) == std::end(kHiddenNames)) continue;
    hide(path + "/" + entry->d_name, found);
  }
}

}  // namespace

std::vector<BaseEntry> hidden_in_usr() {
  std::vector<BaseEntry> hidden;
  for (const char* folder : kHiddenFolders) hide(folder, hidden);
  std::vector<BaseEntry> files;
  look_for_hidden("usr", 0, files);
  std::erase_if(files, [&](const BaseEntry& entry) {
    return std::ranges::any_of(
        hidden, [&](const BaseEntry& folder) { return entry.path.starts_with(folder.path + "/"); });
  });
  hidden.insert(hidden.end(), files.begin(), files.end());
  std::ranges::sort(hidden, {}, &BaseEntry::path);
  const auto doubled = std::ranges::unique(hidden, {}, &BaseEntry::path);
  hidden.erase(doubled.begin(), doubled.end());
  return hidden;
}

std::vector<BaseEntry> machine_base(const Template& tmpl) {
  std::vector<BaseEntry> base = {
      {EntryKind::folder, 0700, ".hidden", ""},
      {EntryKind::folder, 0555, ".hidden/folder", ""},
      {EntryKind::file, 0444, ".hidden/file", ""},
      {EntryKind::file, 0444, ".hidden/meminfo", memory_info(tmpl)},
      {EntryKind::file, 0444, ".hidden/cpuinfo", processor_info(tmpl)},
      {EntryKind::folder, 0755, "tmp", ""},
  };
  for (const char* folder : kFolders) base.push_back({EntryKind::folder, 0755, folder, ""});
  for (const Generated& link : kLinks) base.push_back({EntryKind::link, 0777, link.path, link.content});
  for (const char* name : kRootLinks) {
    const std::string target = target_of(std::string("/") + name);
    if (target.starts_with("usr/") || target.starts_with("/usr/")) {
      base.push_back({EntryKind::link, 0777, name, target});
    }
  }
  return base;
}

std::string machine_base_key(const Template& tmpl) {
  return std::to_string(tmpl.limits.memory.value) + " " + std::to_string(processors(tmpl));
}

std::vector<BaseEntry> machine_etc() {
  std::vector<BaseEntry> etc;
  for (const char* folder : kEtcFolders) etc.push_back({EntryKind::folder, 0755, folder, ""});
  for (const Generated& file : kGenerated) etc.push_back({EntryKind::file, 0644, file.path, file.content});
  for (const Generated& link : kEtcLinks) etc.push_back({EntryKind::link, 0777, link.path, link.content});
  for (const Copied& copied : kCopied) {
    etc.push_back({EntryKind::file, 0644, copied.to, read_file(copied.from, 4u << 20).value_or("")});
  }
  const MachineSource machine = this_machine();
  etc.push_back({EntryKind::file, 0644, "etc/ssl/certs/ca-certificates.crt", operator_certificates(machine)});
  PackageClients clients = package_clients(machine);
  for (auto& [path, content] : clients.files) {
    etc.push_back({EntryKind::file, 0644, path, std::move(content)});
  }
  for (const std::string& what : clients.left_out) {
    engine::base::log(engine::base::LogLevel::warning, "registry_left_out",
                      {{"setting", what}, {"reason", "its address may hold a secret"}});
  }
  add_alternatives(etc);
  return etc;
}

UniqueFd shared_etc(const std::vector<BaseEntry>& etc) {
  constexpr std::string_view kBelow = "etc/";
  UniqueFd mount = new_file_system("tmpfs", {{"size", "8m"}, {"nr_inodes", "8192"}, {"mode", "0755"}},
                                   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (!mount) return {};
  for (const BaseEntry& entry : etc) {
    const char* path = entry.path.c_str() + kBelow.size();
    if (write_entry(entry.kind, entry.mode, path, entry.content, mount.get()) != 0) return {};
  }
  if (set_attributes(mount.get(), MOUNT_ATTR_RDONLY, false) != 0) return {};
  return clone_detached(mount.get()) ? std::move(mount) : UniqueFd();
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
