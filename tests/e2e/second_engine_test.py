"""A second server, or a second engine, on a folder that one works on (FR-202): refused with the first one's name, in
whatever way it comes to the folder, and the chain stays whole."""

import os
import signal
import subprocess
import unittest

from harness import places
from harness.case import Case
from harness.server import Server
from harness.waiting import wait_until

FOLDER = 8


class SecondEngine(Case):

    def another(self, data=None):
        server = Server(data or self.data, log=self.folder / "second.log")
        self._servers.append(server)
        self.addCleanup(self._end, server)
        return server

    def assert_refused(self, server, first):
        report = server.start()
        self.assertTrue(report.startswith("error 1106 "), report)
        self.assertIn(f"process {first.pid}", report)
        self.assertEqual(server.wait(), FOLDER)

    def test_of_many_that_start_at_once_one_serves(self):
        servers = [self.another() for _ in range(5)]
        processes = [subprocess.Popen([places.program("sandglassd"), "--data", str(self.data)], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
                     for _ in servers]
        wait_until(lambda: sum(each.poll() is not None for each in processes) == len(processes) - 1, "all but one to end")
        for each in processes:
            if each.poll() is None:
                wait_until(lambda: self.cli.call("list").status == 0, "the one that serves")
                each.send_signal(signal.SIGTERM)
                self.assertEqual(each.wait(30), 0)
            else:
                self.assertEqual(each.returncode, FOLDER)
                self.assertIn("error 1106", each.stderr.read())
            each.stderr.close()
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)

    def test_another_way_to_the_folder_is_the_same_folder(self):
        first = self.server()
        link = self.folder / "link"
        link.symlink_to(self.data)
        self.assert_refused(self.another(link), first)
        self.assert_refused(self.another(self.folder / "." / "data"), first)

    def test_one_that_is_stopped_still_holds_its_folder(self):
        first = self.server()
        os.kill(first.pid, signal.SIGSTOP)
        try:
            self.assert_refused(self.another(), first)
        finally:
            os.kill(first.pid, signal.SIGCONT)
        self.assertEqual(self.cli.call("list").status, 0)

    def test_one_that_starts_while_the_first_stops_waits_for_no_luck(self):
        server = self.server()
        runs = []
        for _ in range(4):
            runs.append(self.cli.must("start", "hello", "--input", '{"count":3,"pause_ms":100}').value["run_id"])
            successor = self.another()
            server.process.send_signal(signal.SIGTERM)
            report = successor.start()
            if report != "ready":
                self.assertTrue(report.startswith("error 1106 "), report)
                self.assertEqual(server.wait(), 0)
                self.start(successor)
            self.assertEqual(server.wait(), 0)
            server = successor
        for run in runs:
            self.assertEqual(self.cli.must("watch", run).values[-1]["summary"]["status"], "completed")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
