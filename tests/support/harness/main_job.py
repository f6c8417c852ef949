"""The main job of examples/fix-failing-test, as the tests run it."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import threading

from harness import places
from harness.waiting import wait_until

VARIANTS = ("total", "discount", "slug")
ARTIFACTS = {"fix.diff", "test-result.txt", "test.log", "explanation.md"}
OPEN = ("running", "unspecified")
AWAY = 4  # exit code: no engine answers just now


class Job:
    """One run of the task file."""

    def __init__(self, cli, run_id):
        self.cli = cli
        self.run_id = run_id

    @classmethod
    def start(cls, cli, receiver, variant="total", request_id=None):
        """Starts it and does not follow it."""
        job = cls(cli, "")
        arguments = ["run", places.EXAMPLE / "task.yaml", "--detach", "--param", f"variant={variant}",
                     "--param", f"template={places.TEMPLATE}", "--param", f"receiver={receiver.url}"]
        if request_id:
            arguments += ["--request-id", request_id]
        # Asked again under the same request id it is the same run, so an engine that is away is no reason to fail.
        job.run_id = wait_until(lambda: job._answer(*arguments), "the start of the run")["run_id"]
        return job

    @classmethod
    def follow(cls, cli, receiver, variant="total"):
        """(job, process): starts it by a call that follows it to its end."""
        process = cli.begin("run", places.EXAMPLE / "task.yaml", "--param", f"variant={variant}",
                            "--param", f"template={places.TEMPLATE}", "--param", f"receiver={receiver.url}")
        return cls(cli, json.loads(process.stdout.readline())["run_id"]), process

    def _answer(self, *arguments, **options):
        """The first value, or None while no engine answers."""
        ended = self.cli.call(*arguments, **options)
        if ended.status == AWAY:
            return None
        if ended.status != 0:
            raise AssertionError(str(ended))
        return ended.value

    def show(self):
        return wait_until(lambda: self._answer("show", self.run_id), f"an engine that shows {self.run_id}")

    def status(self):
        return self.show()["summary"]["status"]

    def is_open(self):
        return self.status() in OPEN

    def waiting_approval(self):
        """The approval that waits, or None."""
        answer = self._answer("approvals", self.run_id, as_name="approver")
        waiting = [each for each in (answer or {}).get("approvals", []) if each["status"] == "waiting"]
        return waiting[0] if waiting else None

    def wait_for_approval(self, seconds=90):
        def look():
            approval = self.waiting_approval()
            if not approval and not self.is_open():
                raise AssertionError(f"the run ended without asking: {self.describe()}")
            return approval
        return wait_until(look, lambda: f"an approval of {self.describe()}", seconds)

    def approve(self, approval):
        wait_until(lambda: self._answer("approve", approval["approval_id"], as_name="approver"), "the approval")

    def wait_for_end(self, seconds=90):
        wait_until(lambda: not self.is_open(), lambda: f"the end of {self.describe()}", seconds)
        return self.show()

    def approve_and_wait(self, seconds=90):
        self.approve(self.wait_for_approval(seconds))
        return self.wait_for_end(seconds)

    def describe(self):
        detail = self._answer("show", self.run_id) or {}
        detail.pop("input", None)
        return json.dumps(detail, indent=1)

    def artifacts(self):
        """Name → what is known of it."""
        listed = self.cli.must("artifact", "list", self.run_id).value["artifacts"]
        return {each["name"]: each for each in listed}

    def artifact(self, name, folder):
        """Its bytes, got through the API."""
        path = pathlib.Path(folder) / name
        self.cli.must("artifact", "get", self.run_id, name, "-o", path)
        return path.read_bytes()


class Approver:
    """Approves whatever `job` asks for, as soon as it asks, on a thread of its own, until closed."""

    def __init__(self, job):
        self._job = job
        self._stop = threading.Event()
        self.problem = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stop.is_set():
                approval = self._job.waiting_approval()
                if approval:
                    self._job.approve(approval)
                self._stop.wait(0.05)
        except Exception as problem:  # pylint: disable=broad-except
            self.problem = problem

    def close(self):
        self._stop.set()
        self._thread.join()
        if self.problem:
            raise self.problem


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def fresh_copy(variant, folder):
    """The variant's project as nobody has touched it."""
    copy = pathlib.Path(folder) / f"fresh-{variant}"
    shutil.copytree(places.EXAMPLE / "projects" / variant, copy)
    return copy


def run_project_tests(project):
    return subprocess.run(["sh", "tests/run.sh"], cwd=project, capture_output=True, text=True, check=False,
                          timeout=60)


def git_apply(project, diff):
    """As git does it for everybody: without the settings of who runs the test, or of a repository above the folder."""
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "XDG_CONFIG_HOME": str(project),
             "GIT_CEILING_DIRECTORIES": str(project.parent)}
    return subprocess.run(["git", "apply", "--verbose", "-"], cwd=project, input=diff, capture_output=True, check=False,
                          timeout=60, env={**os.environ, **alone})
