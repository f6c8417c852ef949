"""`sandglass run` and `start --wait` on a terminal: what a person sees, types and interrupts."""

import os
import pty
import select
import signal
import time
import unittest

from harness import places, tasks
from harness.case import Case
from harness.waiting import wait_until

COMPLETED, INVALID, CANCELLED, DENIED, DETACHED = 0, 3, 21, 24, 130
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
        return Terminal(self.data, "run", places.EXAMPLE / "task.yaml", "--param", f"receiver={self.outside.url}", "--param", f"template={places.TEMPLATE}")

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
        self.assertRegex(terminal.text(), "completed.* after .*: pull request 1 opened")
        self.assertIn(f"sandglass --data {self.data} artifact list run-", terminal.text())

    def test_no_ends_the_run_without_an_effect(self):
        terminal = self.run_task()
        terminal.wait_for(b"[y/n]")
        terminal.type(b"n\n")
        self.assertEqual(terminal.end(), DENIED, terminal.text())
        self.assertEqual(self.outside.pulls(), [])
        self.assertRegex(terminal.text(), "failed.* after .*: 1803 ")

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


ARROW_UP, RED = "\\x1B[A", "\\x1B[31m"  # as YAML writes them
TYPED_AHEAD_SECONDS = 0.3
USAGE = 2


class ApprovalsOnATerminal(Case):
    """`sandglass approve` and `deny`, as a person uses them."""

    def setUp(self):
        super().setUp()
        self.outside = self.receiver()
        self.server(config=self.outside.configuration())

    def ask(self, body="hello"):
        """A run that asks, and the id of what waits."""
        (self.folder / "ask.yaml").write_text(tasks.ask(self.outside, body))
        run = self.cli.must("run", self.folder / "ask.yaml", "--detach").value["run_id"]
        waiting = wait_until(lambda: self.cli.must("approvals", run).value["approvals"], "an approval")
        return run, waiting[0]["approval_id"]

    def status_of(self, run):
        return self.cli.must("show", run).value["approvals"][0]["status"]

    def test_approve_shows_what_it_is_about_and_asks_first(self):
        run, approval = self.ask()
        terminal = Terminal(self.data, "approve", approval)
        terminal.wait_for(b"Approve? [y/n]")
        for part in (approval, run, self.outside.url, "hello", "arguments digest", "level 2"):
            self.assertIn(part, terminal.text())
        self.assertEqual(self.status_of(run), "waiting")
        terminal.type(b"y\n")
        self.assertEqual(terminal.end(), 0, terminal.text())
        self.assertIn("approved", terminal.text())
        self.assertEqual(self.cli.call("watch", run).status, COMPLETED)
        self.assertEqual(len(self.outside.pulls()), 1)

    def test_anything_but_yes_decides_nothing_and_says_what_else_there_is(self):
        run, approval = self.ask()
        for typed in (b"n\n", b"\n", b"maybe\n", b"\x04"):
            terminal = Terminal(self.data, "approve", approval)
            terminal.wait_for(b"[y/n]")
            terminal.type(typed)
            self.assertEqual(terminal.end(), 0, terminal.text())
            self.assertIn("nothing was decided", terminal.text())
            self.assertIn(f"deny {approval}", terminal.text())
            self.assertEqual(self.status_of(run), "waiting")
        self.assertEqual(self.outside.pulls(), [])

    def test_deny_asks_too_and_ends_the_run_as_denied(self):
        run, _ = self.ask()
        terminal = Terminal(self.data, "deny", run, "--reason", "not now")
        terminal.wait_for(b"Deny? [y/n]")
        terminal.type(b"y\n")
        self.assertEqual(terminal.end(), 0, terminal.text())
        self.assertEqual(self.cli.call("watch", run).status, DENIED)
        self.assertEqual(self.outside.pulls(), [])

    # A paste, or a bored finger: what was typed before the question was there is no answer to it.
    def test_keys_that_were_typed_before_the_question_answer_nothing(self):
        run, approval = self.ask()
        terminal = Terminal(self.data, "approve", approval)
        terminal.type(b"y\n")
        terminal.wait_for(b"[y/n]")
        time.sleep(TYPED_AHEAD_SECONDS)
        self.assertEqual(self.status_of(run), "waiting")
        terminal.type(b"n\n")
        terminal.end()
        self.assertEqual(self.status_of(run), "waiting")

    # ADV-B6, FR-118, FR-119: what an agent wrote cannot move the cursor or colour a line.
    def test_what_an_agent_wrote_does_not_reach_the_terminal_as_it_is(self):
        _, approval = self.ask(body=f"harmless{ARROW_UP}{RED}\\u202Etxt")
        terminal = Terminal(self.data, "approve", approval)
        terminal.wait_for(b"[y/n]")
        shown = terminal.shown
        self.assertNotIn(b"\x1b[A", shown)
        self.assertNotIn(b"\x1b[31mtxt", shown)
        self.assertNotIn("\u202e".encode(), shown)
        self.assertIn(b"harmless", shown)
        terminal.type(b"n\n")
        terminal.end()

    # ADV-B6, FR-118: the same of an artifact's bytes and of JSON, where C1 controls need no escape.
    def test_artifacts_and_json_do_not_reach_the_terminal_as_they_are(self):
        path = self.folder / "artifact.yaml"
        path.write_text('name: shown\nplan: [{name: keep, artifact: {name: a.txt, text: "harml\\u00e9ss'
                        f'{RED}\\u009b2J\\u202Etxt\\n"}}}}]\n')
        run = self.cli.must("run", path).values[0]["run_id"]
        bad = self.folder / "bad.yaml"
        bad.write_text('name: "x\\u009b2J\\u202E"\nplan: []\n')
        for call, status, kept in ((["artifact", "get", run, "a.txt"], COMPLETED, "harml\u00e9ss".encode()),
                                   (["--json", "run", bad], INVALID, b"x\\u009b2J"),
                                   (["run", bad], INVALID, b"2J")):
            terminal = Terminal(self.data, *call)
            self.assertEqual(terminal.end(), status, terminal.text())
            self.assertIn(kept, terminal.shown)
            for hostile in (b"\x1b[31mt", b"\x1b[2J", "\u009b".encode(), "\u202e".encode()):
                self.assertNotIn(hostile, terminal.shown)

    def test_without_a_terminal_nobody_is_asked_and_nothing_decided(self):
        run, approval = self.ask()
        self.assert_error(self.cli.call("approve", approval, json_output=False), 1405, USAGE, "--digest", "--yes")
        self.assertEqual(self.status_of(run), "waiting")
        self.cli.must("deny", approval, "--yes", json_output=False)
        self.assertEqual(self.status_of(run), "denied")


if __name__ == "__main__":
    unittest.main()
