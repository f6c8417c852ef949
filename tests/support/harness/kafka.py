"""Kafka brokers of a test's own, made by scripts/kafka."""

import os
import subprocess

from harness import places


class Brokers:
    """One broker (or three), started and ready. `stop` ends them and deletes what they stored."""

    def __init__(self, folder, count=1):
        self.folder = folder
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

    def configuration(self, topic="history"):
        return f"journal: kafka\nkafka:\n  bootstrap: {self.bootstrap}\n  topic: {topic}\n"
