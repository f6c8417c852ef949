"""What of a data folder's sandboxes is on the machine: processes, mounts, control groups, loop devices."""

import os
import pathlib

from harness import processes

CGROUPS = pathlib.Path("/sys/fs/cgroup")
SERVER = "-_server"  # the end of the name of the group in which the server itself is
BOUND = "/run/sandglass/data"  # where the engine has the data folder
# What a sandbox at work has. A plain user's has no group, and its mounts are of memory and in its own namespace alone.
KINDS = ("process", "mount", "control group", "loop device") if os.geteuid() == 0 else ("process",)


def of_sandboxes(data):
    """A description of everything found, a line each; empty: nothing."""
    data = pathlib.Path(data)
    prefix = "sandglass-" + (data / "id").read_text().strip()[:8]
    loops = _loops(data)
    pids = _in_groups(prefix) if os.geteuid() == 0 else _below_keeper(data)
    found = [f"process {pid} {processes.program_of(pid)}" for pid in pids if processes.is_alive(pid)]
    return (found + _mounts(data, prefix, loops.values()) + _cgroups(prefix)
            + [f"loop device {name}" for name in loops])


def _in_groups(prefix):
    found = []
    for pid in processes.all_pids():
        try:
            groups = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            continue
        if any(prefix in line and not line.endswith(SERVER) for line in groups.splitlines()):
            found.append(pid)
    return found


def _below_keeper(data):
    """And below sandboxes' first processes that have lost their keeper: nothing says whose they were, and none may live on."""
    first = [pid for pid in processes.all_pids() if processes.command_line_of(pid) == ["sandglass-init"]]
    lost = [pid for pid in first if _is_ours(pid) and _is_lost(processes.parent_of(pid))]
    keeper = processes.keeper_of(data)
    return lost + processes.descendants_of(*lost, *([keeper] if keeper else []))


def _is_ours(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


def _is_lost(parent):
    """Of a first process: by this parent."""
    return parent is not None and processes.command_line_of(parent)[:1] not in (["sandglass-keeper"], ["sandglass-init"])


def _mounts(data, prefix, loop_numbers):
    """In whatever mount namespace: of the folder's files, or of its loop devices."""
    found, seen = [], set()
    for pid in processes.all_pids():
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")
            if namespace in seen:
                continue
            seen.add(namespace)
            lines = pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
        except OSError:
            continue
        found += [f"mount in process {pid}: {line}" for line in lines if not line.split()[4].startswith(BOUND)
                  and (prefix in line or f"{data}/" in line or line.split()[2] in loop_numbers)]
    return found


def _cgroups(prefix):
    return [f"control group {folder}/{name}" for folder, names, _ in os.walk(CGROUPS) for name in names
            if name.startswith(prefix) and not name.endswith(SERVER)]


def _loops(data):
    """Name → "major:minor" of those whose file lies in the folder."""
    found = {}
    for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if f"{data}/" in backing.read_text():
                found[backing.parts[3]] = (backing.parents[1] / "dev").read_text().strip()
        except OSError:
            pass  # it went meanwhile
    return found
