"""`sandglass migrate` from a Kafka topic back to the folder: the same histories, whatever it is killed at, and a topic that
nobody serves any more."""

import concurrent.futures
import json
import shutil
import unittest

from harness import places, processes
from harness.case import Case
from harness.kafka import Brokers, KafkaCase
from harness.main_job import Job
from harness.migrating import FOLDER, KILLED, USAGE, Folder, copied_folder, listed_points, small_folder
from harness.waiting import wait_until

AT_ONCE = 3
SHARED = ("migrate.copied", "migrate.copy_whole", "migrate.compared", "migrate.before_exchange")
BEFORE_THE_END = ("migrate.topic_closing", "migrate.topic_closed", *SHARED)
OF_GIVING_UP = ("migrate.copies_removed", "migrate.reopened")
TO_TOPIC = {"migrate.before_close", "migrate.closed", "migrate.publishing", "migrate.published"}


class KafkaMigrateBack(KafkaCase):

    def test_a_job_goes_to_kafka_and_back_while_it_waits(self):
        outside = self.receiver("--reply-delay-ms", "1500", folder="slow")
        server = self.server(config=outside.configuration())
        job = Job.start(self.cli, outside)
        approval = job.wait_for_approval()
        server.stop()
        folder = Folder(self, self.data, "round", outside.configuration())
        began = self.cli.must("debug", job.run_id, "--all").output
        folder.moved()
        server.config = folder.config
        self.start(server)
        # Its effect has happened, and no record tells how it went.
        second = Job.start(self.cli, outside, "discount")
        second.approve(second.wait_for_approval())
        wait_until(lambda: outside.effects() == 1, "the second job's effect")
        engine = server.child("engine")
        server.kill()
        wait_until(lambda: not processes.is_alive(engine), "the engine's end")
        verdict = folder.moved_back()
        self.assertEqual(verdict["states_before"], verdict["states_after"])
        self.assertEqual(self.cli.must("debug", job.run_id, "--all").output, began)
        self.assertIs(self.cli.must("audit", "verify").value["good"], True)
        self.assert_history_replays()
        topic = self.cli.must("audit", "verify", "--kafka", self.brokers.bootstrap, "--topic", "round").value
        self.assertIs(topic["good"], True, topic)

        server.config = folder.embedded
        self.start(server)
        self.assertEqual(second.wait_for_end()["summary"]["status"], "completed", second.describe())
        self.assertEqual(outside.effects(), 1)
        job.approve(approval)
        self.assertEqual(job.wait_for_end()["summary"]["status"], "completed", job.describe())
        self.assertEqual(outside.effects(), 2)
        server.stop()
        self.assert_history_replays()
        # Whoever has the keys and comes to the topic with an empty view is told where its history went.
        late = self.folder / "late"
        shutil.copytree(self.data, late, symlinks=True, ignore=shutil.ignore_patterns("*.sock", "journal*"))
        server = self.server(late, config=folder.config.read_text(), start=False)
        refused = server.start()
        for word in ("error 1107", "embedded journal of data folder"):
            self.assertIn(word, refused)
        server.wait()

    def on_kafka(self, small, name):
        folder = copied_folder(self, small, name)
        folder.moved()
        return folder

    def go_on_after(self, small, point):
        folder = self.on_kafka(small, "on-" + point.replace(".", "-"))
        records = folder.records()
        self.assertEqual(folder.migrate_back(crash_at=point).status, KILLED, point)
        if point in BEFORE_THE_END:
            self.assert_error(folder.migrate_back(), 1405, USAGE, "--continue", "--back")
        folder.moved_back(*([] if point == "migrate.topic_owned" else ["--continue"]))
        folder.assert_whole(records)
        self.assertFalse((folder.data / "journal.moved").exists())

    def give_up_after(self, small, point):
        folder = self.on_kafka(small, "back-" + point.replace(".", "-"))
        records = folder.records()
        first = point if point in BEFORE_THE_END else "migrate.copy_whole"
        self.assertEqual(folder.migrate_back(crash_at=first).status, KILLED, point)
        if point in OF_GIVING_UP:
            self.assertEqual(folder.migrate_back("--back", crash_at=point).status, KILLED, point)
        if point != "migrate.reopened":
            self.assertEqual(folder.migrate_back("--back").values[-1]["verdict"], "given up")
        folder.assert_whole(records)
        self.assert_error(folder.migrate_back("--continue"), 1405, USAGE, "no move was begun")
        return folder

    def test_killed_at_each_stage_it_goes_on_or_back(self):
        self.assertEqual(listed_points(), {"migrate.topic_owned", *BEFORE_THE_END, "migrate.exchanged", *OF_GIVING_UP,
                                           *TO_TOPIC})
        small = small_folder(self)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            on = [pool.submit(self.go_on_after, small, point)
                  for point in ("migrate.topic_owned", *BEFORE_THE_END, "migrate.exchanged")]
            back = [pool.submit(self.give_up_after, small, point)
                    for point in ("migrate.topic_closed", "migrate.topic_closing", *OF_GIVING_UP)]
            for each in on:
                each.result()
            returned = [each.result() for each in back][-1]
        server = self.server(returned.data, config=returned.config.read_text())
        returned.cli.must("start", "hello", "--input", json.dumps({"count": 1}), "--wait")
        self.assert_error(returned.migrate_back(), 1106, FOLDER)
        server.stop()
        self.assert_history_replays(returned.data)


@unittest.skipUnless(places.LONG, "minutes: in the long form")
class KafkaMigrateOfThreeBrokers(Case):

    def setUp(self):
        super().setUp()
        self.brokers = Brokers(self.folder / "brokers", 3)
        self.addCleanup(self.brokers.stop)

    def kill_at(self, folder, config, stage, broker):
        """The move, with one of the brokers killed when it has begun this stage."""
        call = folder.cli.begin("migrate", "--config", config)
        for line in call.stdout:
            if json.loads(line).get("stage") == stage:
                break
        processes.kill(broker)
        output, errors = call.communicate(timeout=180)
        return call.returncode, output + errors

    def test_a_broker_that_dies_meanwhile_ends_no_move_for_good(self):
        small = small_folder(self)
        folders = [copied_folder(self, small, f"dying-{number}") for number in range(3)]
        for number, folder in enumerate(folders):
            records = folder.records()
            for config, stage, gone_on in ((folder.config, "publishing", folder.migrate),
                                           (folder.embedded, "taking over the topic", folder.migrate_back)):
                status, said = self.kill_at(folder, config, stage, self.brokers.pids()[number])
                self.brokers.start_again()
                self.assertGreaterEqual(status, 0, said)
                if status != 0:
                    ended = gone_on("--continue")
                    if "no move was begun" in str(ended):
                        ended = gone_on()
                    self.assertEqual(ended.status, 0, said + str(ended))
                folder.assert_whole(records)


if __name__ == "__main__":
    unittest.main(verbosity=2)
