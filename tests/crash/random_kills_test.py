"""SIGKILL of engine, sandbox host, keeper and pairs of them at random, while nine runs are at work.

Each run has commands in a sandbox and effects of all three kinds (resend, probe, ask) at a service that misbehaves
(harness/counting_server.py). Each effect happens exactly once, no run is lost, and the history replays to the state that
the engine had. The seed is printed; SANDGLASS_SEED=N repeats its moments. SANDGLASS_LONG=1 kills 200 times.
"""

import collections
import concurrent.futures
import json
import os
import random
import signal
import threading
import time
import unittest

from harness import places, processes, remains
from harness.case import Case
from harness.counting_server import CountingServer
from harness.main_job import AWAY
from harness.waiting import wait_until

KILLS = 200 if places.LONG else 20
KILLS_A_ROUND = 10
RUNS_AT_ONCE = 9
VICTIMS = (("engine",), ("host",), ("keeper",), ("engine",), ("engine", "host"), ("engine", "keeper"), ("host", "keeper"))
PERSON_WAITS_SECONDS = 1.0  # longer than an answer of the service may still be under way
ENDED = ("completed", "failed")

EFFECTS = """
  - name: resend
    timeout: 5s
    http_request: {method: POST, url: "${param.receiver}/resend/${param.id}", json: {id: "${param.id}"}, recovery: resend}
  - name: probe
    timeout: 5s
    http_request:
      method: POST
      url: "${param.receiver}/probe/${param.id}"
      json: {id: "${param.id}"}
      probe: {url: "${param.receiver}/probe/by-key/{key}"}
      settle_ms: 3000
  - name: ask
    timeout: 5s
    http_request: {method: POST, url: "${param.receiver}/ask/${param.id}", json: {id: "${param.id}"}, recovery: ask}
"""
COMMANDS = """
  - name: first
    exec: {argv: [sh, -c, "sleep 0.4; echo one > made"]}
  - name: second
    exec: {argv: [sh, -c, "sleep 0.4; cat made"]}
"""
HEAD = places.task("""name: busy
goal: be at work
brain: plan
template: default
parameters: {receiver: "http://127.0.0.1:1", id: none}
targets: ["${param.receiver}"]
approvals: {level_2: allow}
timeouts: {task: 10m, step: 60s, queue: 5m}
plan:""")
END = """
  - name: end
    finish: {message: done}
"""
# A lost sandbox ends its run, so in every second task the effects come before it.
TASKS = {"commands-first": HEAD + COMMANDS + EFFECTS + END, "effects-first": HEAD + EFFECTS + COMMANDS + END}
# What a run that has lost its sandbox ends with.
LOST = (1500, 1502, 1503, 1507, 1508, 1509)
KINDS = ("resend", "probe", "ask")


class Person(threading.Thread):
    """Says what became of effects of unknown outcome as a person would: looks at the other side, when it has come to rest."""

    def __init__(self, cli, service):
        super().__init__(daemon=True)
        self._cli, self._service = cli, service
        self._asked_since = {}
        self._ended = threading.Event()
        self.decisions = collections.Counter()
        self.problem = None

    def run(self):
        try:
            while not self._ended.wait(0.3):
                listed = self._cli.call("approvals", as_name="approver")
                if listed.status == AWAY:
                    continue
                for question in listed.value["approvals"]:
                    if (question["kind"], question["status"]) == ("outcome", "waiting"):
                        request = question["request"]
                        request = request if isinstance(request, dict) else json.loads(request)
                        self._answer(question["approval_id"], request["arguments"]["url"])
        except Exception as problem:  # pylint: disable=broad-except
            self.problem = problem

    def _answer(self, question, url):
        kind, name = url.split("/")[-2:]
        since = self._asked_since.setdefault(question, time.monotonic())
        if time.monotonic() - since < PERSON_WAITS_SECONDS or not self._service.is_quiet(kind, name):
            return
        done = self._service.count(kind, name) > 0
        said = self._cli.call("settle", question, "done" if done else "again", "--request-id", question,
                              *(["--result", "{}"] if done else []), as_name="approver")
        if said.status == 0:
            self.decisions["done" if done else "again"] += 1

    def close(self):
        self._ended.set()
        self.join()
        if self.problem:
            raise self.problem


