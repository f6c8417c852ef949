"""Sandboxes under limits, from outside: who is kept out and by which limit, what a caller that has gone leaves, and what
many starts at once leave (ADV-E)."""

import json
import os
import threading
import unittest

from harness import places, remains
from harness.case import Case
from harness.waiting import wait_until

BAD_FILE, REFUSED, RUN_LOST = 3, 7, 23

TASK = places.task("""name: hold
goal: hold a sandbox
brain: plan
template: default
timeouts: {{task: 10m, step: 5m, queue: {queue}}}
plan:
  - name: work
    exec: {{argv: [sleep, "{seconds}"]}}
  - name: end
    finish: {{message: slept}}
""")


FLOOD = places.task("""name: flood
goal: print too much
brain: plan
template: default
plan:
  - name: work
    exec: {argv: [sh, -c, "head -c 20M /dev/zero; echo went on; sleep 100"]}
    allow_failure: true
  - name: end
    finish: {message: "signal ${work.signal}"}
""")


def open_descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


class Limits(Case):

    def serve(self, *settings):
        return self.server(settings=settings)

    def hold(self, *, seconds=60, queue="60s", as_name=None):
        (self.folder / "hold.yaml").write_text(TASK.format(seconds=seconds, queue=queue))
        return self.cli.must("run", self.folder / "hold.yaml", "--detach", as_name=as_name).value["run_id"]

    def token(self, name):
        made = self.cli.must("token", "create", name, "--role", "user").value
        path = self.data / "tokens" / name
        if not path.exists():
            path.write_text(made["token"] + "\n")

    def show(self, run):
        return self.cli.must("show", run).value

    def held(self, run):
        return [lease for lease in self.show(run).get("leases", []) if lease["status"] == "held"]

    def queued(self, run):
        return [lease for lease in self.show(run).get("leases", []) if lease["status"] == "queued"]

    def end(self, run, seconds=60):
        wait_until(lambda: self.show(run)["summary"]["status"] != "running", lambda: json.dumps(self.show(run)), seconds)
        return self.show(run)

    def assert_no_sandbox(self):
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=20)

    def test_the_limits_of_the_configuration_are_those_of_the_sandbox(self):
        self.server(config=f"sandbox: {{templates: {{{places.TEMPLATE}: {{limits: "
                    "{command_ms: 1000, disk_mib: 64, files: 1000}}}}\n")
        (self.folder / "small.yaml").write_text(places.task("""name: small
template: default
plan:
  - name: disk
    exec: {argv: [sh, -c, "test $(df -Pk . | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2) -le 65536"]}
  - name: wait
    exec: {argv: [sleep, "100"]}
    allow_failure: true
  - name: end
    finish: {message: "exit code ${disk.exit_code}, ${wait.limits_hit.0.limit}"}
"""))
        ended = self.cli.must("run", self.folder / "small.yaml", json_output=False)
        self.assertIn(": exit code 0, exec_wall", ended.output)

    # V9
    def test_a_template_says_whether_a_command_that_prints_too_much_is_ended(self):
        self.serve(f"sandbox.templates.{places.TEMPLATE}.on_limit.output=kill")
        (self.folder / "flood.yaml").write_text(FLOOD)
        run = self.cli.must("run", self.folder / "flood.yaml", "--detach").value["run_id"]
        self.assertIn("signal 9", json.dumps(self.end(run)["result"]))

    # ADV-E17
    def test_a_refusal_names_the_limit_that_binds(self):
        self.serve("limits.sandboxes=2", "limits.sandboxes_per_user=1")
        self.token("ann")
        self.token("bob")
        self.token("carol")
        first = self.hold(as_name="ann")
        wait_until(lambda: self.held(first), "a sandbox")
        own = self.end(self.hold(queue="1s", as_name="ann"))
        self.assertEqual(own["error_code"], 1507, json.dumps(own))
        self.assertIn("1 sandboxes a user", own["error"])
        second = self.hold(as_name="bob")
        wait_until(lambda: self.held(second), "a second sandbox")
        everyones = self.end(self.hold(queue="1s", as_name="carol"))
        self.assertIn("2 sandboxes for everyone", everyones["error"])
        for run in (first, second):
            self.cli.must("terminate", run)
        self.assert_no_sandbox()

    # ADV-E21: a claim whose run is gone neither waits on nor counts.
    def test_a_claim_in_the_queue_ends_with_its_run_and_the_place_goes_to_the_next(self):
        self.serve("limits.sandboxes=1", "limits.sandboxes_per_user=1")
        first = self.hold()
        wait_until(lambda: self.held(first), "a sandbox")
        gone, following = self.hold(), self.hold(seconds=0)
        wait_until(lambda: self.queued(gone) and self.queued(following), "two in the queue")
        self.cli.must("cancel", gone)
        self.assertEqual(self.end(gone)["summary"]["status"], "cancelled")
        wait_until(lambda: [lease["queue_position"] for lease in self.queued(following)] == [1], "the next to move up")
        self.cli.must("terminate", first)
        self.assertEqual(self.end(following)["summary"]["status"], "completed")
        self.assert_no_sandbox()
        after = self.hold(seconds=0)
        self.assertEqual(self.end(after)["summary"]["status"], "completed", "the limit still counts somebody")

    # ADV-E27: whatever is at work in the sandbox ends with it, and ending twice is fine.
    def test_a_run_that_is_terminated_or_cancelled_twice_during_a_command_leaves_nothing(self):
        self.serve()
        for ending in (["terminate"], ["cancel"]):
            run = self.hold()
            wait_until(lambda: [step for step in self.show(run).get("steps", []) if step["name"] == "sandbox.exec"],
                       "a command at work")
            self.cli.must(*ending, run)
            again = self.cli.call(*ending, run)
            if again.status != 0:
                self.assert_error(again, 1200, REFUSED)
            self.end(run)
            self.assert_no_sandbox()

    # ADV-E18
    def test_numbers_that_cannot_be_are_refused_where_they_stand(self):
        faults = {"queue: 60s": ["queue: -1s", "queue: 1e400s", "queue: NaN", "queue: 99999999999999999999s", "queue: 1.5s"],
                  "step: 5m": ["step: -5m", "step: 0x10", "step: [1, 2]", "step: 5 parsecs"]}
        good = TASK.format(seconds=1, queue="60s")
        for right, wrongs in faults.items():
            for wrong in wrongs:
                with self.subTest(wrong):
                    (self.folder / "bad.yaml").write_text(good.replace(right, wrong))
                    self.assert_error(self.cli.call("run", self.folder / "bad.yaml", json_output=False), 1401, BAD_FILE,
                                      "bad.yaml:")
        self.assertFalse(self.data.exists(), "a server was started")
        for setting in ("limits.sandboxes=-1", "limits.sandboxes=1e9", "limits.sandboxes=9223372036854775808",
                        "limits.sandboxes=NaN", "limits.sandboxes=2.5"):
            with self.subTest(setting):
                server = self.server(settings=[setting], start=False)
                report = server.start()
                self.assertTrue(report.startswith("error 1400 "), report)
                self.assertEqual(server.wait(), BAD_FILE)

    # ADV-E23, FR-13, FR-14, FR-15, FR-16: in every state of the run, the mismatch is told first.
    def test_a_repeated_start_attaches_in_every_state_and_another_body_is_a_conflict(self):
        service = self.serve()

        def start(name="Ann", request="same"):
            return self.cli.call("start", "hello", "--request-id", request, "--input",
                                 json.dumps({"name": name, "count": 2, "pause_ms": 1500}))
        first = start().value["run_id"]
        for state in ("running", "completed", "restarted"):
            with self.subTest(state):
                self.assertEqual(start().value["run_id"], first)
                self.assert_error(start("Bob"), 1302, REFUSED, "same")
                if state == "running":
                    self.assertEqual(self.show(first)["summary"]["status"], "running")
                    self.end(first)
                elif state == "completed":
                    self.assertEqual(service.stop(), 0)
                    self.start(service)
        self.assertEqual([run["run_id"] for run in self.cli.must("list").value["runs"]], [first], "a ghost was started")
        # A run id that somebody else's request made: the same input attaches, another does not.
        given = ["start", "hello", "--run-id", first, "--request-id", "another", "--input"]
        attached = self.cli.call(*given, json.dumps({"name": "Ann", "count": 2, "pause_ms": 1500}))
        self.assertEqual((attached.status, attached.value["run_id"]), (0, first), str(attached))
        self.assert_error(self.cli.call(*given[:5], "third", "--input", '{"name":"Bob"}'), 1201, REFUSED)

    def test_a_request_id_used_by_many_at_once_is_one_run(self):
        self.serve()
        found = []

        def start():
            found.append(self.cli.call("start", "hello", "--request-id", "raced", "--input", '{"count":1}').value["run_id"])
        callers = [threading.Thread(target=start) for _ in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self.assertEqual(len(set(found)), 1, found)
        self.assertEqual(len(self.cli.must("list").value["runs"]), 1)

    # ADV-E29
    def test_a_storm_of_starts_leaves_no_descriptor_thread_or_sandbox_behind(self):
        service = self.serve("limits.sandboxes=4", "limits.sandboxes_per_user=4")
        self.end(self.hold(seconds=0))
        self.assert_no_sandbox()
        pids = {name: service.wait_for_child(name) for name in ("engine", "host", "egress", "effect")}
        before = {name: (open_descriptors(pid), threads(pid)) for name, pid in pids.items()}
        runs = []
        for _ in range(200 if places.LONG else 24):
            runs.append(self.hold(seconds=0, queue="5m"))
        for run in runs:
            self.assertEqual(self.end(run, seconds=300)["summary"]["status"], "completed")
        self.assert_no_sandbox()

        def settled():
            now = {name: (open_descriptors(pid), threads(pid)) for name, pid in pids.items()}
            return all(now[name][0] <= before[name][0] + 4 and now[name][1] <= before[name][1] + 4 for name in pids)
        wait_until(settled, lambda: f"{before} and no more; now "
                   f"{ {name: (open_descriptors(pid), threads(pid)) for name, pid in pids.items()} }", seconds=20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
