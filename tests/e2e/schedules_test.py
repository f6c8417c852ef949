"""Schedules from outside: a run for each moment, once, while the engine is killed between and in the midst of fires; what
the commands say, and what they refuse (E9, K5)."""

import datetime
import unittest

from harness.case import Case
from harness.waiting import wait_until

DENIED_BY_ROLE, NOT_FOUND, REFUSED, USAGE = 5, 6, 7, 2
KILLS = 3
FIRES_BETWEEN_KILLS = 3

TASK = """name: tick
goal: be done at once
brain: plan
plan:
  - name: end
    finish: {message: done}
"""


def moment(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()


class Schedules(Case):

    def setUp(self):
        super().setUp()
        self.service = self.server()

    def show(self, name):
        return self.cli.must("schedule", "show", name).value

    def runs(self, user):
        """All runs of that user, by session."""
        found, page = {}, ""
        while True:
            reply = self.cli.must("list", "--user", user, "--limit", 500, *(["--page", page] if page else [])).value
            for run in reply["runs"]:
                self.assertNotIn(run["session"], found, "two runs of one fire")
                found[run["session"]] = run
            page = reply["next_page_token"]
            if not page:
                return found

    def skipped(self, name):
        return {each["reason"]: each["count"] for each in self.show(name)["skipped"]}

    def test_a_run_that_goes_on_as_another_is_open_until_the_last_of_them_has_ended(self):
        self.cli.must("schedule", "create", "chain", "--every", "1h", "--workflow", "hello", "--input",
                      '{"rounds": 3, "count": 2, "pause_ms": 200}')
        self.cli.must("schedule", "trigger", "chain")
        wait_until(lambda: self.show("chain")["started"] == 1, "the run")
        wait_until(lambda: not self.show("chain")["open"], "its end")
        runs = self.cli.must("list", "--user", "cron:chain").value["runs"]
        self.assertEqual(sorted(run["status"] for run in runs), ["completed", "continued", "continued"])

    def test_each_moment_has_one_run_while_the_engine_is_killed(self):
        (self.folder / "task.yaml").write_text(TASK)
        self.cli.must("schedule", "create", "tick", "--every", "1s", "--task", self.folder / "task.yaml", "--overlap",
                      "allow-all")
        for kill in range(1, KILLS + 1):
            wait_until(lambda: self.show("tick")["started"] >= kill * FIRES_BETWEEN_KILLS, "fires")
            self.service.kill_child("engine")
        wait_until(lambda: self.show("tick")["started"] >= (KILLS + 1) * FIRES_BETWEEN_KILLS, "fires after the last kill")
        self.cli.must("schedule", "pause", "tick")
        ended = wait_until(lambda: (lambda seen: seen if not seen["open"] and not seen["waiting"] else None)(
            self.show("tick")), "the end of the last run")
        runs = self.runs("cron:tick")
        self.assertEqual(len(runs), ended["started"])
        self.assertEqual(ended["completed"], ended["started"])
        self.assertEqual({run["status"] for run in runs.values()}, {"completed"})
        fired = sorted(moment(session.removeprefix("cron:tick:")) for session in runs)
        self.assertEqual(fired, [fired[0] + i for i in range(len(fired))], "a moment is missing")
        self.assertEqual({reason: count for reason, count in self.skipped("tick").items() if reason != "paused"}, {})
        shown = self.cli.must("debug", ended["summary"]["schedule_id"], "--all", json_output=False).output
        for name in ("ScheduleCreated", "Fired", "ScheduledRunStarted", "ScheduledRunEnded"):
            self.assertIn(name, shown)
        self.cli.must("audit", "verify")
        self.service.stop()
        self.assert_history_replays()

    def test_trigger_backfill_and_one_session(self):
        self.cli.must("schedule", "create", "yearly", "--cron", "0 3 1 1 *", "--zone", "Europe/Berlin", "--workflow", "hello",
                      "--input", '{"name": "Ann"}', "--one-session", "--overlap", "buffer-all")
        self.cli.must("schedule", "trigger", "yearly")
        wait_until(lambda: self.show("yearly")["completed"] == 1, "the run that was triggered")
        self.cli.must("schedule", "backfill", "yearly", "--from", "2020-01-01", "--to", "2023-06-01T00:00Z")
        seen = wait_until(lambda: (lambda found: found if found["completed"] == 5 else None)(self.show("yearly")),
                          "the runs of four years")
        fires = [news["fire"] for news in seen["news"] if news["what"] == "started"]
        self.assertEqual(fires[1:], [f"{year}-01-01T02:00:00Z/backfill-2" for year in (2020, 2021, 2022, 2023)])
        run = self.cli.must("show", seen["news"][0]["run_id"]).value
        self.assertEqual(run["summary"]["session"], "cron:yearly")
        self.assertEqual(run["summary"]["user"], "cron:yearly")
        self.assertIn("Ann", str(run["result"]))
        self.assertEqual(len(seen["upcoming_ms"]), 10)
        listed = self.cli.must("schedule", "list", json_output=False).output
        for word in ("yearly", "0 3 1 1 *", "Europe/Berlin", "buffer-all"):
            self.assertIn(word, listed)
        self.assertIn("next:", self.cli.must("schedule", "show", "yearly", json_output=False).output)
        self.cli.must("schedule", "delete", "yearly")
        self.assertEqual(self.cli.must("schedule", "list").value["schedules"], [])
        self.assert_error(self.cli.call("schedule", "show", "yearly"), 1002, NOT_FOUND)

    def test_what_is_refused(self):
        def create(*more, name="x", as_name=None):
            return self.cli.call("schedule", "create", name, "--workflow", "hello", *more, as_name=as_name)

        self.assert_error(create("--cron", "0 0 30 2 *"), 1001, REFUSED, "never fire")
        self.assert_error(create("--cron", "0 25 * * *"), 1001, REFUSED, "hour", "0 to 23")
        self.assert_error(create("--cron", "@daily", "--zone", "Europe/Nowhere"), 1001, REFUSED, "Europe/Nowhere")
        self.assert_error(create("--every", "10ms"), 1001, REFUSED, "one second")
        self.assert_error(create("--every", "soon"), 1405, USAGE, "soon")
        self.assert_error(create(), 1405, USAGE, "--cron")
        self.assert_error(create("--every", "1h", name="a/b"), 1001, REFUSED, "name")
        self.assert_error(create("--every", "1h", "--one-session", "--overlap", "allow-all"), 1001, REFUSED, "overlap")
        self.assert_error(self.cli.call("schedule", "pause", "nothing"), 1002, NOT_FOUND)
        made = self.cli.must("token", "create", "ann", "--role", "user").value
        (self.data / "tokens" / "ann").write_text(made["token"] + "\n")
        self.assert_error(create("--every", "1h", as_name="ann"), 1301, DENIED_BY_ROLE, "operator")
        self.assertEqual(create("--every", "1h", "--request-id", "one").status, 0)
        self.assertEqual(create("--every", "1h", "--request-id", "one").status, 0, "the same request again")
        self.assert_error(create("--every", "1h"), 1003, REFUSED, "update")
        self.assertEqual(self.cli.must("schedule", "list", as_name="ann").value["schedules"], [], "of another identity")


if __name__ == "__main__":
    unittest.main()