class RandomKills(Case):
    wanted = KILLS
    victims = VICTIMS
    runs_at_once = RUNS_AT_ONCE

    def configuration(self):
        return self.service.configuration()

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("SANDGLASS_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"SANDGLASS_SEED={self.seed}", flush=True)
        self.draw = random.Random(self.seed)
        self.service = CountingServer(self.seed)
        self.addCleanup(self.service.stop)
        for name, text in TASKS.items():
            (self.folder / f"{name}.yaml").write_text(text)
        self.runs = {}   # run → name of its effects
        self.kills = []  # (wall ms, victims)
        self.known = {}  # run → status
        self.ends = None

    def start_server(self, *settings):
        return self.server(config=self.configuration(),
                           settings=["limits.sandboxes=20", "limits.sandboxes_per_user=20", *settings])

    def start_run(self, task=None):
        name = f"r{len(self.runs)}"
        task = task or list(TASKS)[len(self.runs) % len(TASKS)]

        def ask():
            ended = self.cli.call("run", self.folder / f"{task}.yaml", "--detach", "--param", f"id={name}", "--param",
                                  f"receiver={self.service.url}", "--request-id", name)
            self.assertIn(ended.status, (0, AWAY), str(ended))
            return ended.status == 0 and ended.value["run_id"]
        run = wait_until(ask, "the start of a run")
        self.runs[run] = name
        return run

    def statuses(self):
        """Run → status, as far as is known, or None while no engine answers."""
        listed = self.cli.call("list", "--limit", "100")
        if listed.status != 0:
            return None
        self.known.update({each["run_id"]: each["status"] for each in listed.value["runs"]})
        return self.known

    def wait_for_ends(self, runs, seconds=120):
        def all_ended():
            now = self.statuses()
            return now is not None and all(now.get(run) in ENDED for run in runs)
        wait_until(all_ended, lambda: f"the ends of {[(run, (self.statuses() or {}).get(run)) for run in runs]}", seconds,
                   poll=0.2)

    def keep_at_work(self, enough):
        """Starts `runs_at_once` runs, and another for each that has ended until `enough`; all that were started."""
        started, open_runs = [], 0
        while len(started) < self.runs_at_once or not enough():
            if open_runs < self.runs_at_once:
                started.append(self.start_run())
            now = self.statuses()
            if now is not None:
                open_runs = sum(now.get(run) not in ENDED for run in started)
        return started

    def kill_at(self, server, plan):
        """`plan`: (moment, victims), of one round."""
        for moment, victims in sorted(plan):
            time.sleep(max(0.0, moment - time.monotonic()))
            pids = [server.wait_for_child(name) for name in victims]
            self.kills.append((time.time() * 1000, victims))
            for pid in pids:
                processes.kill(pid)

    # ---- what must hold

    def events_of(self, run):
        """(time in ms, name, fields) of all events."""
        shown = self.cli.must("debug", run, "--all")
        return [(frame["time_ms"], event["name"], event["fields"]) for frame in shown.values for event in frame["events"]]

    def check_run(self, run, detail, events):
        name = self.runs[run]
        lost = detail["summary"]["status"] == "failed"
        if lost:
            self.assertIn(detail["error_code"], LOST, json.dumps(detail, indent=1))
        settled = collections.Counter()
        intended = collections.Counter()
        for _, event, fields in events:
            kind = fields.get("path", "").rsplit("#", 1)[0].rsplit("/", 1)[-1]
            settled[kind] += event == "OperationSettled"
            intended[kind] += event == "OperationIntended"
        for kind in KINDS:
            told = f"{kind} of {name}, run {run}: intended {intended[kind]}, settled {settled[kind]}"
            self.assertEqual(settled[kind], 0 if lost and intended[kind] == 0 else 1, told)
            self.assertEqual(self.service.count(kind, name), 1 if settled[kind] else 0, told)

    @staticmethod
    def times_in_flight(events):
        """(from, to) in ms of every effect, exec and create of a run."""
        opened, spans = {}, []
        for at, event, fields in events:
            path = fields.get("path", "")
            if event in ("StepScheduled", "OperationScheduled", "ExchangeOpened"):
                opened.setdefault(path, at)
            elif event in ("StepCompleted", "StepFailed", "OperationSettled", "ExchangeAnswered") and path in opened:
                spans.append((opened.pop(path), at))
        return spans

    def check_the_end(self, server):
        spans, ends = [], collections.Counter()
        for run in self.runs:
            detail = self.cli.must("show", run).value
            events = self.events_of(run)
            self.check_run(run, detail, events)
            spans += self.times_in_flight(events)
            ends[detail["summary"]["status"]] += 1
        self.assertEqual(self.service.conflicts, 0)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=45)
        self.assertEqual(server.stop(), 0)
        replayed = self.assert_history_replays()
        busy = [any(begin <= at <= end for begin, end in spans) for at, _ in self.kills]
        print(f"{len(self.kills)} kills {dict(collections.Counter('+'.join(names) for _, names in self.kills))}, "
              f"{sum(busy)} in flight; runs {dict(ends)}; answers {self.service.ways}; "
              f"{replayed}", flush=True)
        self.ends = ends
        return sum(busy)

    # ---- tests

    def test_processes_killed_at_random_moments(self):
        server = self.start_server()
        person = Person(self.cli, self.service)
        person.start()
        try:
            begin = time.monotonic()
            self.wait_for_ends(self.keep_at_work(lambda: True))
            usual = time.monotonic() - begin
            while len(self.kills) < self.wanted:
                first = self.start_run()
                begin = time.monotonic()
                plan = [(begin + self.draw.uniform(0, usual), self.draw.choice(self.victims))
                        for _ in range(min(KILLS_A_ROUND, self.wanted - len(self.kills)))]
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    killing = pool.submit(self.kill_at, server, plan)
                    runs = self.keep_at_work(killing.done)  # FR-19: some begin while an engine recovers
                    killing.result()
                self.wait_for_ends([first, *runs])
                print(f"{len(self.kills)} kills, {time.monotonic() - begin:.1f} s (without: {usual:.1f} s)", flush=True)
        finally:
            person.close()
        in_flight = self.check_the_end(server)
        print(f"a person decided {dict(person.decisions)}", flush=True)
        self.assertEqual(len(self.kills), self.wanted)
        self.assertGreaterEqual(in_flight, 0.8 * self.wanted)

    def test_an_executor_that_outlives_its_engine(self):
        """The supervisor is stopped, so nobody ends the executor; stopped itself, it does not see its engine's end."""
        server = self.start_server()
        person = Person(self.cli, self.service)
        person.start()
        try:
            runs = [self.start_run() for _ in range(RUNS_AT_ONCE - 1)]
            last = f"r{len(self.runs)}"
            gate = self.service.held["resend", last] = threading.Event()  # an effect stays under way until then
            self.addCleanup(gate.set)
            runs.append(self.start_run("effects-first"))
            wait_until(lambda: not self.service.is_quiet("resend", last), f"the effect of {last}")
            effect, engine = server.child("effect"), server.child("engine")
            processes.send(effect, signal.SIGSTOP)
            processes.send(server.pid, signal.SIGSTOP)
            self.kills.append((time.time() * 1000, ("engine",)))
            processes.kill(engine)
            wait_until(lambda: not processes.is_alive(engine), "the engine's end")
            self.assertTrue(processes.is_alive(effect), "the executor has ended with its engine")
            gate.set()
            processes.send(effect, signal.SIGCONT)  # sends what it has, if it still comes to that
            time.sleep(0.5)
            processes.send(server.pid, signal.SIGCONT)
            self.wait_for_ends(runs)
        finally:
            person.close()
        self.assertEqual(self.check_the_end(server), 1)
        self.assertEqual(list(self.ends), ["completed"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
