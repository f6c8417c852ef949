"""Child runs and runs that go on as new ones, from outside: what show says of them, over deaths of the engine, and how
cancel, terminate and signals find their way."""

import json
import unittest

from harness.case import Case
from harness.waiting import wait_until

REFUSED = 7
LONG = 3_600_000


class Children(Case):

    def setUp(self):
        super().setUp()
        self.service = self.server()

    def hello(self, wish, *options):
        return self.cli.must("start", "hello", "--input", json.dumps(wish), *options).value["run_id"]

    def show(self, run):
        return self.cli.must("show", run).value

    def status(self, run):
        return self.show(run)["summary"]["status"]

    def end(self, run):
        wait_until(lambda: self.show(run)["summary"].get("closed_ms"), lambda: json.dumps(self.show(run)))
        return self.show(run)

    def children(self, run, count):
        wait_until(lambda: len(self.show(run).get("children", [])) == count, lambda: json.dumps(self.show(run)))
        return self.show(run)["children"]

    def chain(self, run):
        """The run and those that it went on as, to the last."""
        runs = [run]
        while self.end(runs[-1]).get("continued_as"):
            runs.append(self.show(runs[-1])["continued_as"])
        return runs

    def test_children_are_runs_that_survive_the_engine(self):
        run = self.hello({"each": ["Ann", "Bob"], "count": 4, "pause_ms": 100, "rounds": 2})
        children = self.children(run, 2)
        self.assertEqual(self.show(children[0]["run_id"])["parent"], run)
        self.service.kill_child("engine")
        ended = self.end(run)
        self.assertEqual(ended["summary"]["status"], "completed", ended)
        greetings = ended["result"]["greetings"]
        self.assertEqual(greetings, [f"Hello, {name}! ({number})" for name in ("Ann", "Bob") for number in (1, 2, 3, 4) * 2])
        for child, began in zip(ended["children"], children):
            self.assertEqual(child["status"], "completed")
            self.assertEqual(self.chain(began["run_id"])[-1], child["run_id"])  # the last one of its chain
            self.assertEqual(self.show(child["run_id"])["parent"], run)
        shown = self.cli.must("show", run, json_output=False).output
        for part in ("Child runs", children[0]["path"], ended["children"][0]["run_id"]):
            self.assertIn(part, shown)
        self.assertEqual(self.service.stop(), 0)
        self.assert_history_replays()

    def test_a_chain_is_followed_to_its_end(self):
        followed = self.cli.must("start", "hello", "--input", json.dumps({"rounds": 4}), "--wait", json_output=False).output
        self.assertIn("it goes on as", followed)
        self.assertIn("completed", followed)
        runs = self.cli.must("list", "--status", "continued").value["runs"]
        self.assertEqual(len(runs), 3)
        first = [run["run_id"] for run in runs if not self.show(run["run_id"]).get("continues")]
        chain = self.chain(first[0])
        self.assertEqual(len(chain), 4)
        for before, after in zip(chain, chain[1:]):
            self.assertEqual(self.show(after)["continues"], before)
        self.assertEqual(len(self.show(chain[-1])["result"]["greetings"]), 4)
        # A continued run passes on what comes for it; at the end of the chain it is refused as for any ended run.
        self.assertEqual(self.cli.call("signal", chain[-1], "late").status, REFUSED)
        self.cli.must("signal", chain[0], "late")

    # FR-69
    def test_whoever_watches_from_behind_the_end_is_told_of_it(self):
        for rounds in (1, 3):
            run = self.hello({"rounds": rounds})
            self.cli.must("watch", run)
            told = self.cli.must("watch", run, "--from", 100, json_output=False)
            self.assertIn("completed", told.output)

    def test_cancelling_a_run_cancels_its_children_and_terminating_reaches_them_too(self):
        run = self.hello({"each": ["Ann", "Bob"], "count": 2, "pause_ms": LONG})
        children = self.children(run, 2)
        self.cli.must("cancel", run)
        self.assertEqual(self.end(run)["summary"]["status"], "cancelled")
        for child in children:
            self.assertEqual(self.end(child["run_id"])["summary"]["status"], "cancelled")
        run = self.hello({"each": ["Cleo"], "count": 2, "pause_ms": LONG})
        child = self.children(run, 1)[0]
        self.cli.must("terminate", run)
        self.assertEqual(self.end(run)["summary"]["status"], "terminated")
        self.assertEqual(self.end(child["run_id"])["summary"]["status"], "cancelled")

    def test_a_cancel_finds_the_run_that_it_went_on_as(self):
        run = self.hello({"rounds": 2, "count": 1, "pause_ms": 0})
        chain = self.chain(run)
        self.assertEqual(len(chain), 2)
        long = self.hello({"rounds": 1000, "count": 2, "pause_ms": 250})
        wait_until(lambda: self.show(long).get("continued_as"), lambda: json.dumps(self.show(long)))
        self.cli.must("cancel", long)
        ends = self.chain(long)
        self.assertEqual(self.status(ends[-1]), "cancelled")
        self.assertLess(len(ends), 1000)


if __name__ == "__main__":
    unittest.main()
