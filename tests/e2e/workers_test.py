"""Steps that a process elsewhere carries out (E4, E13, T2): the example's worker, counted by its own log, while workers and
engine are killed and stopped."""

import collections
import json
import signal
import subprocess
import unittest

from harness import places
from harness.case import Case
from harness.command_line import CommandLine
from harness.waiting import wait_until


class Workers(Case):

    def setUp(self):
        super().setUp()
        self.log = self.folder / "attempts"
        self.token = self.folder / "worker-token"
        self._workers = []
        self.addCleanup(self._end_workers)

    def serve(self):
        server = self.server()
        made = self.cli.must("token", "create", "greeter", "--role", "worker").value
        self.token.write_text(made["token"] + "\n")
        return server

    def worker(self, *options, token=None):
        began = subprocess.Popen([places.program("example-worker"), "--socket", str(self.data / "run/api.sock"),
                                  "--token-file", str(token or self.token), "--log", str(self.log), *options],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._workers.append(began)
        return began

    def _end_workers(self):
        for worker in self._workers:
            worker.kill()
            worker.communicate()

    def begin(self, **value):
        value = {"name": "you", "activity": "demo.greet", **value}
        return self.cli.must("start", "hello", "--input", json.dumps(value)).value["run_id"]

    def show(self, run):
        return self.cli.must("show", run).value

    def wait_for_end(self, run, status="completed"):
        wait_until(lambda: self.show(run)["summary"]["status"] not in ("running", "stuck"),
                   lambda: f"the end of {self.show(run)}", 60)
        shown = self.show(run)
        self.assertEqual(shown["summary"]["status"], status, shown)
        return shown

    def attempts(self, what):
        """How often each step has begun or ended."""
        if not self.log.exists():
            return collections.Counter()
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return collections.Counter(line["key"] for line in lines if line["what"] == what)

    def assert_each_once(self, steps):
        for what in ("begin", "end"):
            counted = self.attempts(what)
            self.assertEqual(len(counted), steps, what)
            self.assertEqual(set(counted.values()), {1}, f"{what}: {counted}")

    def test_a_step_waits_visibly_for_a_worker_and_is_carried_out_by_two(self):  # FR-58
        self.serve()
        run = self.begin(count=20)
        wait_until(lambda: any("waiting for a worker of demo.greet since " in step["status"]
                               for step in self.show(run).get("steps", [])), lambda: f"its step in {self.show(run)}")
        checks = {check["name"]: check for check in self.cli.must("doctor").value["checks"]}
        self.assertEqual(checks["steps of demo.greet"]["verdict"], "missing")
        self.assertIn("1 waiting since ", checks["steps of demo.greet"]["detail"])
        limited = self.begin(policy={"schedule_to_start_ms": 50, "queue": "nobody"})
        shown = self.wait_for_end(limited, "failed")
        self.assertEqual(shown["error_code"], 1230, shown)
        self.worker()
        self.worker()
        self.wait_for_end(run)
        more = [self.begin(count=20) for _ in range(4)]
        for one in more:
            self.wait_for_end(one)
        self.assert_each_once(100)

    def test_a_token_without_the_role_is_refused(self):
        self.serve()
        made = self.cli.must("token", "create", "somebody", "--role", "user").value
        other = self.folder / "user-token"
        other.write_text(made["token"] + "\n")
        refused = self.worker(token=other)
        self.assertEqual(refused.wait(timeout=30), 1)
        self.assertIn("carry out steps", refused.stderr.read())
        noted = self.cli.must("audit", "refusals").values
        self.assertIn("somebody", [each["token"] for each in noted])

    def test_a_revoked_token_ends_what_is_open_with_it(self):
        self.serve()
        revoked = self.worker()
        run = self.begin(count=1000, ms=20)
        wait_until(lambda: self.attempts("end").total() >= 3, "steps")
        guest = self.cli.must("token", "create", "guest", "--role", "operator").value["token"]
        watching = CommandLine(self.data, {"SANDGLASS_TOKEN": guest}).begin("watch", run)
        self.addCleanup(watching.communicate)
        self.addCleanup(watching.kill)
        watching.stdout.readline()
        self.cli.must("token", "revoke", "guest")
        self.assertEqual(watching.wait(timeout=30), 5)
        self.cli.must("token", "revoke", "greeter")
        self.assertEqual(revoked.wait(timeout=30), 1)
        self.assertIn("revoked", revoked.stderr.read())

    def test_steps_go_on_over_kills_of_the_engine_and_each_happens_once(self):  # FR-74, J8
        server = self.serve()
        self.worker("--capacity", "4")
        runs = [self.begin(count=8, ms=60) for _ in range(3)]
        for kill in (4, 10, 16):
            wait_until(lambda kill=kill: self.attempts("end").total() >= kill, f"{kill} steps")
            server.kill_child("engine")
        for run in runs:
            self.wait_for_end(run)
        self.assert_each_once(24)

    def test_what_a_killed_worker_had_is_tried_again_as_the_policy_says(self):  # FR-1, FR-59, FR-72
        self.serve()
        doomed = self.worker()
        policy = {"max_attempts": 2, "initial_interval_ms": 10, "heartbeat_ms": 500}
        tried = self.begin(ms=4000, policy=policy)
        once = self.begin(ms=4000, policy={"heartbeat_ms": 500})
        wait_until(lambda: self.attempts("begin").total() == 2, "both steps to begin")
        doomed.send_signal(signal.SIGKILL)
        shown = self.wait_for_end(once, "failed")
        self.assertIn(shown["error_code"], (1212, 1231), shown)
        self.worker()
        self.wait_for_end(tried)
        self.assertEqual(sorted(self.attempts("begin").values()), [1, 2])
        self.assertEqual(self.attempts("end").total(), 1)
        again = [json.loads(line) for line in self.log.read_text().splitlines()]
        again = next(line for line in again if line["what"] == "begin" and line["attempt"] == 2)
        self.assertIsInstance(again["from"], int, "the second attempt goes on where the first one was")

    def test_a_polite_stop_ends_what_it_has_or_gives_it_back_at_once(self):  # FR-75, FR-76
        self.serve()
        first = self.worker("--grace-ms", "20000")
        run = self.begin(count=3, ms=400)
        wait_until(lambda: self.attempts("begin").total() == 1, "its first step")
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(timeout=30), 0, first.stderr)
        self.assertEqual(self.attempts("end").total(), 1, "it was to be ended")
        second = self.worker("--grace-ms", "1")
        wait_until(lambda: self.attempts("begin").total() == 2, "its second step")
        second.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(timeout=30), 0)
        shown = self.wait_for_end(run, "failed")
        self.assertEqual(shown["error_code"], 1231, shown)
        self.assertIn("interrupted", json.dumps(shown))
        self.assertEqual(self.attempts("end").total(), 1, "one attempt was allowed")


if __name__ == "__main__":
    unittest.main()
