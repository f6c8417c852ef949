"""What a server holds of the machine, so that two moments can be compared. Only its own: other servers run beside it.

Found by the data folder's id (control groups, and who is in them), by its path (files, sockets, loop devices, the keeper);
namespaces by the processes that are in them, and afterwards by their numbers.
"""

import collections
import os
import pathlib

from harness import processes, remains

NAMESPACES = ("mnt", "net", "pid", "ipc", "uts", "cgroup", "user")


def of_server(server):
    """A set of lines: everything that is not a plain file of the journal or a program of the server itself."""
    data = pathlib.Path(server.data)
    found = {line for line in remains.of_sandboxes(data) if not line.startswith("mount in process ")}
    found |= {f"namespace {name}" for name in namespaces(server)}
    found |= {f"socket {path}" for path in _sockets(data)}
    found |= {f"file {path.relative_to(data)}" for name in ("jails", "sandboxes") for path in (data / "host" / name).iterdir()}
    return found


def namespaces(server):
    """"net:[4026532…]" of those that processes in the sandboxes are in and the test is not."""
    ours = set(_namespaces_of(os.getpid()))
    found = set()
    for line in remains.of_sandboxes(server.data):
        words = line.split()
        if words[0] == "process":
            found |= set(_namespaces_of(int(words[1]))) - ours
    return found


class HeldNamespaces:
    """The namespaces that a server's sandboxes are in now, but for those of mounts: held open, so that their numbers name
    no others later. (A held one of mounts would keep its mounts.) `names` as namespaces() gives them; close() at the end."""

    def __init__(self, server):
        self._fds = {}
        for line in remains.of_sandboxes(server.data):
            words = line.split()
            if words[0] == "process":
                self._hold(int(words[1]))
        ours = set(_namespaces_of(os.getpid()))
        self.names = {name for name in self._fds if name not in ours}

    def _hold(self, pid):
        for kind in NAMESPACES:
            name = _link(f"/proc/{pid}/ns/{kind}")
            if kind == "mnt" or not name or name in self._fds:
                continue
            try:
                fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue  # it has just ended
            self._fds[_link(f"/proc/self/fd/{fd}")] = fd

    def close(self):
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}


def still_there(names):
    """Which of these namespaces somebody else on the machine is in, holds open or has mounted."""
    found = set()
    for pid in processes.all_pids():
        if pid == os.getpid():
            continue
        found |= names & set(_namespaces_of(pid))
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                found |= names & {_link(f"/proc/{pid}/fd/{fd}")}
            mounts = pathlib.Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:
            continue
        if " nsfs " in mounts:
            found |= {name for name in names if name in mounts}
    return found


def _namespaces_of(pid):
    return [name for name in (_link(f"/proc/{pid}/ns/{kind}") for kind in NAMESPACES) if name]


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _sockets(data):
    """Paths of sockets that live, relative to the folder."""
    for line in pathlib.Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]:
        path = line.split(" ")[-1]
        if path.startswith(f"{data}/"):
            yield path.removeprefix(f"{data}/")


def descriptors(pid):
    """Kind of each open descriptor → how many. Plain files are not counted: the journal opens and closes its own. Of the
    keeper only root sees any."""
    counts = {}
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return {}
    for fd in fds:
        target = _link(f"/proc/{pid}/fd/{fd}")
        if target.startswith("/") and not target.startswith("/memfd:"):
            continue
        kind = target.split("[")[0].split(":")[0] if not target.startswith("/") else "memfd"
        if target.startswith("anon_inode"):
            kind = target
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def threads(pid):
    """Name → how many."""
    names = collections.Counter()
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            names["thread " + (thread / "comm").read_text().strip()] += 1
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended meanwhile
    return dict(names)
