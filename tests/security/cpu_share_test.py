"""Spinning sandboxes do not take the processors from the server (V2, ADV-B3): what the kernel's own files say."""

import ctypes
import os
import pathlib
import struct
import unittest

from harness import processes, remains
from harness.case import Case, needs_root
from harness.main_job import Job
from harness.waiting import wait_until

FACTOR = 8
TASK = """name: spin
goal: take all processors
brain: plan
template: default
plan:
  - name: spin
    exec: {argv: [sh, -c, "while :; do :; done"]}
  - name: end
    finish: {message: done}
"""


def cpu_tree():
    """(mount point, name of the file with a group's share), or None."""
    unified = None
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        place, (kind, _, options) = line.split()[4], line.split(" - ")[1].split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return pathlib.Path(place), "cpu.shares"
        if kind == "cgroup2" and "cpu" in (pathlib.Path(place) / "cgroup.controllers").read_text().split():
            unified = (pathlib.Path(place), "cpu.weight")
    return unified


def group_of(pid):
    """The folder of the process' control group where the processors are shared out."""
    mount, share = cpu_tree()
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(",") if share == "cpu.shares" else controllers == "":
            return mount / path.lstrip("/")
    return None


def share_of(folder):
    return int((folder / cpu_tree()[1]).read_text())


SCHED_GETATTR = 315  # x86-64
SCHED_ATTR = "IIQiIQQQ"
SHORTEST_NS = 100_000


def slice_of(tid):
    """The length of a thread's turn in ns, as the kernel has it (0 before Linux 6.12)."""
    attributes = ctypes.create_string_buffer(struct.calcsize(SCHED_ATTR))
    if ctypes.CDLL(None, use_errno=True).syscall(SCHED_GETATTR, tid, attributes, len(attributes), 0) != 0:
        raise OSError(ctypes.get_errno(), f"sched_getattr of {tid}")
    return struct.unpack(SCHED_ATTR, attributes.raw)[5]


@needs_root("shares are of control groups")
class CpuShare(Case):

    def groups_of_the_folder(self):
        prefix = "sandglass-" + (self.data / "id").read_text()[:12]
        return [path for path in cpu_tree()[0].iterdir() if path.name.startswith(prefix)]

    def test_the_server_has_eight_times_a_sandboxs_share_and_leaves_no_group_behind(self):
        self.assertIsNotNone(cpu_tree(), "this machine shares out no processors; doctor must say so, not this test")
        server = self.server()
        (self.folder / "task.yaml").write_text(TASK)
        run = self.cli.must("run", self.folder / "task.yaml", "--detach").value["run_id"]
        wait_until(lambda: [line for line in remains.of_sandboxes(self.data) if line.endswith(" dash")],
                   Job(self.cli, run).describe)
        children = {processes.program_of(pid): group_of(pid) for pid in processes.children_of(server.pid)}
        children["sandglass-keeper"] = group_of(server.child("keeper"))
        self.assertEqual(set(children), {f"sandglass-{name}" for name in ("engine", "effect", "egress", "host", "keeper")})
        self.assertEqual(len(set(children.values())), 1, children)
        (own,) = set(children.values())
        sandboxes = [path for path in self.groups_of_the_folder() if path != own]
        self.assertEqual(len(sandboxes), 1, sandboxes)
        if slice_of(os.getpid()) != 0:  # this kernel knows slices
            for thread in pathlib.Path(f"/proc/{server.child('engine')}/task").iterdir():
                self.assertEqual(slice_of(int(thread.name)), SHORTEST_NS, (thread / "comm").read_text())
            self.assertGreater(slice_of(server.child("keeper")), SHORTEST_NS, "sandboxes would inherit it")
        # Only the shares of neighbours in the tree are weighed against each other.
        self.assertEqual(own.parent, sandboxes[0].parent)
        self.assertGreaterEqual(share_of(own), FACTOR * share_of(sandboxes[0]))
        self.assertNotIn(str(server.pid), (own / "cgroup.procs").read_text().split(), "the caller's own group is left")

        checks = {check["name"]: check for check in self.cli.must("doctor").value["checks"]}
        self.assertEqual(checks["sandbox server's cpu share"]["verdict"], "works", checks)
        self.cli.must("terminate", run)
        self.assertEqual(server.stop(), 0)
        wait_until(lambda: not self.groups_of_the_folder(), lambda: f"the end of {self.groups_of_the_folder()}")

    def test_a_group_that_a_killed_server_left_is_taken_over_and_removed(self):
        server = self.server()
        children = processes.descendants_of(server.pid)
        server.kill()
        wait_until(lambda: not any(processes.is_alive(pid) for pid in children), "the end of the children")
        self.assertEqual(len(self.groups_of_the_folder()), 1)
        ended = self.cli.call("doctor", "--clean")
        self.assertEqual(ended.status, 0, str(ended))
        wait_until(lambda: not self.groups_of_the_folder(), lambda: f"the end of {self.groups_of_the_folder()}")


@unittest.skipIf(os.geteuid() == 0, "root's server has its share")
class WithoutRoot(Case):

    def test_doctor_says_that_sandboxes_compete_as_equals(self):
        self.server()
        checks = {check["name"]: check for check in self.cli.must("doctor").value["checks"]}
        self.assertEqual(checks["sandbox server's cpu share"]["verdict"], "weaker", checks)


if __name__ == "__main__":
    unittest.main(verbosity=2)
