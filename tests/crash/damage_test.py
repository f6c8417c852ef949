"""One flipped bit anywhere in a data folder (J4, J7, J22): the folder is not opened, and the error names file, place
and remedy; or exactly the streams that need the damaged bytes are stuck (damaged) and named, and all others are as
they were; or every row is as it was. Never another state in silence.

SANDGLASS_SEED=N repeats the draws. The flips and the damaged tables are in the long form (SANDGLASS_LONG=1)."""

import os
import pathlib
import random
import shutil
import subprocess
import time
import unittest

from harness import places
from harness.case import Case
from harness.main_job import Job
from harness.waiting import wait_until

DAMAGED, FOLDER_VERSION, BLOB = 1100, 1107, 1108
EXIT_FOLDER = 8
FLIPS = {"form": 4, "log": 24, "table": 24, "manifest": 8, "other": 2} if not places.LONG else \
        {"form": 40, "log": 1500, "table": 1500, "manifest": 200, "other": 20}


def kind_of(name):
    if name.endswith(".log") and name.startswith("journal/"):
        return "log"
    if name.endswith(".sst"):
        return "table"
    if "MANIFEST" in name:
        return "manifest"
    if name in ("format", "id", "keys/tenant", "journal/CURRENT", "run/journal.mark"):
        return "form"
    return "other"


class Probe:
    """What a folder still is, by the program damage-probe."""

    def __init__(self, folder, now_ms, streams=()):
        ended = subprocess.run([places.program("damage-probe"), str(folder), str(now_ms), *streams],
                               capture_output=True, text=True, timeout=120, check=False)
        self.output = ended.stdout + ended.stderr
        self.crashed = ended.returncode != 0
        self.refusal = None
        self.rows = self.audit = ""
        self.streams = {}
        self.damaged = {}
        for line in ended.stdout.splitlines():
            word, _, rest = line.partition(" ")
            if word == "refused":
                code, _, message = rest.partition(" ")
                self.refusal = (int(code), message)
            elif word == "rows":
                self.rows = rest
            elif word == "audit":
                self.audit = rest
            elif word == "stream":
                stream, _, what = rest.partition(" ")
                (self.damaged if what.startswith("damaged") else self.streams)[stream] = what


