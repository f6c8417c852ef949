"""Kafka brokers of a test's own, made by scripts/kafka."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from harness import places, processes
from harness.case import Case
from harness.waiting import wait_until


class Brokers:
    """One broker (or three), started and ready. `stop` ends them and deletes what they stored."""

    def __init__(self, folder, count=1):
        self.folder = folder
        self._count = count
        self._environment = {**os.environ, "SANDGLASS_KAFKA_FOLDER": str(folder)}
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
