"""Two servers on one Kafka topic: one serves, the other stands by and takes over. They share their blob store, by a mount
in a mount namespace of the test's own."""

import os
import shutil
import signal
import unittest

from harness import mounts, places
from harness.command_line import CommandLine
from harness.kafka import KafkaCase
from harness.main_job import Job
from harness.waiting import wait_until

AWAY = 4
FOLDER = 8
STANDS_BY = "this engine stands by"
LEASE_MS = 6000  # the least that brokers allow


class KafkaStandby(KafkaCase):

    def setUp(self):
        super().setUp()
        self.other_data = self.folder / "other"
        self.other_cli = CommandLine(self.other_data)

    def configuration(self, topic):
        return self.outside.configuration() + self.brokers.configuration(topic) + f"  lease_ms: {LEASE_MS}\n"

    def other(self, topic, *, key=True, blobs=True, data=None):
        """A server with a folder of its own, beside the first one's, not yet started."""
        data = data or self.other_data
        data.mkdir(mode=0o700)
        shutil.copy(self.data / "format", data)
        shutil.copytree(self.data / "tokens", data / "tokens")
        (data / "keys").mkdir(mode=0o700)
        if key:
            shutil.copy(self.data / "keys" / "tenant", data / "keys")
        (data / "blobs").mkdir(mode=0o700)
        if blobs:
            mounts.mount(data / "blobs", self.data / "blobs", flags=mounts.BIND)
            self.addCleanup(mounts.unmount, data / "blobs")
        return self.server(data, config=self.configuration(topic), start=False)

    def folder_id(self, data):
        return (data / "id").read_text()

    def assert_stands_by(self, cli, serving_data):
        """It answers, and says who serves."""
        answer = wait_until(lambda: (lambda ended: ended if STANDS_BY in ended.output + ended.errors else None)(cli.call("list")),
                            "an engine that says that it stands by")
        self.assert_error(answer, 1004, AWAY, f"data folder {self.folder_id(serving_data)}")

    def wait_until_serves(self, cli):
        wait_until(lambda: cli.call("list").status == 0, "an engine that serves")

    def ended_anywhere(self, run):
        """The run when it has ended, from whoever serves: on a busy machine the lease may go back and forth."""
        def look():
            for cli in (self.cli, self.other_cli):
                shown = cli.call("show", run)
                if shown.status == 0 and shown.value["summary"]["status"] != "running":
                    return shown.value
            return None
        return wait_until(look, f"the end of {run}")

    def finish(self, cli, server, data):
        self.assertIs(cli.must("audit", "verify").value["good"], True)
        self.assertEqual(server.stop(), 0)
        self.assert_history_replays(data)

    def test_when_the_one_that_serves_is_killed_the_other_goes_on_with_its_runs(self):
        first = self.server(config=self.configuration("killed"))
        second = self.other("killed")
        self.assertEqual(second.start(), "standby")
        self.assert_stands_by(self.other_cli, self.data)
        job = Job.start(self.cli, self.outside)
        approval = job.wait_for_approval()
        first.kill()
        moved = Job(self.other_cli, job.run_id)
        self.wait_until_serves(self.other_cli)
        moved.approve(approval)
        detail = moved.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", moved.describe())
        self.assertEqual(self.outside.effects(), 1)
        # The first one comes back, and finds that it is no longer the one that serves.
        self.assertEqual(first.start(), "standby")
        self.assert_stands_by(self.cli, self.other_data)
        self.assertEqual(first.stop(), 0)
        self.finish(self.other_cli, second, self.other_data)

    # FR-29, FR-104: cut off for longer than its session, it comes back to a lease that is another's.
    def test_one_that_is_stopped_in_the_midst_of_its_work_steps_down_when_it_goes_on(self):
        first = self.server(config=self.configuration("stopped"))
        second = self.other("stopped")
        self.assertEqual(second.start(), "standby")
        job = Job.start(self.cli, self.outside)
        approval = job.wait_for_approval()
        runs = [self.cli.must("start", "hello", "--input", '{"count":300,"pause_ms":50}').value["run_id"]
                for _ in range(8)]
        job.approve(approval)
        engine = first.child("engine")
        os.kill(engine, signal.SIGSTOP)
        try:
            self.wait_until_serves(self.other_cli)
        finally:
            os.kill(engine, signal.SIGCONT)
        first.wait_for_child("engine", other_than=engine)
        for run in (job.run_id, *runs):
            self.assertEqual(self.ended_anywhere(run)["summary"]["status"], "completed")
        self.assertEqual(self.outside.effects(), 1)
        self.assertEqual(first.stop(), 0)
        self.wait_until_serves(self.other_cli)
        self.finish(self.other_cli, second, self.other_data)

    def test_one_that_is_told_to_takes_over_from_another_that_serves(self):
        first = self.server(config=self.configuration("told"))
        second = self.other("told")
        second.settings = ["kafka.take_over=true"]
        run = self.cli.must("start", "hello", "--input", '{"count":100,"pause_ms":50}').value["run_id"]
        engine = first.child("engine")
        self.assertEqual(second.start(), "ready", second.log_text())
        first.wait_for_child("engine", other_than=engine)
        self.assert_stands_by(self.cli, self.other_data)
        shown = Job(self.other_cli, run).wait_for_end()
        self.assertEqual(shown["summary"]["status"], "completed")
        self.assertEqual(first.stop(), 0)
        self.finish(self.other_cli, second, self.other_data)

    # FR-28, FR-103: each that has stood by meanwhile has everything when its turn comes.
    def test_one_that_stands_by_takes_over_when_it_is_told_to(self):
        first = self.server(config=self.configuration("ordered"))
        second = self.other("ordered")
        self.assertEqual(second.start(), "standby")
        self.assert_error(self.other_cli.call("list"), 1004, AWAY, "`sandglass take-over`")
        run = self.cli.must("start", "hello", "--input", '{"count":100,"pause_ms":50}').value["run_id"]
        engine = first.child("engine")
        self.assertEqual(self.other_cli.must("take-over").value, {"serves": "now"})
        self.assertEqual(self.other_cli.must("take-over").value, {"serves": "already"})
        first.wait_for_child("engine", other_than=engine)
        self.assert_stands_by(self.cli, self.other_data)
        self.assertEqual(Job(self.other_cli, run).wait_for_end()["summary"]["status"], "completed")
        # Back and there again: an owner that has nothing to write must not go on answering, whatever its name.
        for taking, losing, data in ((self.cli, self.other_cli, self.data), (self.other_cli, self.cli, self.other_data),
                                     (self.cli, self.other_cli, self.data)):
            self.assertEqual(taking.must("take-over").value, {"serves": "now"})
            self.assert_stands_by(losing, data)
            self.assertEqual(Job(taking, run).status(), "completed")
        self.assertEqual(second.stop(), 0)
        self.assert_error(self.other_cli.call("take-over"), 1404, AWAY, "kafka.take_over=true")
        self.finish(self.cli, first, self.data)

    @unittest.skipUnless(places.LONG, "a minute and more: in the long form")
    def test_of_two_that_stand_by_one_takes_over_and_the_other_stands_by_for_it(self):
        first = self.server(config=self.configuration("both"))
        run = self.cli.must("start", "hello", "--input", '{"count":200,"pause_ms":50}').value["run_id"]
        data = {name: self.folder / name for name in ("left", "right")}
        servers = {name: self.other("both", data=folder) for name, folder in data.items()}
        clis = {name: CommandLine(folder) for name, folder in data.items()}
        for server in servers.values():
            self.assertEqual(server.start(), "standby")
        first.kill()  # both see it in the same half second, and join
        serving = wait_until(lambda: next((name for name in data if clis[name].call("list").status == 0), None),
                             "one that serves")
        standing = "left" if serving == "right" else "right"
        self.assert_stands_by(clis[standing], data[serving])
        self.assertEqual(Job(clis[serving], run).wait_for_end()["summary"]["status"], "completed")
        servers["first"], clis["first"], data["first"] = first, self.cli, self.data
        self.assertEqual(first.start(), "standby", first.log_text())
        serving = self.told_at_once(clis, serving)
        for name, server in servers.items():
            if name != serving:
                self.assertEqual(server.stop(), 0)
        self.assertEqual(Job(clis[serving], run).status(), "completed")
        self.finish(clis[serving], servers[serving], data[serving])

    def told_at_once(self, clis, serving):
        """All but the one that serves are told to take over; who serves in the end. Another may have done so for a moment."""
        orders = [cli.begin("take-over") for name, cli in clis.items() if name != serving]
        ended = []
        for order in orders:
            said, errors = order.communicate(timeout=180)
            ended.append(order.returncode)
            self.assertIn(order.returncode, (0, AWAY), said + errors)
            if order.returncode != 0:
                self.assertIn("another engine has taken over meanwhile", said + errors)
        self.assertIn(0, ended)

        def who_serves():
            served = [name for name, cli in clis.items() if cli.call("list").status == 0]
            return served[0] if len(served) == 1 else None
        served = wait_until(who_serves, "one that serves, alone")
        self.assertNotEqual(served, serving)
        return served

    def test_a_topic_that_has_become_unsafe_is_not_taken_over_before_it_is_mended(self):
        first = self.server(config=self.configuration("unsafe"))
        run = self.hello(self.cli)
        second = self.other("unsafe")
        self.assertEqual(second.start(), "standby")
        self.brokers.set_topic("unsafe", "retention.ms", "86400000")
        first.kill()
        wait_until(lambda: "retention.ms" in second.log_text(), "the refusal of the topic")
        self.brokers.set_topic("unsafe", "retention.ms", "-1")
        self.wait_until_serves(self.other_cli)
        self.assertEqual(Job(self.other_cli, run).status(), "completed")
        self.finish(self.other_cli, second, self.other_data)

    def hello(self, cli):
        """The id of a run that has ended."""
        run = cli.must("start", "hello", "--input", '{"count":3,"pause_ms":10}').value["run_id"]
        self.assertEqual(Job(cli, run).wait_for_end()["summary"]["status"], "completed")
        return run

    def test_a_view_of_another_history_than_the_topic_has_is_set_aside_when_the_operator_says_so(self):
        first = self.server(config=self.configuration("replaced"))
        self.hello(self.cli)
        first.stop()
        self.brokers.delete_topic("replaced")
        second = self.other("replaced")
        self.assertEqual(second.start(), "standby")  # the first one's session has not ended
        self.wait_until_serves(self.other_cli)
        run = self.hello(self.other_cli)
        second.stop()
        report = first.start()
        self.assertEqual(first.wait(), FOLDER)
        said = report + first.log_text()
        self.assertIn("1111", said)
        self.assertIn("kafka.accept_loss=true", said)
        first.settings = ["kafka.accept_loss=true"]
        first.start()
        self.wait_until_serves(self.cli)
        self.assertEqual([each["run_id"] for each in self.cli.must("list").value["runs"]], [run])
        self.assertEqual(len(list((self.data / "journal").glob("set-aside-*"))), 1)
        self.finish(self.cli, first, self.data)

    def test_one_that_could_not_go_on_with_the_work_neither_stands_by_nor_takes_over(self):
        first = self.server(config=self.configuration("apart"))
        run = self.hello(self.cli)
        copy = self.folder / "copy"
        shutil.copytree(self.data, copy, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        report = self.server(copy, config=self.configuration("apart"), start=False).start()
        self.assertTrue(report.startswith("error 1905 "), report)
        self.assertIn("a copy of the other", report)
        self.assertEqual(Job(self.cli, run).status(), "completed")
        report = self.other("apart", blobs=False).start()
        self.assertTrue(report.startswith("error 1905 "), report)
        self.assertIn("blobs", report)
        shutil.rmtree(self.other_data)
        stranger = self.other("apart", key=False)
        report = stranger.start()
        self.assertTrue(report.startswith("error 1905 "), report)
        self.assertIn("tenant key", report)
        # Nor when nobody serves and only the topic can tell: its lease ends some seconds after the server.
        self.assertEqual(first.stop(), 0)

        def refused_by_the_topic():
            stranger.wait()
            report = stranger.start()
            self.assertTrue(report.startswith("error 1905 "), report)
            return "whoever wrote the topic's history has another tenant key" in report
        wait_until(refused_by_the_topic, "the end of the first one's lease")
        stranger.wait()
        # What the message says helps.
        shutil.copy(self.data / "keys" / "tenant", self.other_data / "keys")
        self.start(stranger)
        self.assertEqual(Job(self.other_cli, run).status(), "completed")
        self.finish(self.other_cli, stranger, self.other_data)


if __name__ == "__main__":
    mounts.run_apart()
    unittest.main(verbosity=2)
