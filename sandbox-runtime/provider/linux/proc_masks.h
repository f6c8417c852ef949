// /proc of a jail: an allow-list. Whatever the list does not name is covered, so that a file which a later
// kernel adds is hidden too (ADV-A15, ADV-A18). Called in the cloned child. 0 or errno.
#pragma once

namespace sandglass::sandbox_runtime::provider::linux_jail {

int mount_proc(int root);
/// Covers the rest and lays the synthesised meminfo and cpuinfo of the root's .hidden folder over the real
/// ones (V7). The working folder is `root` afterwards.
int mask_proc(int root);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
