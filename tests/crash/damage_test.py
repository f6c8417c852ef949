"""One flipped bit anywhere in a data folder (J4, J7, J22): the folder is not opened, and the error names file, place
and remedy; or exactly the streams that need the damaged bytes are stuck (damaged) and named, and all others are as
they were; or every row is as it was. Never another state in silence.

What is derived from records can be damaged too: whoever needs it says so and names `sandglass rebuild`, which makes it
anew. SANDGLASS_SEED=N repeats the draws; the long form (SANDGLASS_LONG=1) makes many more."""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
from concurrent import futures

from harness import places
from harness.case import Case
from harness.command_line import CommandLine
from harness.main_job import Job
from harness.waiting import wait_until

DAMAGED, FOLDER_VERSION, BLOB = 1100, 1107, 1108
EXIT_FOLDER = 8
DUE, VISIBILITY = "1", "4"  # indexes (engine/view/keys.h)
# Of each kind of file, and at least one of each file of it.
FLIPS = {"form": 20, "log": 300, "table": 500, "manifest": 60, "other": 1}
PROBES_AT_ONCE = 2
REBUILD = "sandglass rebuild"


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
                               capture_output=True, timeout=120, check=False)
        told = ended.stdout + ended.stderr
        self.output = told.decode("utf-8", "backslashreplace")
        self.garbled = self.output.encode() != told  # it shows bytes of the damaged file
        self.crashed = ended.returncode != 0
        self.refusal = None
        self.rows = self.audit = self.listed = ""
        self.streams = {}
        self.damaged = {}
        for line in self.output.splitlines():
            word, _, rest = line.partition(" ")
            if word == "refused":
                code, _, message = rest.partition(" ")
                self.refusal = (int(code), message)
            elif word == "rows":
                self.rows = rest
            elif word == "listed":
                self.listed = rest
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
        self.now_ms = 0
        self.whole = None
        # Copies live where syncing costs nothing; what is measured is what the files say.
        memory = pathlib.Path("/dev/shm")
        self.copies = pathlib.Path(tempfile.mkdtemp(prefix="sandglass-test-", dir=memory if memory.is_dir() else None))
        self.addCleanup(shutil.rmtree, self.copies, ignore_errors=True)

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

    def sleeper(self, name):
        """A run that has done its first step and waits for a day."""
        run = self.cli.must("start", "hello", "--input",
                            f'{{"name": "{name}", "count": 2, "pause_ms": 86400000}}').value["run_id"]
        wait_until(lambda: int(self.cli.must("show", run).value["summary"]["head"]) >= 2, f"the first step of {run}")
        return run

    @staticmethod
    def files(folder):
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_file() and not path.is_symlink() and path.stat().st_size > 0 and not name.startswith("log/"):
                yield name

    def take_pristine(self):
        """What the data folder of the stopped server is, and what it says of itself."""
        pristine = self.copies / "pristine"
        shutil.rmtree(pristine, ignore_errors=True)
        # Images are the disks of sandboxes that are gone, gigabytes of nothing.
        shutil.copytree(self.data, pristine, ignore=shutil.ignore_patterns("*.sock", "*.img"))
        self.now_ms = int(time.time() * 1000)
        self.whole = Probe(self.copy_of(pristine, "whole"), self.now_ms)
        self.assertIsNone(self.whole.refusal, self.whole.output)
        self.assertFalse(self.whole.damaged, self.whole.output)
        return pristine

    def copy_of(self, pristine, name):
        """A copy that can be opened. Tables and blobs are never written to: they are the same files."""
        copy = self.copies / name
        shutil.rmtree(copy, ignore_errors=True)

        def take(source, target):
            kept = source.endswith(".sst") or "/blobs/" in source
            return os.link(source, target) if kept else shutil.copy2(source, target)
        shutil.copytree(pristine, copy, symlinks=True, copy_function=take)
        return copy

    def flipped(self, pristine, name, bit, copy_name="copy"):
        copy = self.copy_of(pristine, copy_name)
        whole = (pristine / name).read_bytes()
        at = bit // 8
        (copy / name).unlink()
        (copy / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit % 8]) + whole[at + 1:])
        return copy

    def random_bit(self, pristine, name):
        whole = (pristine / name).read_bytes()
        if name.endswith(".log"):
            whole = whole.rstrip(b"\0")  # a file that was not closed ends with room
        return self.draw.randrange(len(whole) * 8)

    def judge(self, name, bit, found):
        where = f"{name} byte {bit // 8} bit {bit % 8} (seed {self.seed}):\n{found.output}"
        self.assertFalse(found.crashed or found.garbled, where)
        if found.refusal:
            code, message = found.refusal
            self.assertIn(code, (DAMAGED, FOLDER_VERSION), where)
            self.assertIn(pathlib.Path(name).name, message, f"the refusal does not name the file; {where}")
            self.assertRegex(message, r"[Rr]estore|backup|Put |write that id|Sandglass that wrote|another folder|" + REBUILD, where)
            if kind_of(name) in ("log", "table", "manifest"):
                self.assertRegex(message, r"byte \d|offset \d|magic|properties", f"the refusal does not name the place; {where}")
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

    def try_flip(self, pristine, name, bit, number):
        """The outcome of one flipped bit. What can be made anew is made anew, and is then as it was."""
        copy = self.flipped(pristine, name, bit, f"copy-{number % PROBES_AT_ONCE}")
        found = Probe(copy, self.now_ms, sorted(self.whole.streams))
        outcome = self.judge(name, bit, found)
        if found.rows.startswith("damaged"):
            self.flipped(pristine, name, bit, copy.name)  # as it was before the probe opened it
            where = f"{name} byte {bit // 8} bit {bit % 8} (seed {self.seed}):\n{found.output}\n"
            outcome += self.make_anew(copy, found.audit == self.whole.audit, where)
        return outcome

    def make_anew(self, copy, records_are_whole, where):
        """By `sandglass rebuild`; what it says must be true."""
        rebuilt = CommandLine(copy).call("rebuild")
        where += str(rebuilt)
        if not records_are_whole:
            self.assertEqual(rebuilt.status, EXIT_FOLDER, where)
            if "damaged" not in rebuilt.value:
                return ", not to be made anew"  # what is damaged is no stream's
        else:
            self.assertEqual(rebuilt.status, 0, where)
        again = Probe(copy, self.now_ms, sorted(self.whole.streams))
        where += again.output
        self.assertIsNone(again.refusal, where)
        self.assertLessEqual(set(again.damaged), {each["stream"] for each in rebuilt.value["damaged"]}, where)
        for stream, state in again.streams.items():
            self.assertEqual(state, self.whole.streams[stream], where)
        if records_are_whole:
            self.assertEqual((again.rows, again.audit), (self.whole.rows, self.whole.audit), where)
        return ", made anew" if records_are_whole else ", the rest made anew"

    def flip_all(self):
        pristine = self.take_pristine()
        self.assertGreater(len(self.whole.streams), 15, self.whole.output)
        by_kind = {}
        for name in self.files(pristine):
            by_kind.setdefault(kind_of(name), []).append(name)
        self.assertLessEqual({"log", "table", "manifest", "form"}, set(by_kind), by_kind)
        flips = []
        for kind, names in by_kind.items():
            rounds = FLIPS[kind] if kind in ("form", "other") else max(1, FLIPS[kind] // len(names))
            flips += [(name, self.random_bit(pristine, name)) for name in names for _ in range(rounds)]
        counts, wrong = {}, []

        def try_share(first):
            for i in range(first, len(flips), PROBES_AT_ONCE):  # a worker a copy
                kind, outcome = kind_of(flips[i][0]), "wrong"
                try:
                    outcome = self.try_flip(pristine, *flips[i], i)
                except AssertionError as error:
                    wrong.append(str(error))
                    print(error, flush=True)  # now: there is much to come
                with counting:
                    counts.setdefault(kind, {}).setdefault(outcome, 0)
                    counts[kind][outcome] += 1
        counting = threading.Lock()
        with futures.ThreadPoolExecutor(PROBES_AT_ONCE) as workers:
            for share in [workers.submit(try_share, first) for first in range(PROBES_AT_ONCE)]:
                share.result()
        print(f"seed {self.seed}: {counts}", flush=True)
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(flips)} flips")
        self.assertNotIn("harmless", counts["log"], "every byte of a log that was synced is checked")
        self.assertNotIn("parked", counts["form"])

    @unittest.skipUnless(places.LONG, "the long form")
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

    def damage_row(self, rows, wanted):
        """The stopped server's data folder with a bit flipped in the table's block that holds one of these rows, the first of
        which `wanted` holds. Its file's name and what was found. Rows are named as the program row-place takes them."""
        pristine = self.take_pristine()
        tried = []
        for row in rows:
            ended = subprocess.run([places.program("row-place"), str(pristine), *row], capture_output=True, text=True,
                                   timeout=60, check=False)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            word, name, first, count = ended.stdout.split()
            self.assertEqual(word, "place", ended.stdout)
            bit = 8 * int(first) + self.draw.randrange(8 * int(count))
            found = Probe(self.flipped(pristine, name, bit), self.now_ms, sorted(self.whole.streams))
            if wanted(found):
                shutil.rmtree(self.data)
                shutil.copytree(self.flipped(pristine, name, bit), self.data, symlinks=True)
                return pathlib.Path(name).name, found
            tried.append(f"{row}: {name} byte {bit // 8}\n{found.output}")
        return self.fail(f"no row of these was such (seed {self.seed}):\n" + "\n".join(tried))

    # A damaged table: the streams in it are named by list, show and the audit, and the others go on.
    def test_a_damaged_table_parks_the_streams_in_it_and_they_are_named(self):
        server = self.server()
        for i in range(6):
            self.cli.must("start", "hello", "--input", f'{{"name": "done {i}", "count": 30}}', "--wait")
        # What is damaged in one of these is needed, as it is in no snapshot, and fills a block alone.
        sleepers = [self.sleeper("x" * 5000) for _ in range(4)]
        self.assertEqual(server.stop(), 0)
        self.start(server)  # makes tables of what was in the log
        before = {run["run_id"]: run for run in self.cli.must("list").value["runs"]}
        self.assertEqual(server.stop(), 0)

        def wanted(found):
            """The damage lies in runs' own records."""
            runs = [stream for stream in found.damaged if stream.startswith("run-")]
            return runs and not found.refusal and len(runs) == len(found.damaged)
        table, found = self.damage_row([("record", run, "2") for run in sleepers], wanted)
        runs = list(found.damaged)
        self.start(server)
        for run in runs:
            shown = self.cli.must("show", run).value
            self.assertEqual(shown["summary"]["status"], "stuck", shown)
            self.assertEqual(shown["error_code"], 1109, shown)
            self.assertIn(table, shown["error"], "the file is not named")
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
        # Records cannot be made anew: that is said, the streams stay parked, and nothing of them is rolled back.
        self.assertEqual(server.stop(), 0)
        rebuilt = self.cli.call("rebuild")
        self.assertEqual(rebuilt.status, EXIT_FOLDER, str(rebuilt))
        self.assertEqual({each["stream"] for each in rebuilt.value["damaged"]}, set(runs))
        self.start(server)
        wait_until(lambda: {each["run_id"] for each in self.cli.must("list").value["runs"] if each["status"] == "stuck"}
                   == set(runs), f"{runs} to be listed as stuck, before anybody looks at them")
        for run in runs:
            self.assertEqual(self.cli.must("show", run).value["error_code"], 1109)
        listed = {each["run_id"]: each for each in self.cli.must("list").value["runs"]}
        for run in before:
            self.assertIn(run, listed)
            self.assertEqual(listed[run]["status"], "stuck" if run in runs else before[run]["status"])

    # What a finished run did long ago is read when somebody asks for it: then the damage is told, and listed from then on.
    def test_a_finished_run_with_a_damaged_record_is_told_when_it_is_read(self):
        server = self.server()
        run = self.cli.must("start", "hello", "--input", '{"name": "done", "count": 300}', "--wait").value["run_id"]
        other = self.cli.must("start", "hello", "--input", '{"name": "other", "count": 1}', "--wait").value["run_id"]
        self.assertEqual(server.stop(), 0)
        self.start(server)  # makes tables of what was in the log
        self.assertEqual(server.stop(), 0)
        table, _ = self.damage_row([("record", run, "20")], lambda found: not found.refusal and not found.damaged
                                   and found.audit != self.whole.audit)
        self.start(server)
        shown = self.cli.must("show", run).value
        self.assertEqual((shown["summary"]["status"], shown["error_code"]), ("stuck", 1109), shown)
        self.assertIn(table, shown["error"], "the file is not named")
        listed = {each["run_id"]: each["status"] for each in self.cli.must("list").value["runs"]}
        self.assertEqual(listed, {run: "stuck", other: "completed"})
        self.assertIn("stuck (damaged)", self.cli.must("list", json_output=False).output)

    # J11: rows that list reads are made from records. Everything else goes on without them until they are made anew.
    def test_a_damaged_table_with_rows_of_the_listing_is_named_and_made_anew(self):
        settings = ("engine.partitions=1",)  # so that these rows fill a block alone
        server = self.server(settings=settings)
        for i in range(60):
            self.cli.must("start", "hello", "--input", f'{{"name": "done {i}", "count": 1}}', "--session", self.draw.randbytes(30).hex())
        sleeper = self.cli.must("start", "hello", "--input", '{"name": "z", "count": 2, "pause_ms": 4000}').value["run_id"]
        self.assertEqual(server.stop(), 0)
        self.start(server)
        before = {run["run_id"] for run in self.cli.must("list", "--limit", "100").value["runs"]}
        self.assertEqual(server.stop(), 0)
        table, _ = self.damage_row([("index", VISIBILITY, VISIBILITY)], lambda found: not found.refusal and not found.damaged
                                   and found.listed.startswith("damaged"))
        self.start(server)
        self.assert_error(self.cli.call("list", "--limit", "100"), DAMAGED, EXIT_FOLDER, table, "offset", REBUILD)
        # Healthy runs go on, new ones begin and end, and each can be shown.
        after = self.cli.must("start", "hello", "--input", '{"name": "after", "count": 3}', "--wait").value["run_id"]
        self.cli.must("watch", sleeper)
        for run in [*sorted(before)[:5], after, sleeper]:
            self.assertEqual(self.cli.must("show", run).value["summary"]["status"], "completed")
        refused = self.cli.call("rebuild")
        self.assertEqual(refused.status, EXIT_FOLDER, "the server still has the folder: " + str(refused))
        self.assertEqual(server.stop(), 0)
        made = self.cli.must("rebuild").value
        self.assertEqual(made["damaged"], [])
        self.assertTrue((pathlib.Path(made["kept"]) / "CURRENT").exists(), "the former journal is kept")
        self.start(server)
        listed = {run["run_id"]: run["status"] for run in self.cli.must("list", "--limit", "100").value["runs"]}
        self.assertEqual(listed, dict.fromkeys(before | {after}, "completed"))
        self.assertEqual(self.cli.must("audit", "verify", as_name="auditor").value["good"], True)
        self.assertEqual(server.stop(), 0)
        self.assert_history_replays()

    # The same of rows without which nobody knows what is to be done next.
    def test_a_damaged_table_with_rows_that_opening_needs_is_refused_and_made_anew(self):
        server = self.server(settings=("engine.partitions=1",))
        for i in range(150):  # so that such rows and those that are derived too fill a block alone
            self.cli.must("start", "hello", "--input", f'{{"name": "sleeps {i}", "count": 2, "pause_ms": 86400000}}')
        self.assertEqual(server.stop(), 0)
        self.start(server)
        before = self.cli.must("list").value["runs"]
        self.assertEqual(server.stop(), 0)
        table, _ = self.damage_row([("index", DUE, VISIBILITY)], lambda found: found.refusal and REBUILD in found.refusal[1])
        self.refused_start(table, "offset", REBUILD)
        self.cli.must("rebuild")
        self.start(server)
        self.assertEqual(self.cli.must("list").value["runs"], before)
        run = before[0]["run_id"]
        self.cli.must("cancel", run)
        self.assertEqual(server.stop(), 0)
        self.assert_history_replays()

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
