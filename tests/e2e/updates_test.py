"""Queries and updates through the command line: answered by live, cold and ended runs, refused without a trace, and
the same answer for the same request id, also when the engine is killed in between."""

import json
import unittest

from harness.case import Case

USAGE, DENIED_BY_ROLE, NOT_FOUND, REFUSED = 2, 5, 6, 7


class Updates(Case):

    def setUp(self):
        super().setUp()
        self.service = self.server()

    def begin(self, **given):
        return self.cli.must("start", "hello", "--input", json.dumps(given)).value["run_id"]

    def answer(self, run, name, *options):
        return self.cli.must("query", run, name, *options).value["answer"]

    def events(self, run, kind):
        return json.dumps(self.cli.must("debug", run, "--all").values).count(kind)

    def test_a_run_answers_queries_and_takes_updates(self):
        run = self.begin(name="Ann", count=1000, pause_ms=600_000)
        self.assertEqual(self.answer(run, "progress")["count"], 1000)
        self.assertEqual(self.cli.must("update", run, "greet", "--input", '"Bob"').value["result"], "Hello, Bob! (1)")
        shown = self.cli.must("update", run, "greet", "--input", '"Eve"', json_output=False).output
        self.assertEqual(shown, '"Hello, Eve! (1)"\n')
        shown = self.cli.must("query", run, "progress", json_output=False).output
        self.assertEqual(json.loads(shown), {"count": 1000, "greeted": 1})

        # Refused, and unknown: no trace in the run's history, and the message says what there is.
        before = self.cli.must("show", run).value["summary"]["head"]
        self.assert_error(self.cli.call("update", run, "greet", "--input", "7"), 1243, REFUSED, "a name")
        self.assert_error(self.cli.call("update", run, "bow", "--input", "7"), 1242, NOT_FOUND, "greet")
        self.assert_error(self.cli.call("query", run, "weather"), 1240, NOT_FOUND, "progress")
        self.assert_error(self.cli.call("query", run, "progress", "--input", "{"), 1215, REFUSED)
        self.assert_error(self.cli.call("update", run, "greet", "--input", "{"), 1215, REFUSED)
        self.assertEqual(self.cli.must("show", run).value["summary"]["head"], before)
        noted = [each for each in self.cli.must("audit", "refusals").values if each["target"] == run]
        self.assertIn(("update a run", 1243), [(each["call"], each["code"]) for each in noted])

        # Who may decide may not change, and who looks on may not either.
        self.assert_error(self.cli.call("update", run, "greet", "--input", '"X"', as_name="approver"), 1301,
                          DENIED_BY_ROLE)

        self.cli.must("terminate", run)
        self.assertEqual(self.answer(run, "progress"), {"count": 1000, "greeted": 1})
        self.assert_error(self.cli.call("update", run, "greet", "--input", '"X"'), 1200, REFUSED)

    def test_a_completed_run_answers_with_its_last_state(self):
        run = self.begin(name="Ann", count=3)
        self.cli.must("watch", run)
        self.assertEqual(self.answer(run, "progress"), {"count": 3, "greeted": 3})
        self.assert_error(self.cli.call("query", run, "weather"), 1240, NOT_FOUND)

    # E10
    def test_runs_are_found_by_what_they_say_of_themselves(self):
        def found(text):
            runs = self.cli.must("list", "--filter", text).value.get("runs", [])
            self.assertEqual(self.cli.must("list", "--count", "--filter", text).value["runs"], len(runs), text)
            return [each["run_id"] for each in runs]

        first = self.begin(name="Ann", count=1, attributes={"order": "A-17", "amount": 12, "paid": True})
        second = self.begin(name="Bob", count=1000, pause_ms=600_000, attributes={"order": "A-18", "amount": 7.5})
        plain = self.begin(name="Eve", count=1)
        for run in (first, plain):
            self.cli.must("watch", run)
        self.assertEqual(self.answer(second, "progress")["count"], 1000)  # it has begun
        self.assertEqual(found('attributes.order = "A-17"'), [first])
        self.assertEqual(found('attributes.order starts_with "A-"'), [second, first])
        self.assertEqual(found('attributes.amount < 10 and status = "running"'), [second])
        self.assertEqual(found('attributes.order = "A-17" and status = "running"'), [])
        self.assertEqual(found('workflow = "hello" and not attributes.paid = true'), [plain, second])
        self.assertEqual(found('started > "2100-01-01"'), [])
        listed = self.cli.must("list", "--filter", "attributes.paid = true").value["runs"][0]
        self.assertEqual(listed["attributes"]["order"], {"keyword": "A-17"})
        self.assert_error(self.cli.call("list", "--filter", 'status = "faild"'), 1001, REFUSED, "column 10", "failed")
        self.assert_error(self.cli.call("list", "--count", "--user", "ann"), 1405, USAGE, "--filter")
        self.cli.must("terminate", second)
        self.assertEqual(found('status = "terminated"'), [second])

        # What is derived is made anew from records, and finds the same.
        self.service.stop()
        self.assert_history_replays()
        self.cli.must("rebuild")
        self.start(self.service)
        self.assertEqual(found('attributes.order = "A-17"'), [first])
        self.assertEqual(found('attributes.order starts_with "A-"'), [second, first])

    # E7, J19: the engine may die whenever it likes.
    def test_an_update_is_carried_out_once_over_restarts(self):
        run = self.begin(name="Ann", count=1000, pause_ms=600_000)
        ask = ["update", run, "greet", "--input", '"Bob"', "--request-id", "bob"]
        first = self.cli.must(*ask, "--accepted").value
        self.service.kill_child("engine")
        again = self.cli.must(*ask).value
        self.assertEqual(again["number"], first["number"])
        self.assertEqual(again["result"], "Hello, Bob! (1)")
        self.service.kill_child("engine")
        self.assertEqual(self.cli.must(*ask).value, again)
        self.assertEqual(self.answer(run, "progress"), {"count": 1000, "greeted": 1})
        self.assertEqual(self.events(run, "UpdateAccepted"), self.events(run, "UpdateCompleted"))
        self.assert_error(self.cli.call("update", run, "greet", "--input", '"Eve"', "--request-id", "bob"), 1302, REFUSED)
        self.cli.must("terminate", run)
        self.assertEqual(self.cli.must(*ask).value, again, "also of a run that has ended")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)


if __name__ == "__main__":
    unittest.main()
