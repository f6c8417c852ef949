"""Makes a set of golden histories: record.py FOLDER, with SANDGLASS_BUILD and SANDGLASS_SOURCE set and
tests/support on PYTHONPATH. The folder must not exist."""

import collections
import json
import pathlib
import sys
import unittest

from harness.case import Case
from harness.main_job import Job
from harness.waiting import wait_until

FOLDER = pathlib.Path(sys.argv[1])


def facts(cli, file):
    return cli.must("debug", "--file", file, "--all").values[-1]["state"]


class Record(Case):
    """Runs of every end, with what they cause in the other streams."""

    def jobs(self):
        outside = self.receiver()
        self.server(config=outside.configuration())
        approved, denied = (Job.start(self.cli, outside, variant) for variant in ("total", "slug"))
        approved.approve(approved.wait_for_approval())
        self.cli.must("deny", denied.wait_for_approval()["approval_id"], "--reason", "not this one", as_name="approver")
        for job in (approved, denied):
            job.wait_for_end()

    def small_runs(self):
        def start(value):
            return self.cli.must("start", "hello", "--input", json.dumps(value)).value["run_id"]
        done = start({"count": 3})
        for run in (done, start({"count": 2, "pause_ms": 5})):
            self.cli.must("watch", run)
        for end in ("cancel", "terminate"):
            run = start({"count": 2, "pause_ms": 60_000})
            self.cli.must(end, run, "--reason", "golden")
        self.cli.call("signal", done, "too-late")  # a refusal
        self.cli.must("token", "create", "guest", "--role", "user")
        self.cli.must("token", "revoke", "guest")

    def family(self):
        """Child runs, runs that go on as others, attributes, an update, and a schedule."""
        family = self.cli.must("start", "hello", "--input", json.dumps(
            {"each": ["Ann", "Bob"], "rounds": 2, "attributes": {"order": "A-17"}})).value["run_id"]
        self.cli.must("watch", family)
        updated = self.cli.must("start", "hello", "--input", json.dumps({"count": 2, "pause_ms": 300})).value["run_id"]
        self.cli.must("update", updated, "greet", "--input", '"Cleo"')
        self.cli.must("watch", updated)
        self.cli.must("schedule", "create", "hourly", "--cron", "0 * * * *", "--zone", "Europe/Berlin", "--workflow", "hello")
        self.cli.must("schedule", "trigger", "hourly")
        wait_until(lambda: self.cli.must("schedule", "show", "hourly").value["started"] == 1, "the fire")
        wait_until(lambda: not self.cli.must("schedule", "show", "hourly").value["open"], "its end")
        self.cli.must("schedule", "pause", "hourly")

    def test_record(self):
        self.jobs()
        self.small_runs()
        self.family()
        self.server_of_record_stopped()
        streams = collections.Counter()
        FOLDER.mkdir(parents=True)
        for stream in dict.fromkeys(line["stream"] for line in self.cli.must("audit", "log").values):
            kind = stream.split("-")[0]
            streams[kind] += 1
            file = FOLDER / f"{kind}-{streams[kind]}.history"
            self.cli.must("history", "export", stream, file)
            file.with_suffix(".facts").write_text(json.dumps(facts(self.cli, file), indent=1, sort_keys=True) + "\n")

    def server_of_record_stopped(self):
        for server in self._servers:
            server.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
