"""The main job as a plain user: server, sandboxes and command line under an account that has no privilege at all.

Started by root it takes a user id that nobody has. Nothing here is skipped: a machine on which it cannot run fails.
"""

import os
import pathlib
import shutil
import stat
import subprocess
import unittest

from harness import command_line, main_job, places, processes
from harness.case import Case
from harness.main_job import Job

FIRST_FREE_UID = 64000


def as_user(uid):
    """The words in front of a command."""
    if os.geteuid() == uid:
        return []
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs", "--inh-caps=-all",
            "--bounding-set=-all"]


class PlainUser(Case):

    def setUp(self):
        super().setUp()
        self.uid = os.geteuid() or FIRST_FREE_UID + os.getpid() % 1000
        # A place of its own: a plain user may not be able to reach the build, or the sources.
        self.programs = places.copy_programs(self.folder / "bin")
        self.example = self.folder / "example"
        shutil.copytree(places.EXAMPLE, self.example)
        self.outside = self.receiver()
        self.config = self.folder / "sandglass.yaml"
        self.config.write_text(self.outside.configuration())
        self.home = self.folder / "home"
        self.home.mkdir()
        for path in [self.folder, *self.folder.rglob("*")]:
            os.chown(path, self.uid, -1)
        self.log = open(self.folder / "server.log", "wb")  # pylint: disable=consider-using-with
        self.addCleanup(self.log.close)

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "data")}

    def call(self, *arguments, as_name=None):
        name = ["--as", as_name] if as_name else []
        ended = subprocess.run([*as_user(self.uid), str(self.programs / "sandglass"), "--json", *name,
                                *map(str, arguments)],
                               cwd=self.home, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=120, check=False)
        return command_line.Ended([str(each) for each in arguments], ended.returncode, ended.stdout, ended.stderr)

    def must(self, *arguments, **options):
        ended = self.call(*arguments, **options)
        self.assertEqual(ended.status, 0, str(ended) + (self.folder / "server.log").read_text(errors="replace"))
        return ended

    def test_the_main_job_runs_and_nothing_of_it_is_root(self):
        reading, writing = os.pipe()
        server = subprocess.Popen([*as_user(self.uid), str(self.programs / "sandglassd"), "--config", str(self.config),
                                   "--ready-fd", str(writing), "--data", str(self.home / "data/sandglass")],
                                  cwd=self.home, env=self.environment(), pass_fds=[writing], stdin=subprocess.DEVNULL,
                                  stdout=self.log, stderr=self.log, start_new_session=True)
        os.close(writing)
        self.addCleanup(server.wait, 30)
        self.addCleanup(server.terminate)
        with os.fdopen(reading) as pipe:
            self.assertEqual(pipe.readline().strip(), "ready", (self.folder / "server.log").read_text(errors="replace"))

        run = self.must("run", self.example / "task.yaml", "--detach", "--param", "template=default-rootless",
                        "--param", f"receiver={self.outside.url}").value["run_id"]
        job = Job(self, run)
        approval = job.wait_for_approval()
        for pid in [server.pid, *processes.descendants_of(server.pid)]:
            try:
                owner = os.stat(f"/proc/{pid}").st_uid
            except OSError:
                continue  # it has ended
            self.assertEqual(owner, self.uid, processes.program_of(pid))
        job.approve(approval)
        detail = job.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())
        self.assertEqual(self.outside.effects(), 1)
        (self.folder / "fresh").mkdir()
        copy = main_job.fresh_copy("total", self.folder / "fresh")
        diff = pathlib.Path(self.home / "fix.diff")
        self.must("artifact", "get", run, "fix.diff", "-o", diff)
        self.assertEqual(main_job.git_apply(copy, diff.read_bytes()).returncode, 0)
        self.assertEqual(main_job.run_project_tests(copy).returncode, 0)
        self.assertIs(self.must("audit", "verify").value["good"], True)
        data = self.home / "data/sandglass"
        self.assertEqual(stat.S_IMODE(data.stat().st_mode), 0o700)
        self.assertEqual([str(each) for each in data.rglob("*") if each.lstat().st_uid != self.uid], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
