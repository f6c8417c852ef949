"""What goes wrong around a journal on Kafka: somebody else writes into the topic, it is changed, deleted or falls silent, its
disk is full, the clock is set. Each is a clear error or a wait that says what it waits for; what was acknowledged is there
afterwards, once. All but strangers' messages are in the long form (SANDGLASS_LONG=1).
"""

import json
import pathlib
import re
import shutil
import time
import unittest

from harness import mounts, places
from harness.faults import ONE_VIEW, Faults
from harness.kafka import Brokers, KafkaCase
from harness.main_job import AWAY, Job
from harness.waiting import wait_until

FOLDER = 8
TWO_HOURS = 7200
SILENT_SECONDS = 35
DISK_MIB = 64


class Faulty(KafkaCase):
    """Counts what was acknowledged."""

    def setUp(self):
        super().setUp()
        self.acknowledged = {}  # request id → run id

    def kafka_server(self, topic, start=True, settings=()):
        return self.server(config=self.outside.configuration() + self.brokers.configuration(topic), start=start,
                           settings=settings)

    def starting(self, name, more=""):
        """The words of the call that starts a run of this name."""
        text = self.folder / f"{name}.json"
        text.write_text(json.dumps({"name": name, "count": 2, "pause_ms": 10, "more": more}))
        return "start", "hello", "--request-id", name, "--input-file", text

    def ask(self, name, more="", seconds=120):
        """One call that starts a run; what it ended with."""
        ended = self.cli.call(*self.starting(name, more), seconds=seconds)
        if ended.status == 0:
            self.acknowledged[name] = ended.value["run_id"]
        return ended

    def hello(self, name):
        """A run that has ended."""
        wait_until(lambda: self.ask(name).status == 0, "the start of a run")
        self.wait_for_end(name)

    def wait_for_end(self, name):
        self.assertEqual(Job(self.cli, self.acknowledged[name]).wait_for_end()["summary"]["status"], "completed")

    def check_all(self, server, topic):
        """Everything acknowledged is there, once; asked again it is the same."""
        for name in list(self.acknowledged):
            self.wait_for_end(name)
            run = self.acknowledged[name]
            asked = ("start", "hello", "--request-id", name, "--input-file", self.folder / f"{name}.json")
            self.assertEqual(self.cli.must(*asked).value["run_id"], run)
        listed = [each["run_id"] for each in self.cli.must("list", "--limit", "500").value["runs"]]
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual(set(self.acknowledged.values()) - set(listed), set())
        self.assertEqual(server.stop(), 0)
        local = self.cli.must("audit", "verify").value
        report = self.cli.must("audit", "verify", "--kafka", self.brokers.bootstrap, "--topic", topic).value
        self.assertTrue(local["good"] and report["good"], (local, report))
        self.assertEqual(report["heads"], local["heads"])
        self.assert_history_replays()
        return report

    def journal_id(self):
        return re.search(r"^journal (.*)$", (self.data / "run" / "topic").read_text(), re.MULTILINE).group(1)


class KafkaFaults(Faulty):

    def test_what_somebody_else_writes_into_the_topic_is_passed_over_and_a_forged_record_is_named(self):
        server = self.kafka_server("foreign")
        self.hello("before")
        journal = self.journal_id()
        strangers = [{"partition": partition, "key": key, "value": value, "headers": headers}
                     for partition in range(8) for key, value, headers in (
                         ("", "not ours", {}),
                         ("run-0", "not ours", {"sg.format": "1", "sg.kind": "record", "sg.journal": "another", "sg.epoch": "9",
                                    "sg.sequence": "1", "sg.previous": "00" * 32, "sg.stream-seq": "1"}),
                         ("", "", {"sg.format": "1", "sg.kind": "fence", "sg.journal": journal, "sg.nonce": "forged"}),
                         ("", "cut short", {"sg.format": "1", "sg.kind": "record", "sg.journal": journal}))]
        self.brokers.produce("foreign", strangers)
        self.hello("between")
        killed = server.kill_child("engine")
        server.wait_for_child("engine", other_than=killed)
        self.hello("after")
        self.assertIn("kafka_message_ignored", server.log_text())
        report = self.check_all(server, "foreign")
        self.assertEqual((report["ignored"], len(report["ignored_examples"])), (24, 24))
        # In this journal's name, at a place that it has already: whoever wrote it, the history is not what it was.
        self.brokers.produce("foreign", [{
            "partition": 0, "key": "run-" + "0" * 32, "value": "forged",
            "headers": {"sg.format": "1", "sg.kind": "record", "sg.journal": journal, "sg.epoch": "99", "sg.sequence": "1",
                        "sg.previous": "00" * 32, "sg.stream-seq": "1"}}])
        said = server.start()
        self.assertTrue(said.startswith("error 1111 partition 0, offset "), said)
        self.assertIn("Look who may write to the topic", said)
        self.assertEqual(server.wait(), FOLDER)
        found = self.cli.call("audit", "verify", "--kafka", self.brokers.bootstrap, "--topic", "foreign")
        self.assertEqual(found.status, FOLDER, str(found))
        self.assertEqual(found.value["findings"][0]["sequence"], 1)
        # Nobody can take it out: it is passed over where the operator names it, and named in every report.
        skip = re.search(r"kafka\.skip=\[\"(0:\d+:[0-9a-f]{64})\"\]", said).group(1)
        server.settings = [f'kafka.skip=["{skip[:-1]}x"]']
        self.assertIn("error 1400 ", server.start())
        server.wait()
        server.settings = [f'kafka.skip=["{skip}"]']
        self.start(server)
        self.hello("behind it")
        report = self.check_all(server, "foreign")
        self.assertEqual(len(report["skipped"]), 1)
        self.assertIn("hash " + skip.split(":")[2], report["skipped"][0])


