"""A server in a data folder of its own."""

import os
import pathlib
import select
import signal
import subprocess
import time

from harness import places, processes
from harness.waiting import wait_until


class Server:
    """sandglassd as a child of the test, in a process group of its own, its log in one file over all its starts."""

    def __init__(self, data, *, config=None, settings=(), log=None):
        self.data = pathlib.Path(data)
        self.config = config
        self.settings = list(settings)
        self.log = pathlib.Path(log or str(data) + ".log")
        self.program = places.program("sandglassd")
        self.process = None
        self.report = ""

    def start(self, environment=None, seconds=30):
        """Starts it and returns its report: "ready", "standby", "error CODE MESSAGE", or how it ended without."""
        reading, writing = os.pipe()
        command = [self.program, "--data", str(self.data), "--ready-fd", str(writing)]
        if self.config:
            command += ["--config", str(self.config)]
        for setting in self.settings:
            command += ["--set", setting]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            pass_fds=[writing], start_new_session=True,
                                            env={**os.environ, **(environment or {})})
        os.close(writing)
        self.report = self._read_report(reading, time.monotonic() + seconds)
        if not self.report:
            self.report = f"ended without a report, status {self.process.wait()}"
        return self.report

    @staticmethod
    def _read_report(reading, deadline):
        text = b""
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while not text.endswith(b"\n"):
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([pipe], [], [], left)[0]:
                    return "no report in time"
                part = pipe.read(4096)
                if not part:
                    break
                text += part
        return text.decode("utf-8", "replace").strip()

    @property
    def pid(self):
        return self.process.pid

    def child(self, name):
        """The id of sandglass-NAME, or None."""
        if name == "keeper":
            return processes.keeper_of(self.data)
        for pid in processes.children_of(self.pid):
            if processes.program_of(pid) == f"sandglass-{name}":
                return pid
        return None

    def wait_for_child(self, name, other_than=None, seconds=30):
        def current():
            pid = self.child(name)
            return pid if pid and pid != other_than else None
        return wait_until(current, f"a running sandglass-{name}", seconds)

    def kill_child(self, name):
        """SIGKILL to the child as soon as there is one; returns the id that it had."""
        while True:
            pid = self.wait_for_child(name)
            if processes.kill(pid):
                return pid

    def kill(self):
        """SIGKILL to the supervisor itself."""
        self.process.kill()
        return self.process.wait()

    def stop(self, seconds=30):
        """SIGTERM and the exit status. A server that does not end is killed and that is an error."""
        if self.process is None or self.process.poll() is not None:
            return self.process.returncode if self.process else None
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=30):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"sandglassd did not end within {seconds} s") from None

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""
