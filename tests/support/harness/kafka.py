"""Kafka brokers of a test's own, made by scripts/kafka."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from harness import places, processes
from harness.case import Case
from harness.waiting import wait_until


# With the Kafka client of Debian's own Python.
DEBIANS_PYTHON = "/usr/bin/python3"
PRODUCE = """
import json, sys
import confluent_kafka
bootstrap, topic = sys.argv[1:]
producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
failed = []
for message in json.load(sys.stdin):
    producer.produce(topic, partition=message["partition"], key=message["key"], value=message["value"],
                     headers=[(name, value) for name, value in message["headers"].items()],
                     on_delivery=lambda error, _: error and failed.append(str(error)))
if producer.flush(60) or failed:
    sys.exit(f"not delivered: {failed}")
"""


class Brokers:
    """One broker (or three), started and ready. `stop` ends them and deletes what they stored. `prepared` gets the folder
    before the first of them starts."""

    def __init__(self, folder, count=1, prepared=None):
        self.folder = folder
        self._count = count
        self._environment = {**os.environ, "SANDGLASS_KAFKA_FOLDER": str(folder)}
        if prepared:
            self._call("prepare", str(folder), str(count))
            prepared(pathlib.Path(folder))
        self.bootstrap = self._call("start", str(count)).strip().splitlines()[-1]

    def _call(self, *words):
        called = subprocess.run([places.SOURCE / "scripts" / "kafka", *words], env=self._environment, text=True,
                                capture_output=True, check=False, timeout=300)
        if called.returncode != 0:
            raise AssertionError(f"scripts/kafka {' '.join(words)}: {called.stdout}{called.stderr}")
        return called.stdout

    def stop(self):
        self._call("stop")

    def pids(self):
        """Of those that were started and not killed since."""
        return [int(path.read_text()) for path in pathlib.Path(self.folder).glob("[0-9]*/pid")]

    def runs(self):
        """Whether any of them does."""
        return any(processes.is_alive(pid) for pid in self.pids())

    def pause(self):
        for pid in self.pids():
            processes.send(pid, signal.SIGSTOP)

    def resume(self):
        for pid in self.pids():
            processes.send(pid, signal.SIGCONT)

    def kill(self):
        """SIGKILL to all of them; `start_again` brings them back with what they stored."""
        for pid in self.pids():
            processes.kill(pid)
            wait_until(lambda pid=pid: not processes.is_alive(pid), "the end of a broker")

    def start_again(self):
        self._call("start", str(self._count))

    def _tool(self, name, *arguments):
        """One of Kafka's own."""
        words = (pathlib.Path(self.folder) / "1" / "command").read_text().splitlines()
        ended = subprocess.run(["java", "-cp", words[words.index("-cp") + 1], name, "--bootstrap-server", self.bootstrap,
                                *arguments], text=True, capture_output=True, check=False, timeout=120)
        if ended.returncode != 0:
            raise AssertionError(ended.stdout + ended.stderr)

    def produce(self, topic, messages):
        """As anybody may who has the right: dicts of partition, key, value (texts) and headers."""
        ended = subprocess.run([DEBIANS_PYTHON, "-c", PRODUCE, self.bootstrap, topic], input=json.dumps(messages), text=True,
                               capture_output=True, check=False, timeout=120)
        if ended.returncode != 0:
            raise AssertionError(ended.stdout + ended.stderr)

    def delete_topic(self, topic):
        """With all that is in it."""
        self._tool("org.apache.kafka.tools.TopicCommand", "--delete", "--topic", topic)

    def set_topic(self, topic, name, value):
        self._tool("kafka.admin.ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", topic,
                   "--add-config", f"{name}={value}")

    def configuration(self, topic="history", key="journal"):
        """`key`: journal, or publish for an embedded one."""
        return f"{key}: kafka\nkafka:\n  bootstrap: {self.bootstrap}\n  topic: {topic}\n"


class KafkaCase(Case):
    """One broker for all tests of the class, and a receiver for each."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.brokers_folder = tempfile.mkdtemp(prefix="sandglass-kafka-")
        cls.brokers = Brokers(cls.brokers_folder)

    @classmethod
    def tearDownClass(cls):
        cls.brokers.stop()
        shutil.rmtree(cls.brokers_folder, ignore_errors=True)
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.outside = self.receiver()
