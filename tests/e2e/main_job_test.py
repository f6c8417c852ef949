"""The main job, judged from outside: by git, by the project's own tests, and by the receiver's count."""

import json
import unittest

from harness import main_job, remains
from harness.case import Case
from harness.main_job import Job
from harness.waiting import wait_until

RUN_FAILED, RUN_DENIED, REFUSED = 20, 24, 7


class MainJob(Case):

    def setUp(self):
        super().setUp()
        self.outside = self.receiver()

    def tearDown(self):
        self.assert_no_error_was_logged()
        super().tearDown()

    def allowed_server(self):
        return self.server(config=self.outside.configuration())

    def assert_no_sandbox(self):
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=10)

    def assert_audit_is_good(self):
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)

    def test_each_variant_ends_in_one_pull_request_whose_diff_repairs_a_fresh_copy(self):
        self.allowed_server()
        for number, variant in enumerate(main_job.VARIANTS, 1):
            with self.subTest(variant):
                job = Job.start(self.cli, self.outside, variant)
                approval = job.wait_for_approval()
                self.assert_no_sandbox()
                self.assertEqual(self.outside.effects(), number - 1, "an effect before it was approved")
                job.approve(approval)
                detail = job.wait_for_end()
                self.assertEqual(detail["summary"]["status"], "completed", job.describe())
                self.assertEqual(self.outside.effects(), number)

                diff = job.artifact("fix.diff", self.folder)
                sent = json.loads(self.outside.pulls()[-1]["body"])
                self.assertEqual(sent["diff_sha256"], main_job.sha256(diff))
                self.assertEqual(sent["diff"].encode(), diff)
                self.assertIn(main_job.sha256(diff), json.dumps(approval["request"]), "not shown to the approver")
                artifacts = job.artifacts()
                self.assertLessEqual(main_job.ARTIFACTS, set(artifacts))
                self.assertEqual(artifacts["fix.diff"]["public_digest"], main_job.sha256(diff))
                self.assertIn(f"# {variant}", job.artifact("explanation.md", self.folder).decode())
                self.assertIn(f"{variant}: ok", job.artifact("test-result.txt", self.folder).decode())

                copy = main_job.fresh_copy(variant, self.folder)
                self.assertNotEqual(main_job.run_project_tests(copy).returncode, 0, "the bug is not there")
                applied = main_job.git_apply(copy, diff)
                self.assertEqual(applied.returncode, 0, applied.stderr.decode() + diff.decode())
                tested = main_job.run_project_tests(copy)
                self.assertEqual(tested.returncode, 0, tested.stdout)
        self.assertEqual(self.outside.counts()["requests"]["POST"], len(main_job.VARIANTS))
        self.assert_audit_is_good()

    def test_on_a_green_tree_it_ends_with_nothing_to_do(self):
        self.allowed_server()
        job = Job.start(self.cli, self.outside, "green")
        detail = job.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())
        self.assertIn("nothing to do", json.dumps(detail["result"]))
        self.assertEqual(self.outside.counts()["requests"], {"POST": 0, "GET": 0})
        self.assertEqual(self.cli.must("approvals", job.run_id, as_name="approver").value["approvals"], [])
        self.assert_no_sandbox()

    def test_a_denied_request_is_never_sent(self):
        self.allowed_server()
        job, following = Job.follow(self.cli, self.outside)
        approval = job.wait_for_approval()
        self.cli.must("deny", approval["approval_id"], "--reason", "not today", as_name="approver")
        following.communicate(timeout=60)
        self.assertEqual(following.returncode, RUN_DENIED)
        self.assertEqual(self.outside.counts()["requests"]["POST"], 0)
        self.assertEqual(job.show()["error_code"], 1803, job.describe())

    def test_without_the_operators_permission_the_target_is_refused(self):
        self.server(config="limits:\n  sandboxes: 4\n")
        job, following = Job.follow(self.cli, self.outside)
        wait_until(lambda: job.waiting_approval() or not job.is_open(), "the refusal or an approval")
        if job.is_open():
            job.approve(job.waiting_approval())
        output = following.communicate(timeout=60)[0]
        self.assertEqual(following.returncode, RUN_FAILED, output)
        self.assertIn("network.internal", job.show()["error"])
        self.assertEqual(job.show()["error_code"], 1802, job.describe())
        self.assertEqual(self.outside.counts()["requests"], {"POST": 0, "GET": 0})

    def test_a_decision_on_something_else_is_refused_and_a_repeated_one_changes_nothing(self):
        self.allowed_server()
        job = Job.start(self.cli, self.outside)
        approval = job.wait_for_approval()
        wrong = self.cli.call("approve", approval["approval_id"], "--digest", "0" * 64, as_name="approver")
        self.assert_error(wrong, 1806, REFUSED)
        self.assertTrue(job.is_open())
        self.assert_error(self.cli.call("approve", approval["approval_id"], as_name="auditor"), 1301, 5)
        first = self.cli.must("approve", approval["approval_id"], "--request-id", "same", as_name="approver")
        again = self.cli.must("approve", approval["approval_id"], "--request-id", "same", as_name="approver")
        self.assertEqual(first.value, again.value)
        self.assertEqual(job.wait_for_end()["summary"]["status"], "completed")
        later = self.cli.must("approve", approval["approval_id"], "--request-id", "same", as_name="approver")
        self.assertEqual(first.value, later.value)
        self.assertEqual(self.outside.counts()["requests"]["POST"], 1)

    def test_an_engine_killed_while_an_approval_waits_goes_on_when_it_is_given(self):
        server = self.allowed_server()
        job = Job.start(self.cli, self.outside)
        approval = job.wait_for_approval()
        killed = server.kill_child("engine")
        server.wait_for_child("engine", other_than=killed)
        self.assertEqual(job.wait_for_approval(), approval)
        self.assertEqual(job.approve_and_wait()["summary"]["status"], "completed")
        self.assertEqual(self.outside.effects(), 1)
        self.assert_audit_is_good()

    def test_the_history_of_a_finished_run_is_stepped_through_with_and_without_an_engine(self):
        server = self.allowed_server()
        job = Job.start(self.cli, self.outside)
        detail = job.approve_and_wait()
        frames = self.cli.must("debug", job.run_id, "--all").values
        self.assertEqual(len(frames), detail["summary"]["head"])
        self.assertEqual(frames[-1]["state"]["status"], "completed")
        names = [event["name"] for frame in frames for event in frame["events"]]
        for name in ("RunStarted", "OperationIntended", "OperationSettled", "RunCompleted"):
            self.assertIn(name, names)
        self.assertLess(names.index("OperationIntended"), names.index("OperationSettled"))
        self.assertEqual(server.stop(), 0)
        self.assertEqual(self.cli.must("debug", job.run_id, "--all").values, frames)
        self.assert_audit_is_good()

    def test_a_data_folder_may_lie_deeper_than_a_socket_address_is_long(self):
        self.data = self.folder / ("deep-" * 20) / ("er-" * 20)
        self.cli.data = str(self.data)
        self.data.parent.mkdir(parents=True)
        self.server(self.data, config=self.outside.configuration())
        job = Job.start(self.cli, self.outside)
        self.assertEqual(job.approve_and_wait()["summary"]["status"], "completed", job.describe())

    def test_two_jobs_at_once_do_not_meet(self):
        self.allowed_server()
        jobs = [Job.start(self.cli, self.outside, variant) for variant in ("discount", "slug")]
        for job in jobs:
            self.assertEqual(job.approve_and_wait()["summary"]["status"], "completed", job.describe())
        titles = sorted(json.loads(pull["body"])["title"] for pull in self.outside.pulls())
        self.assertEqual(titles, ["Fix discount", "Fix slug"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
