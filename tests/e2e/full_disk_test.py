"""Disks that are full or read-only. The test mounts them in a mount namespace of its own."""

import json
import unittest

from harness import mounts
from harness.case import Case
from harness.waiting import wait_until

DISK_MIB = 96
MACHINE = 10
# What a caller may be told while the disk is full: the reason itself, or that the engine is away.
FULL = {1008: MACHINE, 1004: 4, 1105: 4, 1404: 4}


class BadDisk(Case):

    def setUp(self):
        super().setUp()
        self.data.mkdir(mode=0o700)
        mounts.mount(self.data, kind="tmpfs", options=f"size={DISK_MIB}m,mode=0700")
        self.addCleanup(mounts.unmount, self.data)

    def fill(self):
        filler = self.data / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 65536):
                    pass
            except OSError:
                pass
        return filler

    def start_hello(self, name):
        """A run whose input is large, as room that the journal has set aside is used first."""
        text = self.folder / "input.json"
        text.write_text(json.dumps({"name": name, "count": 3, "pause_ms": 10, "more": "x" * 230_000}))
        return self.cli.call("start", "hello", "--request-id", name, "--input-file", text)

    def must_start_hello(self, name):
        ended = self.start_hello(name)
        self.assertEqual(ended.status, 0, str(ended))
        return ended.value["run_id"]

    # FR-89: that all is well again is shown by a write, not by what a part of the server believes.
    def test_a_full_disk_is_told_and_nothing_is_lost_when_there_is_room_again(self):
        server = self.server(settings=["engine.partitions=1"])
        taken = [self.must_start_hello(f"before-{i}") for i in range(5)]
        filler = self.fill()
        refused = None
        for i in range(300):
            ended = self.start_hello(f"full-{i}")
            if ended.status != 0:
                refused = ended
                break
            taken.append(ended.value["run_id"])
        self.assertIsNotNone(refused, "a full disk took 300 large runs")
        self.assertEqual(FULL.get(refused.value["error"]), refused.status, str(refused))
        wait_until(lambda: "free at least" in server.log_text() or "No space left" in server.log_text(),
                   "a log line that says that the disk is full")
        filler.unlink()
        wait_until(lambda: self.start_hello("after").status == 0, "an engine that takes runs again", seconds=30)
        for run in taken:
            ended = self.cli.must("watch", run)
            self.assertEqual(ended.values[-1]["summary"]["status"], "completed", str(ended))
        self.assertEqual(self.must_start_hello("before-0"), taken[0], "the start was forgotten")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)

    def test_a_read_only_folder_can_be_read_but_not_served(self):
        server = self.server()
        run = self.cli.must("start", "hello", "--wait").values[0]["run_id"]
        self.assertEqual(server.stop(), 0)
        mounts.mount(self.data, flags=mounts.REMOUNT | mounts.BIND | mounts.RDONLY)
        report = server.start()
        self.assertTrue(report.startswith("error 1007 "), report)
        self.assertIn(str(self.data), report)
        self.assertEqual(server.wait(), MACHINE)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        self.assertEqual(self.cli.must("debug", run, "--all").values[-1]["state"]["status"], "completed")
        mounts.mount(self.data, flags=mounts.REMOUNT | mounts.BIND)
        self.start(server)
        self.assertEqual(self.cli.must("list").value["runs"][0]["run_id"], run)


if __name__ == "__main__":
    mounts.run_apart()
    unittest.main(verbosity=2)
