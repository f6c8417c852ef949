"""Effects at chosen moments of a death: what has happened is not done again, what was cancelled is not begun."""

import signal
import threading
import time
import unittest

from harness import places, processes, remains
from harness.case import Case
from harness.counting_server import CountingServer
from harness.main_job import Job
from harness.waiting import wait_until

HEAD = places.task("""name: effects
goal: have effects
brain: plan
template: default
parameters: {receiver: "http://127.0.0.1:1"}
targets: ["${param.receiver}"]
approvals: {level_2: allow}
plan:
""")
EFFECT = """  - name: %(name)s
    timeout: 20s
    http_request:
      method: POST
      url: "${param.receiver}/probe/%(name)s"
      json: {id: %(name)s}
      probe: {url: "${param.receiver}/probe/by-key/{key}"}
      settle_ms: 3000
"""
COMMAND = """  - name: command
    exec: {argv: [sleep, "4"]}
"""
END = """  - name: end
    finish: {message: done}
"""
LEASE_SECONDS = 2


class InterruptedEffects(Case):

    def setUp(self):
        super().setUp()
        self.service = CountingServer()
        self.addCleanup(self.service.stop)

    def begin(self, *parts, settings=()):
        """(server, job)"""
        server = self.server(config=self.service.configuration(), settings=settings)
        task = self.folder / "task.yaml"
        task.write_text(HEAD + "".join(EFFECT % {"name": part} if part != COMMAND else part for part in parts) + END)
        run = self.cli.must("run", task, "--detach", "--param", f"receiver={self.service.url}").value["run_id"]
        return server, Job(self.cli, run)

    def hold(self, name):
        """Requests of this effect wait until the event is set."""
        event = self.service.held["probe", name] = threading.Event()
        self.addCleanup(event.set)
        return event

    def requests(self, *names):
        return [self.service.requests.get(("probe", name), 0) for name in names]

    def test_only_the_call_that_was_in_flight_is_reconciled(self):
        """FR-1: of three calls the third was under way; the other two have their outcomes."""
        held = self.hold("third")
        server, job = self.begin("first", "second", "third")
        wait_until(lambda: self.requests("third") == [1], job.describe, poll=0.002)
        server.kill_child("engine")
        held.set()
        self.assertEqual(job.wait_for_end()["summary"]["status"], "completed", job.describe())
        self.assertEqual(self.requests("first", "second", "third"), [1, 1, 1])
        self.assertEqual([self.service.count("probe", name) for name in ("first", "second", "third")], [1, 1, 1])

    def test_a_request_that_was_never_acted_on_is_sent_again_under_the_same_key(self):
        """FR-2, FR-4: the first one died with its executor before the service had it; a look-up, then one more request."""
        held = self.hold("only")
        server, job = self.begin("only")
        wait_until(lambda: self.requests("only") == [1], job.describe, poll=0.002)
        self.service.forget_held("probe", "only")
        server.kill_child("effect")
        held.set()
        self.assertEqual(job.wait_for_end()["summary"]["status"], "completed", job.describe())
        self.assertEqual(self.requests("only"), [2])
        self.assertEqual(self.service.count("probe", "only"), 1)
        self.assertEqual(len(self.service.seen_keys("probe", "only")), 1, "another key")

    def test_after_a_cancel_nothing_new_is_sent(self):
        """FR-7: cancelled while a call is in flight, then the engine is killed."""
        held = self.hold("first")
        server, job = self.begin("first", "next")
        wait_until(lambda: self.requests("first") == [1], job.describe, poll=0.002)
        self.cli.must("cancel", job.run_id)
        server.kill_child("engine")
        held.set()
        self.assertEqual(job.wait_for_end(20)["summary"]["status"], "cancelled", job.describe())
        self.assertEqual(self.requests("first", "next"), [1, 0])

    def test_an_engine_that_was_stopped_beyond_its_lease_goes_on_in_no_sandbox(self):
        """FR-24, ADV-E5: the host ends the lease meanwhile, and the run learns that it has lost its sandbox."""
        server, job = self.begin(COMMAND, "later", settings=[f"sandbox.lease_ms={LEASE_SECONDS * 1000}"])
        wait_until(lambda: any(line.endswith(" sleep") for line in remains.of_sandboxes(self.data)), job.describe)
        engine = server.child("engine")
        processes.send(engine, signal.SIGSTOP)
        try:
            wait_until(lambda: not remains.of_sandboxes(self.data),
                       lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), LEASE_SECONDS + 5)
            time.sleep(LEASE_SECONDS)
        finally:
            processes.send(engine, signal.SIGCONT)
        detail = job.wait_for_end()
        self.assertEqual((detail["summary"]["status"], detail["error_code"]), ("failed", 1500), job.describe())
        self.assertEqual(self.requests("later"), [0])
        self.assertEqual(server.child("engine"), engine, "it was not restarted")


if __name__ == "__main__":
    unittest.main(verbosity=2)