@unittest.skipUnless(places.LONG, "minutes: in the long form")
class KafkaLongFaults(Faulty):

    def test_a_topic_that_is_changed_while_it_is_served_is_not_opened_again_before_it_is_mended(self):
        server = self.kafka_server("changed")
        self.hello("before")
        wrong = {"retention.ms": ("86400000", "-1"), "cleanup.policy": ("compact", "delete"),
                 "flush.messages": ("1000", "1")}
        for name, (value, _) in wrong.items():
            self.brokers.set_topic("changed", name, value)
        self.hello("between")  # nobody has looked yet, and nothing is lost
        self.assertEqual(server.stop(), 0)
        said = server.start()
        self.assertTrue(said.startswith("error 1904 "), said)
        for name, (_, value) in wrong.items():
            self.assertIn(f"{name}={value}", said)
        server.wait()
        for name, (_, value) in wrong.items():
            self.brokers.set_topic("changed", name, value)
        self.start(server)
        self.hello("after")
        self.check_all(server, "changed")

    def test_a_topic_that_is_deleted_while_it_is_served_stays_closed_until_somebody_chooses(self):
        server = self.kafka_server("gone")
        self.hello("before")
        killed = server.child("engine")
        self.brokers.delete_topic("gone")
        refused = self.ask("lost", seconds=180)
        self.assertNotEqual(refused.status, 0, str(refused))
        wait_until(lambda: "1112" in server.log_text(), lambda: "the loss in " + server.log_text(), 120)
        self.assertNotEqual(server.child("engine"), killed)
        wait_until(lambda: server.process.poll() is not None, "the server's end")
        said = server.start()
        self.assertTrue(said.startswith("error 1112 "), said)
        self.assertIn("kafka.republish_from_view=true", said)
        server.wait()
        server.settings = ["kafka.republish_from_view=true"]
        self.start(server)
        self.hello("after")
        self.check_all(server, "gone")

    # FR-96
    def test_a_broker_that_is_silent_for_longer_than_anything_waits_is_waited_for(self):
        server = self.kafka_server("silent")
        self.hello("before")
        self.brokers.pause()
        try:
            call = self.cli.begin(*self.starting("meanwhile"))
            time.sleep(SILENT_SECONDS)  # longer than a produced record is waited for
        finally:
            self.brokers.resume()
        output, errors = call.communicate(timeout=180)
        if call.returncode == 0:
            self.acknowledged["meanwhile"] = json.loads(output.splitlines()[0])["run_id"]
        else:
            self.assertEqual(call.returncode, AWAY, output + errors)
        self.hello("meanwhile")
        self.hello("after")
        self.check_all(server, "silent")

    def test_a_clock_that_is_two_hours_off_changes_nothing(self):
        faults = Faults(self.folder)
        server = self.kafka_server("clock", start=False, settings=ONE_VIEW)
        for number, off in enumerate((0, TWO_HOURS, -TWO_HOURS, 0)):
            faults.set_clock(off)
            self.start(server, faults.environment())
            self.hello(f"begun at {number}")
            faults.set_clock(-off)  # underneath
            self.hello(f"set at {number}")
            killed = server.kill_child("engine")
            server.wait_for_child("engine", other_than=killed)
            self.hello(f"killed at {number}")
            self.assertEqual(server.stop(), 0)
        self.start(server, faults.environment())
        self.check_all(server, "clock")
        newest = {}
        for line in self.cli.must("audit", "log").values:
            self.assertGreaterEqual(line["time_ms"], newest.get(line["partition"], 0), line)
            newest[line["partition"]] = line["time_ms"]


@unittest.skipUnless(places.LONG, "minutes: in the long form")
class KafkaFullDisk(Faulty):

    @classmethod
    def setUpClass(cls):
        # Brokers of its own, on a disk that fills.
        super(KafkaCase, cls).setUpClass()

    @classmethod
    def tearDownClass(cls):
        super(KafkaCase, cls).tearDownClass()

    def setUp(self):
        super().setUp()
        self.disk = None
        self.brokers = Brokers(self.folder / "brokers", prepared=self.put_on_a_small_disk)
        self.addCleanup(self.brokers.stop)
        self.addCleanup(mounts.unmount, self.disk)

    def put_on_a_small_disk(self, brokers):
        self.disk = brokers / "1" / "data"
        formatted = brokers / "formatted"
        self.disk.rename(formatted)
        self.disk.mkdir()
        mounts.mount(self.disk, kind="tmpfs", options=f"size={DISK_MIB}m")
        shutil.copytree(formatted, self.disk, dirs_exist_ok=True)

    def fill(self):
        filler = pathlib.Path(self.disk) / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 65536):
                    pass
            except OSError:
                pass
        return filler

    def test_a_brokers_full_disk_loses_nothing_and_heals(self):
        server = self.kafka_server("full")
        self.hello("before")
        filler = self.fill()
        refused = None
        for number in range(200):  # what is open already may still grow by what a page has room for
            ended = self.ask(f"full-{number}", "x" * 100_000, seconds=180)
            if ended.status != 0:
                refused = ended
                break
        self.assertIsNotNone(refused, "the disk was never full")
        self.assertEqual(refused.status, AWAY, str(refused))
        wait_until(lambda: not self.brokers.runs(), "the broker's end: it ends itself with its disk")
        filler.unlink()
        self.brokers.start_again()
        self.hello("after")
        self.check_all(server, "full")


if __name__ == "__main__":
    mounts.run_apart()
    unittest.main(verbosity=2)
