"""`sandglass migrate` from a Kafka topic back to the folder: the same histories, whatever it is killed at, and a topic that
nobody serves any more."""

import concurrent.futures
import json
import shutil
import unittest

from harness.kafka import KafkaCase
from harness.main_job import Job
from harness.migrating import FOLDER, KILLED, USAGE, Folder, copied_folder, listed_points, small_folder

AT_ONCE = 3
SHARED = ("migrate.copied", "migrate.copy_whole", "migrate.compared", "migrate.before_exchange")
BEFORE_THE_END = ("migrate.topic_closing", "migrate.topic_closed", *SHARED)
OF_GIVING_UP = ("migrate.copies_removed", "migrate.reopened")
TO_TOPIC = {"migrate.before_close", "migrate.closed", "migrate.publishing", "migrate.published"}


class KafkaMigrateBack(KafkaCase):

    def test_a_job_goes_to_kafka_and_back_while_it_waits(self):
        server = self.server(config=self.outside.configuration())
        job = Job.start(self.cli, self.outside)
        approval = job.wait_for_approval()
        server.stop()
        folder = Folder(self, self.data, "round", self.outside.configuration())
        began = self.cli.must("debug", job.run_id, "--all").output
        folder.moved()
        server.config = folder.config
        self.start(server)
        second = Job.start(self.cli, self.outside, "discount")
        second.approve_and_wait()
        server.stop()
        records = folder.records()
        verdict = folder.moved_back()
        self.assertEqual(verdict["states_before"], verdict["states_after"])
        self.assertEqual(self.cli.must("debug", job.run_id, "--all").output, began)
        folder.assert_whole(records)
        topic = self.cli.must("audit", "verify", "--kafka", self.brokers.bootstrap, "--topic", "round").value
        self.assertIs(topic["good"], True, topic)

        server.config = folder.embedded
        self.start(server)
        job.approve(approval)
        self.assertEqual(job.wait_for_end()["summary"]["status"], "completed", job.describe())
        self.assertEqual(self.outside.effects(), 2)
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
