"""Folders whose journal moves to a Kafka topic of its own, and back."""

import json
import shutil
import subprocess

from harness import places
from harness.command_line import CommandLine

KILLED = -9
USAGE = 2
FOLDER = 8
PARTITIONS = "engine: {partitions: 2}\n"


def listed_points():
    listed = subprocess.run([places.program("sandglass"), "--list-crash-points"], check=True, text=True,
                            capture_output=True, timeout=30).stdout.split()
    return {point for point in listed if point.startswith("migrate.")}


class Folder:
    """A stopped data folder."""

    def __init__(self, case, data, topic, more=""):
        self.case, self.data = case, data
        self.cli = CommandLine(data)
        self.config = data.with_suffix(".kafka.yaml")
        self.config.write_text(case.brokers.configuration(topic) + more)
        self.embedded = data.with_suffix(".embedded.yaml")
        self.embedded.write_text(self.config.read_text().replace("journal: kafka", "journal: embedded"))

    def _migrate(self, config, options, crash_at, environment=None):
        return self.cli.call("migrate", "--config", config, *options,
                             environment={"SANDGLASS_CRASH_AT": crash_at} if crash_at else environment)

    def migrate(self, *options, crash_at=None, environment=None):
        return self._migrate(self.config, options, crash_at, environment)

    def migrate_back(self, *options, crash_at=None):
        return self._migrate(self.embedded, options, crash_at)

    def _verdict(self, ended):
        self.case.assertEqual(ended.status, 0, str(ended))
        verdict = ended.values[-1]
        self.case.assertEqual(verdict["verdict"], "moved", str(ended))
        return verdict

    def moved(self, *options):
        return self._verdict(self.migrate(*options))

    def moved_back(self, *options):
        return self._verdict(self.migrate_back(*options))

    def records(self):
        """Of every stream, what it holds; owners' streams tell of the move itself."""
        streams = {}
        for line in self.cli.must("audit", "log").values:
            if not line["stream"].startswith("partition-"):
                streams.setdefault(line["stream"], []).append((line["seq"], line["leaf"], line["time_ms"]))
        return streams

    def assert_whole(self, records):
        self.case.assertIs(self.cli.must("audit", "verify").value["good"], True)
        self.case.assertEqual(self.records(), records)
        self.case.assert_history_replays(self.data)


def small_folder(case):
    """With two runs and two partitions, stopped."""
    server = case.server(case.folder / "small", config=PARTITIONS)
    cli = CommandLine(case.folder / "small")
    for count in (1, 3):
        cli.must("start", "hello", "--input", json.dumps({"count": count}), "--wait")
    server.stop()
    return case.folder / "small"


def copied_folder(case, small, name):
    """A copy of it, for a topic of the copy's name."""
    data = case.folder / name
    shutil.copytree(small, data, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
    return Folder(case, data, name, PARTITIONS)
