"""The base of test cases: a temporary folder whose logs are shown and kept when a test fails."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import places
from harness.command_line import CommandLine
from harness.receiver import Receiver
from harness.server import Server

LOG_LINES = 60


def needs_root(why):
    """Marks a test or a class that only root can run; `why` completes the sentence."""
    return unittest.skipUnless(os.geteuid() == 0, f"needs root: {why}")


class Case(unittest.TestCase):
    """Everything that a test starts through it ends with the test."""
    maxDiff = None

    folder = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sandglass-test-"))
        self.data = self.folder / "data"
        self.cli = CommandLine(self.data)
        self._servers = []

    def run(self, result=None):
        """The folder goes after everything that cleans up: only then it is known whether something failed."""
        result = result or self.defaultTestResult()
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if self.folder and len(result.failures) + len(result.errors) == before:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif self.folder:
            self._show_logs()
        return result

    def _show_logs(self):
        sys.stderr.write(f"\nkept: {self.folder}\n")
        for server in self._servers:
            lines = server.log_text().splitlines()[-LOG_LINES:]
            sys.stderr.write("\n".join([f"--- end of {server.log}", *lines, "---\n"]))

    def server(self, data=None, *, config=None, settings=(), start=True, environment=None):
        """A server, started and ready unless told otherwise. `config` is the text of its configuration file."""
        data = data or self.data
        path = None
        if config is not None:
            path = self.folder / f"{pathlib.Path(data).name}.yaml"
            path.write_text(config)
        server = Server(data, config=path, settings=settings)
        self._servers.append(server)
        self.addCleanup(self._end, server)
        if start:
            self.start(server, environment)
        return server

    def start(self, server, environment=None):
        report = server.start(environment)
        self.assertEqual(report, "ready", server.log_text())

    @staticmethod
    def _end(server):
        try:
            server.stop()
        except AssertionError as problem:
            sys.stderr.write(f"{problem}\n")

    def receiver(self, *options, folder="receiver"):
        receiver = Receiver(self.folder / folder, *options)
        self.addCleanup(receiver.stop)
        return receiver

    def assert_no_error_was_logged(self):
        """For tests in which nothing goes wrong. Stops the servers, so that their ends are seen too."""
        for server in self._servers:
            self.assertEqual(server.stop(), 0)
            errors = [line for line in server.log_text().splitlines() if line.split()[1:2] == ["error"]]
            self.assertEqual(errors, [])

    def assert_history_replays(self, data=None):
        """J1, FR-23: the rows beside the records of a stopped server are what the records say. What was found, as text."""
        replayed = subprocess.run([places.program("state_hashes"), str(data or self.data)], capture_output=True, text=True,
                                  check=False, timeout=120)
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
        return replayed.stdout.strip()

    def assert_error(self, ended, code, status, *words):
        """The call failed with this error code and exit code, and its message has these words."""
        text = ended.output + ended.errors
        self.assertIn(str(code), text, str(ended))
        self.assertEqual(ended.status, status, str(ended))
        for word in words:
            self.assertIn(word, text, str(ended))
