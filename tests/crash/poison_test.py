"""Code that loops or crashes the engine (J13, E14): its run is parked as stuck and named, and healthy runs of the same
data folder go on and end."""

import json
import os
import pathlib
import re
import shutil
import unittest

from harness import places
from harness.case import Case
from harness.waiting import wait_until

STRIKES = 3
LOOPS = 10  # more than the threads that an engine gives up before it starts anew


class Poison(Case):

    def setUp(self):
        super().setUp()
        # A supervisor beside an engine that has workflows to test with; the other programs are the product's.
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        for name in os.listdir(places.BIN):
            if name.startswith("sandglass") and name not in ("sandglassd", "sandglass-engine"):
                (self.programs / name).symlink_to(places.BIN / name)
        shutil.copy2(places.program("sandglassd"), self.programs / "sandglassd")
        shutil.copy2(places.program("poison-engine"), self.programs / "sandglass-engine")
        self.cured = self.data / "run" / "cured"  # where the engine can see it, in its own root too
        self.poisoned = self.server(start=False)
        self.poisoned.program = str(self.programs / "sandglassd")
        self.start(self.poisoned)

    def begin(self, workflow, value):
        """Starts a run, however often the engine ends meanwhile; its id."""
        request = os.urandom(8).hex()

        def start():
            ended = self.cli.call("start", workflow, "--input", json.dumps(value), "--request-id", request)
            return ended.value["run_id"] if ended.status == 0 else None
        return wait_until(start, f"the start of {workflow}", 60)

    def show(self, run):
        def look():
            ended = self.cli.call("show", run)
            return ended.value if ended.status == 0 else None
        return wait_until(look, f"an engine that shows {run}", 60)

    def status(self, run):
        return self.show(run)["summary"]["status"]

    def wait_until_stuck(self, run):
        wait_until(lambda: self.status(run) == "stuck", lambda: f"{run} to be stuck, not {self.status(run)}", 60)
        return self.show(run)

    def engines_that_died(self):
        return len(re.findall(r" ended name=engine .*signal 11", self.poisoned.log_text()))

    def resume_cured(self, *runs):
        self.cured.touch()
        for run in runs:
            self.cli.must("resume", run)
            wait_until(lambda run=run: self.status(run) == "completed", f"{run} to end once it is cured", 60)

    def test_a_workflow_and_a_step_that_crash_are_parked_after_three_restarts_and_others_end(self):
        healthy = self.begin("hello", {"name": "healthy", "count": 20, "pause_ms": 300})
        value = {"unless": str(self.cured)}
        workflow = self.begin("poison.crashes", value)
        stuck = self.wait_until_stuck(workflow)
        self.assertEqual(stuck["error_code"], 1206, stuck)
        self.assertIn("ended three times", stuck["error"])
        self.assertEqual(self.engines_that_died(), STRIKES, self.poisoned.log_text())

        step = self.begin("poison.step_crashes", value)
        stuck = self.wait_until_stuck(step)
        self.assertEqual(stuck["error_code"], 1206, stuck)
        self.assertIn("poison.crash", stuck["error"])
        self.assertIn("culprit", stuck["stuck"]["path"])
        died = self.engines_that_died()
        self.assertEqual(died, 2 * STRIKES, self.poisoned.log_text())

        wait_until(lambda: self.status(healthy) == "completed", "the healthy run's end", 60)
        listed = {run["run_id"]: run["status"] for run in self.cli.must("list", "--status", "stuck").value["runs"]}
        self.assertEqual(listed, {workflow: "stuck", step: "stuck"})
        # Neither is run again by a restart: they wait for an operator.
        self.poisoned.kill_child("engine")
        self.assertEqual(self.status(step), "stuck")
        self.assertEqual(self.engines_that_died(), died)
        self.resume_cured(workflow, step)

    def test_workflows_that_loop_are_parked_and_do_not_exhaust_the_engine(self):
        healthy = self.begin("hello", {"name": "healthy", "count": 10, "pause_ms": 200})
        loops = [self.begin("poison.loops", {"unless": str(self.cured)}) for _ in range(LOOPS)]
        for run in loops:
            self.assertEqual(self.wait_until_stuck(run)["error_code"], 1206)
        wait_until(lambda: self.status(healthy) == "completed", "the healthy run's end", 60)
        log = self.poisoned.log_text()
        self.assertIn("activation_blocked", log)
        self.assertEqual(self.engines_that_died(), 0)
        engine = self.poisoned.wait_for_child("engine")
        threads = len(list(pathlib.Path(f"/proc/{engine}/task").iterdir()))
        self.assertLess(threads, 60, "threads that never return have piled up")
        self.assertGreater(log.count("started name=engine"), 1, "nobody said that there were too many:\n" + log)
        self.resume_cured(loops[0], loops[-1])


if __name__ == "__main__":
    unittest.main()
