"""The main job with one process killed at each named crash point of every program: it completes with one effect.

A point that the job does not pass fails the test, unless NOT_PASSED says why. Besides the first passage of each point
later ones are drawn; the seed is printed, SANDGLASS_SEED=N repeats them. SANDGLASS_LONG=1 draws a hundred.
"""

import os
import random
import subprocess
import time
import unittest

from harness import places, remains
from harness.case import Case
from harness.main_job import Approver, Job
from harness.waiting import wait_until

PROGRAMS = ("sandglassd", "sandglass-engine", "sandglass-effect", "sandglass-egress", "sandglass-host",
            "sandglass-keeper")
# Points that need another situation than this job → why.
NOT_PASSED = {}
# Points that the job passes many times in one process.
BUSY_PARTS = ("blob.", "host.exec_", "journal.", "shard.")
LATER_PASSAGES = 100 if places.LONG else 6
LATEST_PASSAGE = 25


def listed_points():
    points = set()
    for program in PROGRAMS:
        points.update(subprocess.run([places.program(program), "--list-crash-points"], check=True, text=True,
                                     capture_output=True, timeout=30).stdout.split())
    return sorted(points)


class CrashPoints(Case):

    def setUp(self):
        super().setUp()
        self.jobs = 0

    def job_with_crash(self, at):
        """True if a process was killed there. The job must end well either way."""
        self.jobs += 1
        self.data = self.folder / f"data-{self.jobs}"
        self.cli.data = str(self.data)
        mark = self.folder / f"mark-{self.jobs}"
        outside = self.receiver(folder=f"receiver-{self.jobs}")
        server = self.server(self.data, config=outside.configuration(), start=False)
        self.start(server, {"SANDGLASS_CRASH_AT": at, "SANDGLASS_CRASH_ONCE": str(mark)})
        job = Job.start(self.cli, outside, request_id="the job")
        approver = Approver(job)
        try:
            detail = job.wait_for_end(60)
        finally:
            approver.close()
        self.assertEqual(detail["summary"]["status"], "completed", f"{at}: {job.describe()}")
        self.assertEqual(outside.effects(), 1, at)
        self.assertEqual(len(outside.pulls()), 1, at)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True, at)
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: f"{at}: the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=40)
        self.assertEqual(server.stop(), 0, at)
        outside.stop()
        return mark.exists() and mark.stat().st_size > 0

    def test_every_point_is_passed_and_survived(self):
        points = listed_points()
        self.assertGreaterEqual(len(points), 20, points)
        for point in points:
            with self.subTest(point):
                begin = time.monotonic()
                was_hit = self.job_with_crash(point)
                print(f"{point}: {'killed' if was_hit else 'not passed'}, {time.monotonic() - begin:.1f} s", flush=True)
                if point in NOT_PASSED:
                    self.assertFalse(was_hit, f"{point} is passed: take it off the list")
                else:
                    self.assertTrue(was_hit, f"the main job does not pass {point}")

    def test_later_passages_are_survived(self):
        seed = int(os.environ.get("SANDGLASS_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"SANDGLASS_SEED={seed}", flush=True)
        draw = random.Random(seed)
        points = [point for point in listed_points() if point.startswith(BUSY_PARTS)]
        for _ in range(LATER_PASSAGES):
            at = f"{draw.choice(points)}:{draw.randint(2, LATEST_PASSAGE)}"
            with self.subTest(at):
                was_hit = self.job_with_crash(at)
                print(f"{at}: {'killed' if was_hit else 'not passed so often'}", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
