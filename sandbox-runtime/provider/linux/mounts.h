// Mounts of a jail, made by descriptors only: open_tree, fsopen, mount_setattr, move_mount (ADV-A19). Called
// in the cloned child, which has a mount namespace of its own. Functions answer 0 or errno; new mounts are
// descriptors of detached mounts that vanish when closed without being attached.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/unique_fd.h"
#include "sandbox-runtime/provider/linux/plan.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

/// No mount event passes between the host and this namespace.
int make_mounts_private();

struct MountOption {
  const char* key;
  std::string value;  // empty: a flag
};
/// A new file system of `type`; `attributes` are MOUNT_ATTR_*. Invalid with errno set on failure.
engine::base::UniqueFd new_file_system(const char* type, std::initializer_list<MountOption> options,
                                       std::uint64_t attributes);

/// A clone of the mount at `path` below `folder_fd`, never following a link at its end. Invalid with errno
/// set.
engine::base::UniqueFd clone_mount(int folder_fd, const char* path, bool recursive);
/// A clone of a mount that is attached nowhere, or of such a mount with all below it; kernels before 6.15
/// refuse.
engine::base::UniqueFd clone_detached(int mount_fd);
engine::base::UniqueFd clone_tree(int mount_fd);
int set_attributes(int mount_fd, std::uint64_t attributes, bool recursive);
/// Puts the detached mount on `path` below `root_fd`; no link is followed.
int attach(int mount_fd, int root_fd, const char* path);

/// The root: a small tmpfs with the plan's folders, files and links, attached in this namespace, and the
/// shared /etc unless `etc` is -1. `root` is its descriptor.
int build_root(const PlanView& plan, int etc, engine::base::UniqueFd& root);
/// The root with /usr and the devices, attached nowhere, read-only: to be cloned for each sandbox. Used in
/// the host; kernels before 6.15 refuse.
int build_base(const PlanView& plan, int etc, engine::base::UniqueFd& root);
/// Attaches a clone of such a root in this namespace, in place of build_root, bind_usr and make_devices.
int hang_up_base(int base, engine::base::UniqueFd& root);
/// Puts one entry below the folder `root`. Also used in the host, for the shared /etc. `content` ends with
/// NUL.
int write_entry(EntryKind kind, std::uint32_t mode, const char* path, std::string_view content, int root);
/// /usr of the machine, read-only, with its configuration folders hidden (V6).
int bind_usr(const PlanView& plan, int root);
/// /dev: null, zero, full, random, urandom, tty.
int make_devices(const PlanView& plan, int root);
/// /dev/pts, of the sandbox's own.
int mount_terminals(int root);
/// /tmp and /dev/shm: sized, counted as memory (V11).
int mount_temporary(const PlanView& plan, int root);
/// The two folders of a new disk, made if they are not there, for the commands' user.
int fill_work(int disk, std::uint32_t owner);
/// /workspace and /home/sandbox from the filled disk, or from a sized tmpfs (`disk` -1).
int mount_work(const PlanView& plan, int root, int disk);
/// Seals the root read-only, makes it this process's root and lets go of the host's.
int leave_host_root(int root);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
