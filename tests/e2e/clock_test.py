"""The machine's wall clock is set by hours while runs hold sandboxes, sleep and wait for people (docs/decisions/0007)."""

import json
import time
import unittest

from harness import places, tasks
from harness.case import Case
from harness.faults import ONE_VIEW, Faults
from harness.waiting import wait_until

TWO_HOURS = 7200
DENIED = 24
LEASE_SECONDS = 120

# Works in a sandbox for some seconds, twice, then ends.
WORK = places.task("""name: work
goal: be at work while the clock is set
brain: plan
template: default
timeouts: {{task: 10m, step: 5m, queue: 60s}}
plan:
  - name: first
    exec: {{argv: [sleep, "{seconds}"]}}
  - name: second
    exec: {{argv: [sh, -c, "echo still here"]}}
  - name: done
    finish: {{message: "${{second.out}}"}}
""")


class Clocks(Case):

    def setUp(self):
        super().setUp()
        self.faults = Faults(self.folder)

    def clock_server(self, config=None):
        server = self.server(config=config, settings=ONE_VIEW, start=False)
        self.start(server, self.faults.environment())
        return server

    def run_file(self, text):
        (self.folder / "task.yaml").write_text(text)
        return self.cli.must("run", self.folder / "task.yaml", "--detach").value["run_id"]

    def state_of(self, run):
        return self.cli.must("show", run).value

    def wait_for_end(self, run, seconds=60):
        wait_until(lambda: self.state_of(run)["summary"]["status"] != "running",
                   lambda: f"the end of {json.dumps(self.state_of(run))}", seconds)
        return self.state_of(run)

    # ADV-E9, ADV-E6: neither the host nor the pool ends a lease because of it.
    def test_a_sandbox_at_work_survives_a_clock_that_is_set_both_ways(self):
        server = self.clock_server()
        run = self.run_file(WORK.format(seconds=4))
        wait_until(lambda: [step for step in self.state_of(run).get("steps", []) if step["name"] == "sandbox.exec"],
                   "a command in the sandbox")
        sandbox = self.state_of(run)["leases"][0]["sandbox"]
        for off in (TWO_HOURS, -TWO_HOURS, 86400, 0):
            self.faults.set_clock(off)
            time.sleep(0.5)
        detail = self.wait_for_end(run)
        self.assertEqual(detail["summary"]["status"], "completed", json.dumps(detail))
        self.assertIn("still here", json.dumps(detail["result"]))
        self.assertEqual([lease["sandbox"] for lease in detail["leases"]], [sandbox], "it had another sandbox")
        self.assertNotIn("lease ran out", server.log_text())

    @unittest.skipUnless(places.LONG, "the long form: takes longer than a lease")
    def test_a_lease_is_renewed_in_time_when_the_clock_is_set_back(self):
        self.clock_server()
        run = self.run_file(WORK.format(seconds=LEASE_SECONDS + 40))
        wait_until(lambda: self.state_of(run).get("leases"), "a sandbox")
        self.faults.set_clock(-TWO_HOURS)
        detail = self.wait_for_end(run, seconds=LEASE_SECONDS + 120)
        self.assertEqual(detail["summary"]["status"], "completed", json.dumps(detail))

    def test_a_sleep_is_as_long_as_it_was_meant_to_be(self):
        server = self.clock_server()
        for off in (TWO_HOURS, -TWO_HOURS):
            began = time.monotonic()
            run = self.cli.must("start", "hello", "--input", '{"count":2,"pause_ms":3000}').value["run_id"]
            wait_until(lambda: self.state_of(run).get("timers"), "the sleep")
            self.faults.set_clock(off)
            self.assertEqual(self.wait_for_end(run)["summary"]["status"], "completed")
            self.assertGreater(time.monotonic() - began, 2.5, "the sleep was cut short")
        self.assertEqual(server.stop(), 0)

    # ADV-G9, FR-109, FR-121: by the calendar, as the person was told.
    def test_an_approval_expires_when_the_clock_on_the_wall_says_so_and_stays_expired(self):
        outside = self.receiver()
        self.clock_server(config=outside.configuration())
        run = self.run_file(tasks.ask(outside))
        approval = wait_until(lambda: self.cli.must("approvals", run).value["approvals"], "the approval")[0]
        self.faults.set_clock(-TWO_HOURS)
        time.sleep(1.5)
        self.assertEqual(self.state_of(run)["summary"]["status"], "running")
        self.faults.set_clock(TWO_HOURS)
        detail = self.wait_for_end(run)
        self.assertEqual(detail["error_code"], 1804, json.dumps(detail))
        self.faults.set_clock(0)
        self.assert_error(self.cli.call("approve", approval["approval_id"]), 1804, 7, "expired")
        ended = self.state_of(run)["approvals"][0]
        self.assertEqual(ended["status"], "expired")
        self.assertEqual(outside.effects(), 0)

    def test_a_restart_with_another_clock_loses_nothing_and_time_does_not_go_back(self):
        server = self.clock_server()
        run = self.cli.must("start", "hello", "--input", '{"count":2,"pause_ms":2000}').value["run_id"]
        self.assertEqual(server.stop(), 0)
        self.faults.set_clock(-TWO_HOURS)
        self.start(server, self.faults.environment())
        detail = self.wait_for_end(run)
        self.assertEqual(detail["summary"]["status"], "completed")
        times = [frame["time_ms"] for frame in self.cli.must("debug", run, "--all").values]
        self.assertEqual(times, sorted(times))
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
