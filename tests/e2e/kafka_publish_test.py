"""M6: with `publish: kafka` the records of an embedded journal reach a topic, and no run waits for the brokers: they are
stopped, killed and started again, the engine is killed, and in the end the topic alone proves the same history."""

import os
import shutil
import subprocess
import unittest

from harness import places
from harness.case import needs_root
from harness.kafka import KafkaCase
from harness.main_job import Job
from harness.waiting import wait_until

UNREACHABLE = "1900"


class KafkaPublish(KafkaCase):

    def publishing(self):
        """Doctor's line: (verdict, detail)."""
        for check in self.cli.must("doctor").value["checks"]:
            if check["name"] == "publish":
                return check["verdict"], check["detail"]
        raise AssertionError("doctor does not know of it")

    def wait_until_published(self):
        def all_of_them():
            verdict, detail = self.publishing()
            words = detail.split()
            return verdict == "works" and words[0] == words[2]
        wait_until(all_of_them, lambda: f"all records on the topic: {self.publishing()}", seconds=90)

    def topic(self, name):
        return self.cli.must("audit", "verify", "--kafka", self.brokers.bootstrap, "--topic", name).value

    def lines(self, server, event):
        return [line for line in server.log_text().splitlines() if f" {event} " in line]

    def test_brokers_stop_and_die_the_engine_dies_and_every_record_arrives(self):
        server = self.server(config=self.outside.configuration() + self.brokers.configuration("published", "publish"))
        first = Job.start(self.cli, self.outside)
        approval = first.wait_for_approval()
        self.wait_until_published()

        self.brokers.pause()
        first.approve(approval)
        self.assertEqual(first.wait_for_end()["summary"]["status"], "completed", first.describe())

        self.brokers.kill()
        second = Job.start(self.cli, self.outside, "discount")
        approval = second.wait_for_approval()
        killed = server.kill_child("engine")
        server.wait_for_child("engine", other_than=killed)
        second.approve(approval)
        self.assertEqual(second.wait_for_end()["summary"]["status"], "completed", second.describe())
        verdict, detail = wait_until(lambda: (said := self.publishing())[0] == "weaker" and said,
                                     "doctor to say that nothing is published")
        self.assertIn(UNREACHABLE, detail, verdict)

        self.brokers.start_again()
        self.wait_until_published()
        self.assertEqual(self.outside.effects(), 2)
        server.stop()

        local = self.cli.must("audit", "verify").value
        topic = self.topic("published")
        self.assertTrue(local["good"] and topic["good"], (local, topic))
        self.assertEqual(topic["heads"], local["heads"])
        self.assertEqual(topic["ignored"], 0, topic)
        # The Kafka client of Debian's own Python.
        read = subprocess.run(["/usr/bin/python3", places.SOURCE / "examples/read-history/read_history.py",
                               "--brokers", self.brokers.bootstrap, "--topic", "published"], capture_output=True, text=True,
                              check=False, timeout=60)
        self.assertEqual(read.returncode, 0, read.stdout + read.stderr)
        # However often it was tried: a line an engine that met the trouble, not one a try.
        self.assertLessEqual(len(self.lines(server, "publish_stopped")), 2, server.log_text())
        self.assertGreaterEqual(len(self.lines(server, "publish_stopped")), 1, server.log_text())
        self.assertEqual(self.lines(server, "kafka_client"), [])
        self.assert_history_replays()

    def test_without_any_broker_the_server_begins_and_works(self):
        server = self.server(config="publish: kafka\nkafka: {bootstrap: '127.0.0.1:1'}\n")
        self.cli.must("start", "hello", "--input", '{"count":3}', "--wait")
        detail = wait_until(lambda: (said := self.publishing())[0] == "weaker" and said[1],
                            "doctor to say that nothing is published")
        self.assertTrue(detail.startswith("0 of "), detail)
        self.assertIn(UNREACHABLE, detail)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(self.lines(server, "publish_stopped")), 1, server.log_text())

    @needs_root("a plain user's engine reads what the user reads")
    def test_files_of_the_client_are_read_with_the_right_rights(self):
        """V2, J29: the key may be root's alone; a certificate that the engine's uid cannot read is named at the start."""
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=engine", "-days", "30",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        key.chmod(0o600)
        certificate.chmod(0o600)
        config = ("publish: kafka\nkafka:\n  bootstrap: 127.0.0.1:1\n  client:\n    - security.protocol=ssl\n"
                  f"    - ssl.key.location={key}\n    - ssl.certificate.location={certificate}\n")
        server = self.server(config=config, start=False)
        refused = server.start()
        for word in ("error 1402", "ssl.certificate.location", str(certificate), "chmod o+r"):
            self.assertIn(word, refused)
        server.wait()
        certificate.chmod(0o644)
        self.start(server)
        detail = wait_until(lambda: (said := self.publishing())[0] == "weaker" and said[1], "doctor to say why")
        self.assertIn(UNREACHABLE, detail)  # and nothing about the key

    def test_the_second_journal_on_a_topic_publishes_nothing(self):
        first = self.server(config=self.brokers.configuration("shared", "publish"))
        self.cli.must("start", "hello", "--input", '{"count":1}', "--wait")
        self.wait_until_published()
        first.stop()
        before = self.topic("shared")
        shutil.rmtree(self.data)
        os.unlink(first.config)
        self.server(config=self.brokers.configuration("shared", "publish"))
        self.cli.must("start", "hello", "--input", '{"count":1}', "--wait")
        detail = wait_until(lambda: (said := self.publishing())[0] == "weaker" and said[1],
                            "doctor to say that the topic is another's")
        self.assertIn("1905", detail)
        self.assertEqual(self.topic("shared"), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
