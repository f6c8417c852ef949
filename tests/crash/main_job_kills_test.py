"""SIGKILL at random moments of the main job: no run is lost, and the receiver counts one effect each.

The seed is printed; SANDGLASS_SEED=N repeats its moments. SANDGLASS_LONG=1 kills ten times as often.
"""

import os
import random
import threading
import time
import unittest

from harness import main_job, places, remains
from harness.case import Case
from harness.main_job import Approver, Job
from harness.waiting import wait_until

RUNS, KILLS_PER_RUN = (50, 5) if places.LONG else (5, 5)
DELAY_AFTER_ACTING_MS = 300
SPREAD = 1.5  # kills make a run longer than the measured one


class Killer:
    """Kills children at given moments: (seconds after its construction, the child's name)."""

    def __init__(self, server, moments):
        self._server = server
        self._moments = sorted(moments)
        self.kills = 0
        self.problem = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        begin = time.monotonic()
        try:
            for moment, name in self._moments:
                time.sleep(max(0.0, begin + moment - time.monotonic()))
                self._server.kill_child(name)
                self.kills += 1
        except Exception as problem:  # pylint: disable=broad-except
            self.problem = problem

    def join(self):
        self._thread.join()
        if self.problem:
            raise self.problem


class MainJobKills(Case):

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("SANDGLASS_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"SANDGLASS_SEED={self.seed}", flush=True)
        self.outside = self.receiver("--reply-delay-ms", DELAY_AFTER_ACTING_MS)

    def finished_jobs(self, variants):
        """(jobs, seconds), each approved as soon as it asks."""
        begin = time.monotonic()
        jobs = [Job.start(self.cli, self.outside, variant, request_id=f"job-{self.outside.effects()}-{number}")
                for number, variant in enumerate(variants)]
        approvers = [Approver(job) for job in jobs]
        try:
            for job in jobs:
                job.wait_for_end(120)
        finally:
            for approver in approvers:
                approver.close()
        return jobs, time.monotonic() - begin

    def run_jobs(self, runs, victims, together=1):
        """Job after job, `together` of them at once, KILLS_PER_RUN kills each time."""
        draw = random.Random(self.seed)
        server = self.server(config=self.outside.configuration())
        *_, usual_seconds = self.finished_jobs(["total"])
        jobs, kills = [], 0
        for number in range(runs):
            variants = [draw.choice(main_job.VARIANTS) for _ in range(together)]
            moments = [(draw.uniform(0, usual_seconds * SPREAD), draw.choice(victims)) for _ in range(KILLS_PER_RUN)]
            told = f"run {number} {variants}, kills " + ", ".join(f"{at:.3f} {name}" for at, name in sorted(moments))
            killer = Killer(server, moments)
            finished, seconds = self.finished_jobs(variants)
            killer.join()
            kills += killer.kills
            print(f"{told}: {seconds:.1f} s", flush=True)
            for job in finished:
                self.assertEqual(job.status(), "completed", told + job.describe())
            jobs += finished
            self.assertEqual(self.outside.effects(), len(jobs) + 1, told)
            self.assertEqual(server.stop(), 0)  # the next run begins with a short backoff again
            self.start(server)
        self.assertEqual(kills, runs * KILLS_PER_RUN)
        self.check_the_end(jobs)
        print(f"{kills} kills, {len(jobs) + 1} runs: {self.outside.counts()}", flush=True)

    def check_the_end(self, jobs):
        listed = {each["run_id"]: each["status"] for each in self.cli.must("list", "--limit", "500").value["runs"]}
        for job in jobs:
            self.assertEqual(listed.get(job.run_id), "completed")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        counts = self.outside.counts()
        self.assertEqual((counts["effects"], counts["refused"]), (len(jobs) + 1, 0))
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=40)

    def test_the_engine_killed_at_random_moments(self):
        self.run_jobs(RUNS, ["engine"])

    def test_the_engine_killed_while_several_jobs_run(self):
        self.run_jobs(max(1, RUNS // 5), ["engine"], together=3)

    def test_engine_executor_host_and_proxy_killed_in_any_order(self):
        self.run_jobs(RUNS // 2, ["engine", "effect", "host", "egress"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
