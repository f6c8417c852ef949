"""Approvals that nobody gives in time: told apart from a denial, and never carried out afterwards."""

import time
import unittest

from harness.case import Case
from harness.waiting import wait_until

REFUSED, RUN_DENIED = 7, 24

TASK = """
name: late
targets: ["{url}"]
approvals: {{level_2: ask, expires: {expires}}}
plan:
  - name: open
    http_request: {{method: POST, url: "{url}/pulls", json: {{title: late}}}}
"""


class ApprovalsInTime(Case):

    def begin(self, expires):
        self.outside = self.receiver()
        self.server(config=self.outside.configuration())
        path = self.folder / "task.yaml"
        path.write_text(TASK.format(url=self.outside.url, expires=expires))
        run = self.cli.must("run", path, "--detach").value["run_id"]
        return run, wait_until(lambda: self.approvals(run), "the approval")[0]

    def approvals(self, run):
        return self.cli.must("approvals", run, as_name="approver").value["approvals"]

    def test_an_approval_after_its_time_is_refused_and_nothing_is_sent(self):  # ADV-G9
        run, asked = self.begin("1s")
        identity = asked["approval_id"]
        ended = wait_until(lambda: self.ended(run), "the end of the run", seconds=30)
        self.assertEqual(ended["error_code"], 1804, ended)
        late = self.cli.call("approve", identity, as_name="approver")
        self.assert_error(late, 1804, REFUSED)
        self.assert_error(self.cli.call("deny", identity, "--reason", "late", as_name="approver"), 1804, REFUSED)
        listed = [each for each in self.approvals(run) if each["approval_id"] == identity]
        self.assertEqual([each["status"] for each in listed], ["expired"] * len(listed))
        self.assertEqual(self.cli.call("watch", run).status, RUN_DENIED)
        time.sleep(0.3)
        self.assertEqual(self.outside.counts()["requests"]["POST"], 0)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        self.assert_no_error_was_logged()

    def test_the_time_also_runs_while_the_engine_is_away(self):
        run, asked = self.begin("2s")
        server = self._servers[0]
        server.stop()
        time.sleep(2.2)
        self.start(server)
        ended = wait_until(lambda: self.ended(run), "the end of the run", seconds=30)
        self.assertEqual(ended["error_code"], 1804, ended)
        self.assert_error(self.cli.call("approve", asked["approval_id"], as_name="approver"), 1804, REFUSED)
        self.assertEqual(self.outside.counts()["requests"]["POST"], 0)

    def ended(self, run):
        detail = self.cli.must("show", run).value
        return detail if detail["summary"]["status"] not in ("running", "unspecified") else None


if __name__ == "__main__":
    unittest.main(verbosity=2)
