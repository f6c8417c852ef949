"""`sandglass migrate`: a journal goes from its folder to a Kafka topic: the same runs, histories, timers and hashes, whatever
the move is killed at; what stands in the way is named, and loses nothing."""

import concurrent.futures
import shutil
import unittest

from harness import places
from harness.faults import Faults
from harness.kafka import KafkaCase
from harness.main_job import Job
from harness.migrating import FOLDER, KILLED, PARTITIONS, USAGE, Folder, copied_folder, small_folder

AT_ONCE = 3
MACHINE = 10
# Writes into the copy that find the disk full: to its records, to its files of names, at its end.
FULL_MOVING = range(1, 40) if places.LONG else (1, 12, 14)
FULL_MOVED = range(1, 40) if places.LONG else (1, 12)
BEFORE_THE_END = ("migrate.closed", "migrate.copied", "migrate.copy_whole", "migrate.publishing", "migrate.published",
                  "migrate.compared", "migrate.before_exchange")
OF_GIVING_UP = ("migrate.copies_removed", "migrate.reopened")


class KafkaMigrate(KafkaCase):

    def history(self, run_id):
        return self.cli.must("debug", run_id, "--all").output

    def test_a_job_that_waits_for_an_approval_goes_on_after_the_move(self):
        server = self.server(config=self.outside.configuration())
        job = Job.start(self.cli, self.outside)
        approval = job.wait_for_approval()
        self.cli.must("start", "hello", "--input", '{"count":3}', "--wait")
        server.stop()
        folder = Folder(self, self.data, "half-way", self.outside.configuration())
        before, records = self.history(job.run_id), folder.records()

        self.start(server)
        self.assert_error(folder.migrate(), 1106, FOLDER)
        server.stop()
        verdict = folder.moved()
        self.assertEqual(verdict["states_before"], verdict["states_after"])
        self.assertEqual(self.history(job.run_id), before)
        folder.assert_whole(records)

        server.config = folder.config
        self.start(server)
        job.approve(approval)
        detail = job.wait_for_end()
        self.assertEqual(detail["summary"]["status"], "completed", job.describe())
        self.assertEqual(self.outside.effects(), 1)
        self.assertEqual(self.cli.must("audit", "verify").value["good"], True)
        server.stop()
        self.assert_history_replays()
        topic = self.cli.must("audit", "verify", "--kafka", self.brokers.bootstrap, "--topic", "half-way").value
        self.assertTrue(topic["good"] and topic["journal"] == verdict["to"], topic)
        self.assertEqual((topic["formers"], topic["unchecked"]), ([verdict["from"]], []))
        self.assertEqual(topic["heads"], self.cli.must("audit", "verify").value["heads"])

        # A view made anew, as on another machine with this folder's keys and blobs, has the same.
        shutil.rmtree(self.data / "journal")
        (self.data / "journal").mkdir(mode=0o700)
        self.start(server)
        self.assertEqual(job.status(), "completed")
        server.stop()
        self.assert_history_replays()
        self.assert_error(folder.migrate(), 1405, USAGE, "nothing to move")

    def embedded(self, folder):
        return self.server(folder.data, config=PARTITIONS, start=False)

    def assert_killed(self, folder, point, *options):
        self.assertEqual(folder.migrate(*options, crash_at=point).status, KILLED, point)

    def go_on_after(self, small, point):
        folder = copied_folder(self, small, "on-" + point.replace(".", "-"))
        records = folder.records()
        self.assert_killed(folder, point)
        if point in BEFORE_THE_END:
            self.assert_error(folder.migrate(), 1405, USAGE, "--continue", "--back")
        folder.moved(*([] if point == "migrate.before_close" else ["--continue"]))
        folder.assert_whole(records)
        self.assertFalse((folder.data / "journal.moved").exists())

    def give_up_after(self, small, point):
        folder = copied_folder(self, small, "back-" + point.replace(".", "-"))
        records = folder.records()
        self.assert_killed(folder, point if point in BEFORE_THE_END else "migrate.published")
        if point in OF_GIVING_UP:
            self.assert_killed(folder, point, "--back")
        if point != "migrate.reopened":
            self.assertEqual(folder.migrate("--back").values[-1]["verdict"], "given up")
        folder.assert_whole(records)
        self.assert_error(folder.migrate("--continue"), 1405, USAGE, "no move was begun")
        self.assertFalse((folder.data / "journal.moved").exists())
        return folder

    def test_killed_at_each_stage_it_goes_on_or_back(self):
        small = small_folder(self)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            on = [pool.submit(self.go_on_after, small, point)
                  for point in ("migrate.before_close", *BEFORE_THE_END, "migrate.exchanged")]
            back = [pool.submit(self.give_up_after, small, point) for point in (*BEFORE_THE_END, *OF_GIVING_UP)]
            for each in on:
                each.result()
            folders = [each.result() for each in back]
        # The journal works again, and what the topic has of it nobody serves.
        returned = folders[-1]
        server = self.embedded(returned)
        self.start(server)
        returned.cli.must("start", "hello", "--input", '{"count":1}', "--wait")
        server.stop()
        self.assert_history_replays(returned.data)
        self.assert_error(returned.migrate(), 1905, FOLDER, "empty topic")
        stranger = self.server(self.folder / "stranger", config=returned.config.read_text(), start=False)
        self.assertIn("error 1905", stranger.start())
        stranger.wait()

    def full_disk_at(self, small, place, write):
        """The disk is full from this write on into one of the copy's places; with room again the move goes on."""
        folder = copied_folder(self, small, f"full-{place.replace('.', '-')}-{write}")
        faults = Faults(folder.data / "run")
        faults.watch_writes(folder.data / place)
        faults.full_from(write)
        records = folder.records()
        ended = folder.migrate(environment=faults.environment())
        if ended.status == 0:
            self.assertEqual(faults.refused, 0)
            return False
        self.assert_error(ended, 1008, MACHINE, "free")
        folder.moved("--continue")
        folder.assert_whole(records)
        return True

    def test_with_a_full_disk_it_goes_on_when_there_is_room(self):
        small = small_folder(self)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for place, writes in (("journal.moving", FULL_MOVING), ("journal.moved", FULL_MOVED)):
                failed = list(pool.map(lambda write, place=place: self.full_disk_at(small, place, write), writes))
                self.assertTrue(failed[0], place)

    def test_a_half_moved_folder_is_not_served(self):
        folder = copied_folder(self, small_folder(self), "half")
        self.assert_killed(folder, "migrate.copy_whole")
        for config in (PARTITIONS, folder.config.read_text()):
            server = self.server(folder.data, config=config, start=False)
            refused = server.start()
            for word in ("error 1107", "topic half", "sandglass migrate --continue", "--back"):
                self.assertIn(word, refused)
            server.wait()
        wrong = folder.migrate("--continue", "--set", "kafka.topic=other")
        self.assert_error(wrong, 1905, FOLDER, "topic half")
        folder.moved("--continue")

    def test_what_stands_in_the_way_changes_nothing(self):
        small = small_folder(self)
        folder = copied_folder(self, small, "stays")
        lonely = copied_folder(self, small, "lonely")
        away = lonely.cli.begin("migrate", "--config", lonely.config, "--set", "kafka.bootstrap=127.0.0.1:1")
        taken = copied_folder(self, small, "taken")
        taken.moved()
        foreign = folder.migrate("--set", "kafka.topic=taken")
        self.assert_error(foreign, 1905, FOLDER, "has a history", "kafka.topic")
        self.assert_error(folder.migrate("--set", "engine.partitions=4"), 1400, 3, "engine.partitions: 2")
        self.assert_error(folder.migrate("--set", "journal=embedded"), 1405, USAGE, "nothing to move")
        # As it was: its server starts, and it moves.
        server = self.embedded(folder)
        self.start(server)
        server.stop()
        folder.moved()
        output, errors = away.communicate(timeout=90)
        self.assertIn("1900", output + errors)
        lonely.moved()


if __name__ == "__main__":
    unittest.main(verbosity=2)
