"""SIGKILL of the engine at random moments of the main job: no run is lost, and the receiver counts one effect each.

The seed is printed; SANDGLASS_SEED=N repeats its moments. SANDGLASS_LONG=1 kills five times as often.
"""

import os
import random
import threading
import time
import unittest

from harness import main_job, places
from harness.case import Case
from harness.main_job import Approver, Job

RUNS, KILLS_PER_RUN = (50, 5) if places.LONG else (10, 5)
DELAY_AFTER_ACTING_MS = 300
SPREAD = 1.5  # kills make a run longer than the measured one


class Killer:
    """Kills the engine at the given moments, in seconds after its construction."""

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
            for moment in self._moments:
                time.sleep(max(0.0, begin + moment - time.monotonic()))
                self._server.kill_child("engine")
                self.kills += 1
        except Exception as problem:  # pylint: disable=broad-except
            self.problem = problem

    def join(self):
        self._thread.join()
        if self.problem:
            raise self.problem


class RandomKills(Case):

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("SANDGLASS_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"SANDGLASS_SEED={self.seed}", flush=True)
        self.outside = self.receiver("--reply-delay-ms", DELAY_AFTER_ACTING_MS)

    def finished_job(self, variant):
        """(job, its detail, seconds), approved as soon as it asks."""
        begin = time.monotonic()
        job = Job.start(self.cli, self.outside, variant, request_id=f"job-{self.outside.effects()}")
        approver = Approver(job)
        try:
            detail = job.wait_for_end(120)
        finally:
            approver.close()
        return job, detail, time.monotonic() - begin

    def test_every_effect_happens_once_and_no_run_is_lost(self):
        draw = random.Random(self.seed)
        server = self.server(config=self.outside.configuration())
        *_, usual_seconds = self.finished_job("total")
        self.assertEqual(self.outside.effects(), 1)
        jobs, kills = [], 0
        for number in range(RUNS):
            variant = draw.choice(main_job.VARIANTS)
            moments = [draw.uniform(0, usual_seconds * SPREAD) for _ in range(KILLS_PER_RUN)]
            told = f"run {number} ({variant}), kills after {[f'{each:.3f}' for each in sorted(moments)]} s"
            killer = Killer(server, moments)
            job, detail, seconds = self.finished_job(variant)
            killer.join()
            kills += killer.kills
            print(f"{told}: {seconds:.1f} s", flush=True)
            self.assertEqual(detail["summary"]["status"], "completed", told + job.describe())
            self.assertEqual(self.outside.effects(), number + 2, told)
            jobs.append(job)
            self.assertEqual(server.stop(), 0)  # the next run begins with a short backoff again
            self.start(server)
        self.assertEqual(kills, RUNS * KILLS_PER_RUN)
        listed = {each["run_id"]: each["status"] for each in self.cli.must("list", "--limit", "500").value["runs"]}
        for job in jobs:
            self.assertEqual(listed.get(job.run_id), "completed")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        counts = self.outside.counts()
        self.assertEqual((counts["effects"], counts["refused"]), (RUNS + 1, 0))
        print(f"{kills} kills, {RUNS + 1} runs: {counts}", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
