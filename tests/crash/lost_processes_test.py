"""SIGKILL of one process at a chosen moment of the main job, and what must follow (V1, V2, J16)."""

import unittest

from harness import main_job, places, processes, remains
from harness.case import Case
from harness.main_job import Approver, Job
from harness.waiting import wait_until

SLOW_TASK = places.task("""name: slow
goal: be at work in the sandbox for a while
brain: plan
template: default
plan:
  - name: begin
    exec: {argv: [sh, -c, "echo begun; sleep 3; echo ended"]}
  - name: end
    finish: {message: done}
""")


# Files go in and out before the command that is lost: init acts as the sandbox's user for them.
SLOW_TASK_WITH_FILES = SLOW_TASK.replace("plan:\n", """plan:
  - name: put
    put_file: {path: note, content: hello}
  - name: get
    get_file: {path: note}
""")


class LostProcesses(Case):

    def job_at_the_receiver(self, **options):
        """A server, and a job whose request the receiver has acted on and not answered yet."""
        outside = self.receiver("--reply-delay-ms", 2000)
        server = self.server(config=outside.configuration(), **options)
        job = Job.start(self.cli, outside)
        job.approve(job.wait_for_approval())
        wait_until(outside.effects, "the effect", poll=0.002)
        return server, outside, job

    def assert_done_once_and_not_sent_again(self, job, outside):
        detail = job.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())
        counts = outside.counts()
        self.assertEqual(counts["effects"], 1)
        self.assertEqual(counts["requests"]["POST"], 1, "it was sent again")
        self.assertGreaterEqual(counts["requests"]["GET"], 1, "it was not looked up")
        self.assertEqual(detail["operations"][0]["status"], "done")
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)

    def slow_job_in_its_sandbox(self, task=SLOW_TASK):
        """A server, and a job whose command runs in the sandbox."""
        server = self.server()
        (self.folder / "task.yaml").write_text(task)
        run = self.cli.must("run", self.folder / "task.yaml", "--detach").value["run_id"]
        job = Job(self.cli, run)
        prefix = "process "
        wait_until(lambda: any(line.startswith(prefix) and line.endswith(" sleep")
                               for line in remains.of_sandboxes(self.data)), job.describe)
        return server, job

    def test_an_engine_lost_between_effect_and_outcome_probes_and_does_not_send_again(self):
        server, outside, job = self.job_at_the_receiver()
        server.kill_child("engine")
        self.assert_done_once_and_not_sent_again(job, outside)

    def test_an_executor_lost_between_effect_and_outcome_is_replaced_and_its_effect_probed(self):
        server, outside, job = self.job_at_the_receiver()
        engine = server.child("engine")
        killed = server.kill_child("effect")
        server.wait_for_child("effect", other_than=killed)
        self.assert_done_once_and_not_sent_again(job, outside)
        self.assertEqual(server.child("engine"), engine, "the engine was taken along")

    def test_a_lost_supervisor_takes_everything_along_and_the_next_start_goes_on(self):
        server, outside, job = self.job_at_the_receiver()
        children = processes.descendants_of(server.pid)
        self.assertGreaterEqual(len(children), 5, "engine, effect, egress, host, keeper")
        keeper = server.child("keeper")
        server.kill()
        wait_until(lambda: not any(processes.is_alive(pid) for pid in children if pid != keeper),
                   lambda: f"the end of {[processes.program_of(pid) for pid in children]}", seconds=5)
        self.start(server)
        self.assert_done_once_and_not_sent_again(job, outside)

    def test_a_sandbox_that_has_taken_and_given_files_still_ends_with_its_keeper(self):
        # V1, FR-147: changing the file system's user, even back, takes a process' death signal away.
        server, job = self.slow_job_in_its_sandbox(SLOW_TASK_WITH_FILES)
        server.kill_child("keeper")
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=2)
        detail = job.wait_for_end()
        self.assertEqual((detail["summary"]["status"], detail["error_code"]), ("failed", 1500), job.describe())

    def test_nothing_is_left_five_seconds_after_the_keeper_was_lost(self):
        server, job = self.slow_job_in_its_sandbox()
        before = remains.of_sandboxes(self.data)
        for kind in remains.KINDS:
            self.assertTrue(any(line.startswith(kind) for line in before), f"no {kind} before: {before}")
        server.kill_child("keeper")
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=5)
        detail = job.wait_for_end()
        self.assertEqual((detail["summary"]["status"], detail["error_code"]), ("failed", 1500), job.describe())
        # The next job finds a working host.
        outside = self.receiver()
        green = Job.start(self.cli, outside, "green").wait_for_end()
        self.assertEqual(green["summary"]["status"], "completed", green)

    def test_a_lost_host_is_replaced_and_the_command_in_the_sandbox_goes_on(self):
        server, job = self.slow_job_in_its_sandbox()
        killed = server.kill_child("host")
        server.wait_for_child("host", other_than=killed)
        detail = job.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())
        wait_until(lambda: not remains.of_sandboxes(self.data),
                   lambda: "the end of " + "\n".join(remains.of_sandboxes(self.data)), seconds=10)

    def test_an_engine_lost_while_a_command_runs_attaches_to_it_again(self):
        server, job = self.slow_job_in_its_sandbox()
        server.kill_child("engine")
        detail = job.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())

    def test_a_lost_proxy_is_replaced(self):
        server = self.server()
        killed = server.kill_child("egress")
        server.wait_for_child("egress", other_than=killed)
        outside = self.receiver()
        job = Job.start(self.cli, outside, "green")
        self.assertEqual(job.wait_for_end()["summary"]["status"], "completed", job.describe())

    def test_all_children_lost_at_once_are_replaced(self):
        outside = self.receiver()
        server = self.server(config=outside.configuration())
        job = Job.start(self.cli, outside)
        approver = Approver(job)
        for pid in processes.children_of(server.pid):
            processes.kill(pid)
        try:
            detail = job.wait_for_end()
        finally:
            approver.close()
        # A job whose sandbox was lost with the rest may fail by the platform; it is never half done.
        self.assertIn(detail["summary"]["status"], ("completed", "failed"))
        self.assertEqual(outside.effects(), 1 if detail["summary"]["status"] == "completed" else 0)
        again = Job.start(self.cli, outside, main_job.VARIANTS[1])
        before = outside.effects()
        self.assertEqual(again.approve_and_wait()["summary"]["status"], "completed", again.describe())
        self.assertEqual(outside.effects(), before + 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
