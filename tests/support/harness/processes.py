"""Processes as /proc shows them."""

import os
import pathlib
import signal


def parent_of(pid):
    """The parent's id, or None if the process is gone or a zombie."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[1])


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(pid):
    return [child for child in all_pids() if parent_of(child) == pid]


def program_of(pid):
    """The base name of what it runs, or, where only root may know, of what it calls itself; empty if it is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except PermissionError:
        return os.path.basename(next(iter(command_line_of(pid)), ""))
    except OSError:
        return ""


def command_line_of(pid):
    """Its arguments; empty if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def is_alive(pid):
    return parent_of(pid) is not None


def descendants_of(*pids):
    """All of them, from one look at the table."""
    parents = {each: parent_of(each) for each in all_pids()}
    found, front = [], list(pids)
    while front:
        front = [each for each, parent in parents.items() if parent in front]
        found += front
    return found


def keeper_of(data):
    """The id of the keeper of the data folder's sandboxes, or None. It is the child of the host that started it, or nobody's."""
    found = [pid for pid in all_pids() if command_line_of(pid)[:1] == ["sandglass-keeper"]
             and "".join(command_line_of(pid)[1:2]).startswith(f"{data}/") and is_alive(pid)]
    # A child of it that is about to become a sandbox looks like a keeper for a moment.
    return next((pid for pid in found if parent_of(pid) not in found), None)


def send(pid, number):
    """False if there was nobody."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def kill(pid):
    """SIGKILL; false if there was nobody."""
    return send(pid, signal.SIGKILL)