class Damage(Case):

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("SANDGLASS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
        self.draw = random.Random(self.seed)

    def build(self):
        """A folder with runs in all states, in tables and in the log. (server, job that waits for its approval)"""
        outside = self.receiver()
        server = self.server(config=outside.configuration())
        for i in range(6):
            self.cli.must("start", "hello", "--input", f'{{"name": "done {i}", "count": 30}}', "--wait")
        for i in range(3):
            self.cli.must("start", "hello", "--input", f'{{"name": "sleeps {i}", "count": 2, "pause_ms": 86400000}}')
        self.assertEqual(server.stop(), 0)  # the next start makes tables of what is in the log
        self.start(server)
        job = Job.start(self.cli, outside)
        job.wait_for_approval()
        run = self.cli.must("start", "hello", "--input", '{"name": "stopped", "count": 2, "pause_ms": 86400000}').value
        self.cli.must("terminate", run["run_id"])
        return server, job

    def files(self):
        for path in sorted(self.data.rglob("*")):
            name = str(path.relative_to(self.data))
            if path.is_file() and not path.is_symlink() and path.stat().st_size > 0 and not name.startswith("log/"):
                yield name

    def flip_one(self, name, bit):
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.data, copy, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
        with open(copy / name, "r+b") as file:
            file.seek(bit // 8)
            byte = file.read(1)[0]
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))
        return Probe(copy, self.now_ms, sorted(self.whole.streams))

    def judge(self, name, bit, found):
        where = f"{name} byte {bit // 8} bit {bit % 8} (seed {self.seed}):\n{found.output}"
        self.assertFalse(found.crashed, where)
        if found.refusal:
            code, message = found.refusal
            self.assertIn(code, (DAMAGED, FOLDER_VERSION), where)
            self.assertIn(pathlib.Path(name).name, message, f"the refusal does not name the file; {where}")
            self.assertRegex(message, r"[Rr]estore|backup|Put |write that id|Sandglass that wrote|another folder", where)
            if kind_of(name) in ("log", "table", "manifest"):
                self.assertRegex(message, r"byte \d|offset \d|magic", f"the refusal does not name the place; {where}")
            return "refused"
        for stream, state in found.streams.items():
            self.assertEqual(state, self.whole.streams[stream], f"{stream} changed in silence; {where}")
        self.assertEqual(set(found.streams) | set(found.damaged), set(self.whole.streams), where)
        if found.damaged or found.rows != self.whole.rows:
            named = found.damaged or found.rows.startswith("damaged") or found.audit != self.whole.audit
            self.assertTrue(named, f"rows changed and nobody is named; {where}")
            if found.damaged:
                self.assertNotEqual(found.audit, self.whole.audit, f"the audit does not see it; {where}")
            return "parked"
        self.assertEqual(found.audit, self.whole.audit, where)
        return "harmless"

    def flip_all(self):
        self.now_ms = int(time.time() * 1000)
        pristine = self.folder / "pristine"
        shutil.rmtree(pristine, ignore_errors=True)
        shutil.copytree(self.data, pristine, ignore=shutil.ignore_patterns("*.sock"))
        self.whole = Probe(pristine, self.now_ms)
        self.assertIsNone(self.whole.refusal, self.whole.output)
        self.assertFalse(self.whole.damaged, self.whole.output)
        self.assertGreater(len(self.whole.streams), 15, self.whole.output)
        counts = {}
        names = list(self.files())
        by_kind = {}
        for name in names:
            by_kind.setdefault(kind_of(name), []).append(name)
        self.assertLessEqual({"log", "table", "manifest", "form"}, set(by_kind), names)
        for kind, of_kind in by_kind.items():
            # Of each file at least one; of the big ones many.
            rounds = FLIPS[kind] if kind in ("form", "other") else max(1, FLIPS[kind] // len(of_kind))
            for name in of_kind:
                for _ in range(rounds):
                    bit = self.draw.randrange((self.data / name).stat().st_size * 8)
                    outcome = self.judge(name, bit, self.flip_one(name, bit))
                    counts.setdefault(kind, {}).setdefault(outcome, 0)
                    counts[kind][outcome] += 1
        print(f"seed {self.seed}: {counts}", flush=True)
        self.assertNotIn("harmless", counts["log"], "every byte of a log that was synced is checked")
        self.assertNotIn("parked", counts["form"])
        return counts

    if places.LONG:

        def test_a_bit_flipped_after_an_orderly_end_and_after_a_kill(self):
            server, _ = self.build()
            self.assertEqual(server.stop(), 0)
            self.flip_all()
            self.start(server)
            for i in range(4):
                self.cli.must("start", "hello", "--input", f'{{"name": "later {i}", "count": 10}}', "--wait")
            self.kill_all(server)
            self.flip_all()

    def kill_all(self, server):
        children = [server.child(name) for name in ("engine", "effect", "host", "egress")]
        server.kill()
        for child in filter(None, children):
            wait_until(lambda child=child: not pathlib.Path(f"/proc/{child}").exists(), f"the end of process {child}")

    def refused_start(self, *words):
        server = self.server(start=False)
        report = server.start()
        server.wait()  # it says so before it has ended
        self.assertTrue(report.startswith("error 1100"), report)
        for word in words:
            self.assertIn(word, report)
        return report

    # J7: what a cut log, one that is gone or one that is older says through the real server.
    def test_a_cut_or_missing_log_and_a_changed_key_keep_the_server_from_starting(self):
        server = self.server()
        for i in range(4):
            self.cli.must("start", "hello", "--input", f'{{"name": "n {i}", "count": 10}}', "--wait")
        self.kill_all(server)
        log = max((path for path in (self.data / "journal").glob("*.log") if path.stat().st_size), key=lambda p: p.name)
        whole = log.read_bytes()
        os.truncate(log, len(whole) // 2)
        self.refused_start(log.name, f"byte {len(whole) // 2}", "backup", "journal.mark")
        audit = self.cli.call("audit", "verify", as_name="auditor", json_output=False)
        self.assert_error(audit, DAMAGED, EXIT_FOLDER, log.name)
        log.unlink()
        self.refused_start(log.name, "missing")
        log.write_bytes(whole)
        key = self.data / "keys/tenant"
        good = key.read_bytes()
        key.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        self.refused_start("keys/tenant", "backup")
        key.write_bytes(good)
        self.server()
        self.assertEqual(self.cli.must("audit", "verify", as_name="auditor", json_output=False).status, 0)

    # A damaged table: the streams in it are named by list, show and the audit, and the others go on.
    if places.LONG:

        def test_a_damaged_table_parks_the_streams_in_it_and_they_are_named(self):
            server = self.server()
            for i in range(6):
                self.cli.must("start", "hello", "--input", f'{{"name": "done {i}", "count": 30}}', "--wait")
            self.assertEqual(server.stop(), 0)
            self.start(server)  # makes tables of what was in the log
            before = {run["run_id"]: run for run in self.cli.must("list").value["runs"]}
            self.assertEqual(server.stop(), 0)
            self.now_ms = int(time.time() * 1000)
            self.whole = Probe(shutil.copytree(self.data, self.folder / "pristine",
                                               ignore=shutil.ignore_patterns("*.sock")), self.now_ms)
            tables = [name for name in self.files() if name.endswith(".sst")]
            for _ in range(200):  # until the damage lies in a run's own records
                name = self.draw.choice(tables)
                bit = self.draw.randrange((self.data / name).stat().st_size * 8)
                found = self.flip_one(name, bit)
                runs = [stream for stream in found.damaged if stream.startswith("run-")]
                if runs and not found.refusal and len(runs) == len(found.damaged):
                    break
            else:
                self.fail(f"no flip of 200 hit a run's records (seed {self.seed})")
            shutil.rmtree(self.data)
            shutil.copytree(self.folder / "copy", self.data, symlinks=True)
            self.start(server)
            for run in runs:
                shown = self.cli.must("show", run).value
                self.assertEqual(shown["summary"]["status"], "stuck", shown)
                self.assertEqual(shown["error_code"], 1109, shown)
                self.assertIn(pathlib.Path(name).name, shown["error"], "the file is not named")
                self.assertIn("stuck (damaged)", self.cli.must("show", run, json_output=False).output)
            listed = {each["run_id"]: each for each in self.cli.must("list").value["runs"]}
            for run, each in listed.items():
                self.assertEqual(each["status"], "stuck" if run in runs else before[run]["status"], each)
            self.assertIn("stuck (damaged)", self.cli.must("list", json_output=False).output)
            audit = self.cli.call("audit", "verify", as_name="auditor", json_output=False)
            self.assertEqual(audit.status, EXIT_FOLDER, str(audit))
            for run in runs:
                self.assertIn(run, audit.output)
            # Others begin and end.
            self.cli.must("start", "hello", "--input", '{"name": "after", "count": 3}', "--wait")

        # A damaged blob is named when it is read; nothing of it is kept, and other artifacts are read as before.
    def test_a_damaged_blob_is_named_when_its_artifact_is_got(self):
        _, job = self.build()
        names = sorted(job.artifacts())
        damaged = 0
        for path in sorted((self.data / "blobs").rglob("*")):
            if not path.is_file() or path.stat().st_size == 0:
                continue
            good = path.read_bytes()
            at = self.draw.randrange(len(good))
            path.write_bytes(good[:at] + bytes([good[at] ^ 1 << self.draw.randrange(8)]) + good[at + 1:])
            for name in names:
                kept = self.folder / "kept"
                ended = self.cli.call("artifact", "get", job.run_id, name, "-o", kept)
                if ended.status == 0:
                    kept.unlink()
                    continue
                damaged += 1
                self.assert_error(ended, BLOB, EXIT_FOLDER, path.name, "damaged")
                self.assertFalse(kept.exists(), "damaged bytes were left under the artifact's name")
            path.write_bytes(good)
        self.assertEqual(damaged, len(names), "each artifact was damaged once")


if __name__ == "__main__":
    unittest.main()
