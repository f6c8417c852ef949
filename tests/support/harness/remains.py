"""What of a data folder's sandboxes is on the machine: processes, mounts, control groups, loop devices."""

import os
import pathlib

from harness import processes

CGROUPS = pathlib.Path("/sys/fs/cgroup")
SERVER = "-_server"  # the end of the name of the group in which the server itself is
BOUND = "/run/sandglass/data"  # where the engine has the data folder


def of_sandboxes(data):
    """A description of everything found, a line each; empty: nothing."""
    data = pathlib.Path(data)
    prefix = "sandglass-" + (data / "id").read_text().strip()[:8]
    loops = _loops(data)
    return (_processes(prefix) + _mounts(data, prefix, loops.values()) + _cgroups(prefix)
            + [f"loop device {name}" for name in loops])


def _processes(prefix):
    found = []
    for pid in processes.all_pids():
        try:
            groups = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            continue
        groups = [line for line in groups.splitlines() if prefix in line and not line.endswith(SERVER)]
        if groups and processes.is_alive(pid):
            found.append(f"process {pid} {processes.program_of(pid)}")
    return found


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
