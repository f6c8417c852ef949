"""The main job with its journal on a Kafka broker: the engine is killed in the middle, and its view deleted."""

import shutil
import subprocess
import unittest

from harness import places, processes
from harness.kafka import KafkaCase
from harness.main_job import Job
from harness.waiting import wait_until

USAGE = 2
NOT_THERE = 6
FOLDER = 8


class KafkaMainJob(KafkaCase):

    def kafka_server(self, topic):
        return self.server(config=self.outside.configuration() + self.brokers.configuration(topic))

    def assert_history_is_good(self):
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)

    def test_the_job_ends_in_one_pull_request(self):
        server = self.kafka_server("plain")
        job = Job.start(self.cli, self.outside)
        detail = job.approve_and_wait()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())
        self.assertEqual(self.outside.effects(), 1)
        self.assert_history_is_good()
        self.assertEqual(server.stop(), 0)
        self.assert_history_replays()

    def test_an_engine_killed_while_an_approval_waits_and_again_after_it_goes_on(self):
        server = self.kafka_server("killed")
        job = Job.start(self.cli, self.outside)
        approval = job.wait_for_approval()
        killed = server.kill_child("engine")
        server.wait_for_child("engine", other_than=killed)
        job.approve(approval)
        server.kill_child("engine")
        detail = job.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())
        self.assertEqual(self.outside.effects(), 1)
        self.assert_history_is_good()
        self.assertEqual(server.stop(), 0)
        self.assert_history_replays()

    def test_a_deleted_view_is_made_anew_from_the_topic_alone(self):
        server = self.kafka_server("deleted")
        first = Job.start(self.cli, self.outside)
        first.approve_and_wait()
        waiting = Job.start(self.cli, self.outside, "discount")
        approval = waiting.wait_for_approval()
        before = first.show()
        server.stop()
        self.assert_history_replays()
        for left in (self.data / "journal").iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        self.start(server)
        self.assertEqual(first.show(), before)
        waiting.approve(approval)
        self.assertEqual(waiting.wait_for_end()["summary"]["status"], "completed", waiting.describe())
        self.assertEqual(self.outside.effects(), 2)
        self.assert_history_is_good()
        server.stop()
        self.assert_history_replays()

    # FR-102
    def test_a_damaged_view_is_set_aside_and_made_anew_by_itself(self):
        server = self.kafka_server("damaged")
        runs = {self.hello()}
        for number, pattern in enumerate(("CURRENT", "MANIFEST-*", "*.sst"), 1):
            self.assertEqual(server.stop(), 0)
            damaged = sorted((self.data / "journal").glob(pattern))[0]
            whole = damaged.read_bytes()
            damaged.write_bytes(whole[:9] + bytes(byte ^ 0xFF for byte in whole[9:300]) + whole[300:])
            self.start(server)
            runs.add(self.hello())
            self.assertEqual({each["run_id"] for each in self.cli.must("list").value["runs"]}, runs)
            self.assertEqual(len(list((self.data / "journal").glob("set-aside-*"))), number)
        self.assert_history_is_good()
        self.assertEqual(server.stop(), 0)
        self.assert_history_replays()

    def hello(self):
        run = self.cli.must("start", "hello", "--input", '{"count":2,"pause_ms":10}').value["run_id"]
        self.assertEqual(Job(self.cli, run).wait_for_end()["summary"]["status"], "completed")
        return run

    def kill_all(self, server):
        engine = server.child("engine")
        server.kill()
        wait_until(lambda: not processes.is_alive(engine), "the engine's end")

    def verified_on_kafka(self, topic):
        report = self.cli.must("audit", "verify", "--kafka", self.brokers.bootstrap, "--topic", topic).value
        self.assertIs(report["good"], True)
        return report

    def state_hashes(self):
        return subprocess.run([places.program("state_hashes"), str(self.data)], capture_output=True, text=True, check=False,
                              timeout=60)

    def test_a_view_that_is_behind_its_topic_says_where_the_history_is(self):
        server = self.kafka_server("behind")
        first = self.hello()
        self.kill_all(server)  # a view has no log: nothing of it has reached the disk
        where = f"on topic behind at {self.brokers.bootstrap}"
        for asked in (("audit", "verify"), ("audit", "log"), ("audit", "refusals"), ("debug", first, "--all")):
            self.assert_error(self.cli.call(*asked), 1002, NOT_THERE, where, "has nothing of it", "Start the server once",
                              f"audit verify --kafka {self.brokers.bootstrap} --topic behind")
        replayed = self.state_hashes()
        self.assertNotEqual(replayed.returncode, 0)
        self.assertIn(where, replayed.stderr)
        self.assertGreater(self.verified_on_kafka("behind")["records"], 0)
        self.assert_error(self.cli.call("rebuild"), 1405, USAGE, "on topic behind")
        on_kafka = server.config.read_text()
        server.config.write_text(self.outside.configuration())
        self.assertIn("error 1107", server.start())
        server.wait()
        server.config.write_text(on_kafka)
        self.start(server)
        server.stop()
        seen = self.cli.must("audit", "verify").value
        heads = {head["partition"]: head["sequence"] for head in self.verified_on_kafka("behind")["heads"] if head["sequence"]}
        self.assertEqual({each["partition"]: each["sequence"] for each in seen["view_of"]["applied"]}, heads)
        self.start(server)
        second = self.hello()
        self.kill_all(server)
        seen = self.cli.must("audit", "verify").value
        self.assertIs(seen["good"], True)
        self.assertEqual((seen["view_of"]["topic"], seen["view_of"]["brokers"]), ("behind", self.brokers.bootstrap))
        self.assertLess(seen["records"], self.verified_on_kafka("behind")["records"])
        self.cli.must("debug", first, "--all")
        self.assert_error(self.cli.call("debug", second, "--all"), 1002, NOT_THERE, where, "partition 0 sequence")
        replayed = self.state_hashes()
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        self.assertIn(where, replayed.stdout)

    def test_a_topic_that_lost_its_records_stays_closed_until_an_operator_chooses(self):
        server = self.kafka_server("lost")
        job = Job.start(self.cli, self.outside)
        job.approve_and_wait()
        before = job.show()
        server.stop()
        self.brokers.delete_topic("lost")
        report = server.start()
        self.assertTrue(report.startswith("error 1112 "), report)
        for choice in ("kafka.republish_from_view=true", "kafka.accept_loss=true"):
            self.assertIn(choice, report)
        self.assertEqual(server.wait(), FOLDER)
        server.settings = ["kafka.republish_from_view=true"]
        self.start(server)
        self.assertEqual(job.show(), before)
        self.assert_history_is_good()
        server.stop()
        self.assert_history_replays()
        self.brokers.delete_topic("lost")
        server.settings = ["kafka.accept_loss=true"]
        self.start(server)
        self.assertEqual(self.cli.must("list").value.get("runs", []), [])
        self.assertEqual(len(list((self.data / "journal").glob("set-aside-*"))), 1)
        self.assert_history_is_good()
        server.stop()
        self.assert_history_replays()

    def test_a_folder_keeps_the_kind_of_its_journal(self):
        server = self.kafka_server("kind")
        server.stop()
        embedded = self.server(config=self.outside.configuration(), start=False)
        self.assertIn("error 1107", embedded.start())
        embedded.wait()
        elsewhere = self.server(config=self.brokers.configuration("elsewhere"), start=False)
        self.assertIn("error 1905", elsewhere.start())


if __name__ == "__main__":
    unittest.main(verbosity=2)
