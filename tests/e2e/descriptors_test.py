"""File descriptors run out, in the engine and in the sandbox host: callers get an error that says to try again, or wait;
the journal goes on; and when there are descriptors again, everything does."""

import os
import resource
import socket
import unittest

from harness.case import Case
from harness.main_job import Job
from harness.waiting import wait_until

AWAY, FOLDER = 4, 8
ONE_UID = ["processes.first_uid=0"]  # not every root may set the limits of a process of another uid
SPARE = 40
KEPT = 8  # at least so many of them are never a connection's


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def limit_to(pid, most):
    """Returns the limit that it had."""
    return resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))


class Descriptors(Case):

    def setUp(self):
        super().setUp()
        self.outside = self.receiver()
        self.service = self.server(config=self.outside.configuration(), settings=ONE_UID)

    def hold_connections(self, count):
        """Open connections to the API that say nothing, as far as they are taken."""
        held = []
        self.addCleanup(lambda: [each.close() for each in held])
        folder = os.open(self.data / "run", os.O_PATH | os.O_DIRECTORY)
        try:
            for _ in range(count):
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.setblocking(False)
                held.append(connection)
                try:
                    connection.connect(f"/proc/self/fd/{folder}/api.sock")
                except OSError:
                    pass  # nobody accepts any more
        finally:
            os.close(folder)
        return held

    def hello(self, name):
        return self.cli.call("start", "hello", "--request-id", name, "--input", '{"count":5,"pause_ms":100}')

    def test_connections_that_use_up_the_engines_descriptors_stop_no_run_and_lose_no_record(self):
        engine = self.service.wait_for_child("engine")
        under_way = self.hello("before")
        self.assertEqual(under_way.status, 0)
        before = limit_to(engine, descriptors(engine) + SPARE)
        held = self.hold_connections(5 * SPARE)
        wait_until(lambda: "connection_turned_away" in self.service.log_text(), "a connection that is turned away", seconds=20)
        self.assertLessEqual(descriptors(engine), limit_to_now(engine) - KEPT, "the journal has none left")
        taken = {}
        for i in range(3):
            ended = self.hello(f"meanwhile-{i}")
            if ended.status == 0:
                taken[f"meanwhile-{i}"] = ended.value["run_id"]
            else:
                # Away, or, where the command line would have started a server itself: one holds the folder already.
                self.assertIn(ended.status, (AWAY, FOLDER), str(ended))
        for connection in held:
            connection.close()
        resource.prlimit(engine, resource.RLIMIT_NOFILE, before)
        wait_until(lambda: self.cli.call("list").status == 0, "an engine that answers again")
        self.assertEqual(self.service.child("engine"), engine, "the engine was replaced:\n" + self.service.log_text())
        self.assertNotIn("ownership_lost", self.service.log_text())
        for run in [under_way.value["run_id"], *taken.values()]:
            self.assertEqual(self.cli.must("watch", run).values[-1]["summary"]["status"], "completed")
        for name, run in taken.items():
            self.assertEqual(self.hello(name).value["run_id"], run)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)

    def test_a_host_without_descriptors_refuses_clearly_and_works_again_afterwards(self):
        host = self.service.wait_for_child("host")
        wait_until(lambda: Job.start(self.cli, self.outside, "green").wait_for_end()["summary"]["status"] == "completed",
                   "a first job")
        before = limit_to(host, descriptors(host) + 1)
        job = Job.start(self.cli, self.outside, "green")
        wait_until(lambda: not job.is_open() or "Too many open files" in self.service.log_text()
                   or "descriptors" in self.service.log_text(), "a job that ends or a log line that says why", seconds=60)
        resource.prlimit(host, resource.RLIMIT_NOFILE, before)
        if not job.is_open():
            detail = job.show()
            if detail["summary"]["status"] != "completed":
                self.assertIn(detail["error_code"], (1500, 1502, 1509), job.describe())
        else:
            job.wait_for_end()
        after = Job.start(self.cli, self.outside, "green").wait_for_end()
        self.assertEqual(after["summary"]["status"], "completed", str(after))
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)


def limit_to_now(pid):
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]


if __name__ == "__main__":
    unittest.main(verbosity=2)
