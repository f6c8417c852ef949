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
    """The base name of what it runs; empty if it is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        return ""


def environment_of(pid):
    """As bytes, entry by entry; empty if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def command_line_of(pid):
    """Its arguments; empty if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def is_alive(pid):
    return parent_of(pid) is not None


def descendants_of(pid):
    """All of them, from one look at the table."""
    parents = {each: parent_of(each) for each in all_pids()}
    found, front = [], [pid]
    while front:
        front = [each for each, parent in parents.items() if parent in front]
        found += front
    return found


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
