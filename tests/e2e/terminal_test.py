"""`sandglass run` and `start --wait` on a terminal: what a person sees, types and interrupts."""

import os
import pty
import select
import signal
import time
import unittest

from harness import places
from harness.case import Case

COMPLETED, CANCELLED, DENIED, DETACHED = 0, 21, 24, 130
INTERRUPT = b"\x03"


class Terminal:
    """A call on a pseudo terminal. What it shows is read as it comes."""

    def __init__(self, data, *arguments):
        command = [places.program("sandglass"), "--data", str(data), *[str(each) for each in arguments]]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        self.shown = b""

    def _read(self, seconds):
        """False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self.fd, 65536)
        except OSError:
            return False
        self.shown += part
        return bool(part)

    def wait_for(self, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in self.shown:
            if time.monotonic() > end or not self._read(1):
                raise AssertionError(f"never showed {text!r}:\n{self.text()}")

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self, seconds=60):
        """The exit code."""
        limit = time.monotonic() + seconds
        while self._read(1):
            if time.monotonic() > limit:
                os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def text(self):
        return self.shown.decode(errors="replace")


class OnATerminal(Case):

    def setUp(self):
        super().setUp()
        self.outside = self.receiver()
        self.server(config=self.outside.configuration())

    def run_task(self):
        return Terminal(self.data, "run", places.EXAMPLE / "task.yaml", "--param", f"receiver={self.outside.url}")

    def test_the_approval_shows_what_will_leave_and_waits_for_yes(self):
        terminal = self.run_task()
        terminal.wait_for(b"[y/n]")
        shown = terminal.text()
        for part in ("+  echo $(($1 * $2))", "arguments digest", "SHA-256", self.outside.url):
            self.assertIn(part, shown)
        self.assertEqual(self.outside.pulls(), [])
        terminal.type(b"perhaps\n")
        terminal.wait_for(b"answer y or n")
        terminal.type(b"y\n")
        self.assertEqual(terminal.end(), COMPLETED, terminal.text())
        self.assertEqual(len(self.outside.pulls()), 1)

    def test_no_ends_the_run_without_an_effect(self):
        terminal = self.run_task()
        terminal.wait_for(b"[y/n]")
        terminal.type(b"n\n")
        self.assertEqual(terminal.end(), DENIED, terminal.text())
        self.assertEqual(self.outside.pulls(), [])

    def test_one_interrupt_cancels_and_waits_for_the_clean_up(self):
        terminal = self.run_task()
        terminal.wait_for(b"[y/n]")
        terminal.type(INTERRUPT)
        self.assertEqual(terminal.end(), CANCELLED, terminal.text())
        self.assertIn("cancelling", terminal.text())
        self.assertEqual(self.outside.pulls(), [])

    def test_whoever_only_watches_leaves_with_one_interrupt_and_is_told_how_to_come_back(self):
        terminal = Terminal(self.data, "start", "hello", "--input", '{"count":2,"pause_ms":3600000}', "--wait")
        terminal.wait_for(b"StepCompleted")
        terminal.type(INTERRUPT)
        self.assertEqual(terminal.end(), DETACHED, terminal.text())
        self.assertIn(f"sandglass --data {self.data} watch run-", terminal.text())
        runs = self.cli.must("list", "--status", "running").value["runs"]
        self.assertEqual(len(runs), 1)
        self.cli.must("cancel", runs[0]["run_id"])

    def test_an_approval_that_is_decided_elsewhere_ends_the_question(self):
        terminal = self.run_task()
        terminal.wait_for(b"[y/n]")
        self.cli.must("approve", as_name="approver")
        self.assertEqual(terminal.end(), COMPLETED, terminal.text())
        self.assertIn("decided elsewhere", terminal.text())
        self.assertEqual(len(self.outside.pulls()), 1)


if __name__ == "__main__":
    unittest.main()
